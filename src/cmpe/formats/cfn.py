"""Cost function networks: what toulbar2 reads, in memory and as `.cfn` files (JSON).

toulbar2 minimises and counts in integers, and its upper bounds are strict. So every table is
scaled and rounded: cost = round(-scale * h). What rounding moves a sum by at most is known
(`rounding`); each constraint is loosened by it, so that no feasible assignment is lost, and the
caller tests what comes back.

One constraint becomes a second network with a limit on its cost. toulbar2 1.4 crashes on some
problems with several of those, so several constraints become knapsacks over the entries, with
weights of at least 0: weights of both signs made it prove a wrong optimum. It also crashes on wide
tables in a second network: a table over more than NARROW variables (WIDEST, if only the objective
has it) becomes a unary table over one new variable whose values are the entries, channelled to the
variables of the scope by hard binary tables.
"""

from __future__ import annotations

import json
import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.errors import InputError
from cmpe.formats.text import write_text
from cmpe.problem import Constraint, Evidence, Instances, Problem

LARGEST_COST = 10**15  # The sum of all costs stays below it.
DIGITS = 9  # Costs have at most this many decimals.
WIDEST, NARROW = 3, 2  # variables of a table that is posted as it is; of a constraint's
PADDING = 1e-8  # A limit q is loosened by this times max(1, |q|) beyond its tolerance.
FORBIDDEN = math.inf

Function = tuple[tuple[str, ...], list[float]]  # (variable names, costs: whole numbers or inf)


@dataclass(frozen=True)
class CostLimit:
    """A constraint: the sum of these functions is at most `limit`."""

    functions: list[Function]
    limit: int
    digits: int  # of a nat that a unit stands for

    @cached_property
    def lowest(self) -> int:
        """The least the sum can be if every table is at its least."""
        return int(sum(min(costs) for _, costs in self.functions))

    @property
    def is_idle(self) -> bool:
        """Whether it holds whatever is chosen."""
        return sum(max(costs) for _, costs in self.functions) <= self.limit


class CostNetwork:
    """One row of instances as integer cost functions over named variables."""

    def __init__(
        self, instances: Instances, row: int, *, linear: bool = False, one_unit: bool = False
    ) -> None:
        """`linear`: knapsacks also for one constraint; `one_unit`: the same for all functions."""
        self.structure = instances.conditioning
        self._starts = self.structure.layout.offsets
        here = slice(row, row + 1)
        constraints = instances.problem.constraints
        tables = [instances.tables(k, here)[0] for k in range(1 + len(constraints))]
        self.linear = linear or len(constraints) > 1
        self._wide = self._wide_scopes(tables[1:])
        digits = [_digits(table) for table in tables]
        if one_unit:
            digits = [min(digits)] * len(digits)
        self.digits = digits[0]
        costs, self.rounding = self._rounded(-tables[0] * self.scale)
        self.objective = self._functions(costs)
        self.limits = list(map(self._limit, constraints, tables[1:], digits[1:]))

    @property
    def scale(self) -> float:
        """Units per nat of the objective."""
        return 10.0**self.digits

    def _wide_scopes(self, tables: Sequence[Floats]) -> list[bool]:
        """Which scopes need an entry variable; more of them do where a constraint has a table."""
        narrow = 1 if self.linear else NARROW
        used = np.zeros(len(self.structure.scopes), dtype=bool)
        for table in tables:
            used |= np.logical_or.reduceat(table != 0.0, self._starts[:-1])
        arity = np.array([len(scope) for scope in self.structure.scopes])
        return [bool(wide) for wide in arity > np.where(used, narrow, WIDEST)]

    def _rounded(self, units: Floats) -> tuple[Floats, int]:
        """Whole units, and by how much a sum over all tables may be off."""
        whole = np.rint(units)
        with np.errstate(invalid="ignore"):
            off = np.where(np.isfinite(units), np.abs(whole - units), 0.0)
        return whole, math.ceil(np.maximum.reduceat(off, self._starts[:-1]).sum()) + 1

    @cached_property
    def variables(self) -> dict[str, int]:
        """Sizes by name: the free variables in order, then the entry variables."""
        sizes = {f"z{v}": self.structure.cardinalities[v] for v in self.structure.free}
        for k in range(len(self.structure.scopes)):
            if self._wide[k]:
                sizes[f"e{k}"] = int(self._starts[k + 1] - self._starts[k])
        return sizes

    def _names(self, k: int) -> tuple[str, ...]:
        return (f"e{k}",) if self._wide[k] else tuple(f"z{v}" for v in self.structure.scopes[k])

    def _functions(self, table: Floats) -> list[Function]:
        return [
            (self._names(k), table[self._starts[k] : self._starts[k + 1]].tolist())
            for k in range(len(self.structure.scopes))
        ]

    def _limit(self, constraint: Constraint, table: Floats, digits: int) -> CostLimit:
        """-inf becomes a cost low enough to satisfy the constraint on its own."""
        satisfied, scale = np.isneginf(table), 10.0**digits
        costs, rounding = self._rounded(np.where(satisfied, 0.0, table) * scale)
        limit = math.floor(constraint.loosened(PADDING) * scale) + rounding
        if satisfied.any():
            highest = np.maximum.reduceat(costs, self._starts[:-1]).sum()
            costs[satisfied] = min(0.0, limit - highest)
        used = [f for f in self._functions(costs) if any(f[1])]
        return CostLimit(used, limit, digits)

    def channels(self) -> list[Function]:
        """Hard binary tables that make each entry variable agree with its scope."""
        functions: list[Function] = []
        for k, scope in enumerate(self.structure.scopes):
            if self._wide[k]:
                sizes = [self.structure.cardinalities[v] for v in scope]
                for digits, variable, size in zip(np.indices(sizes), scope, sizes, strict=True):
                    agree = digits.ravel()[:, np.newaxis] == np.arange(size)
                    costs = np.where(agree, 0.0, FORBIDDEN).ravel().tolist()
                    functions.append(((f"e{k}", f"z{variable}"), costs))
        return functions

    @property
    def is_hopeless(self) -> bool:
        """Whether a constant alone rules everything out (toulbar2 does not look)."""
        constant = [costs[0] for names, costs in self.objective if not names]
        return FORBIDDEN in constant or any(c.limit < c.lowest for c in self.limits)

    def text(self, name: str) -> str:
        """The `.cfn` file; a nested network must start on a line of its own."""
        top = (
            sum(
                max((abs(c) for c in costs if c != FORBIDDEN), default=0)
                for _, costs in self.objective
            )
            + 1
        )
        lines = _function_lines(self.objective + self.channels(), self.digits, top)
        variables = self.variables
        if self.is_hopeless:
            variables = variables or {"none": 1}
            first, size = next(iter(variables.items()))
            lines.append(_function_line("none", (first,), [FORBIDDEN] * size, self.digits, top))
        else:  # a limit on a constant holds, or this were hopeless; toulbar2 crashes reading one
            line = self._knapsack_line if self.linear else self._network_line
            lines += [line(f"limit{j}", c) for j, c in enumerate(self.limits) if not c.is_idle]
        return _network_text(name, variables, lines, self.digits, top)

    def _network_line(self, name: str, constraint: CostLimit) -> str:
        top = (
            sum(max(map(abs, costs)) for _, costs in constraint.functions)
            + abs(constraint.limit)
            + 1
        )
        digits = constraint.digits
        lines = _function_lines(constraint.functions, digits, top)
        inner = _network_text("constraint", self.variables, lines, digits, top)
        lowest, limit = (_decimal(c, digits) for c in (constraint.lowest - 1, constraint.limit + 1))
        return (
            f'"{name}":{{"scope":{_json(list(self.variables))},"type":"cfnconstraint","params":{{\n'
            f'"cfn":\n{inner},\n"lb":{lowest},"ub":{limit},"duplicatehard":0,"strongduality":0}}}}'
        )

    def _knapsack_line(self, name: str, constraint: CostLimit) -> str:
        weights, capacity = knapsack(constraint)
        scope = sorted({variable for variable, _, _ in weights})
        params = {"capacity": capacity, "weightedvalues": [list(w) for w in weights]}
        function = {"scope": scope, "type": "knapsackv", "params": params}
        return f'"{name}":{_json(function)}'

    def cost(self, free_values: Sequence[int]) -> float:
        """The objective's cost of an assignment: inf where it is forbidden."""
        value = dict(zip(self.structure.free, free_values, strict=True))
        total = 0.0
        for (_, costs), scope in zip(self.objective, self.structure.scopes, strict=True):
            place = 0
            for variable in scope:
                place = place * self.structure.cardinalities[variable] + value[variable]
            total += costs[place]
        return total


def knapsack(constraint: CostLimit) -> tuple[list[tuple[str, int, int]], int]:
    """A limit on a sum of unary functions as weights of at least 0 whose sum has a least value.

    A value weighs how far its cost is below the greatest of its function: (variable, value,
    weight), and the sum of those that are selected must be at least the second result.
    """
    weights, room = [], constraint.limit
    for names, costs in constraint.functions:
        room -= int(max(costs))
        for value, cost in enumerate(costs if names else []):
            if cost < max(costs):
                weights.append((names[0], value, int(max(costs)) - int(cost)))
    return weights, -room


def write_cfn(problem: Problem, path: Path | str, evidence: Evidence | None = None) -> None:
    """Write the whole problem given one row of evidence; free variables are named z0, z1, ..."""
    instances = problem.given(evidence)
    if len(instances) != 1:
        raise InputError(f"{path}: a .cfn file holds one row of evidence, found {len(instances)}")
    network = CostNetwork(instances, 0, one_unit=True)
    allowed = string.ascii_letters + string.digits + "-."
    clean = "".join(c if c in allowed else "_" for c in problem.name or "cmpe")
    write_text(path, network.text(clean) + "\n")


def _digits(table: Floats) -> int:
    largest = float(np.abs(table[np.isfinite(table)]).sum())
    if largest > LARGEST_COST:
        raise InputError(
            f"toulbar2 counts costs up to {LARGEST_COST:.0e}; these tables add up to {largest:.3g}"
        )
    return min(DIGITS, math.floor(math.log10(LARGEST_COST / max(1.0, largest))))


def _network_text(
    name: str, variables: dict[str, int], functions: Sequence[str], digits: int, top: float
) -> str:
    sizes = ",\n".join(f'"{variable}":{size}' for variable, size in variables.items())
    return (
        f'{{"problem":{{"name":"{name}","mustbe":"<{_decimal(top, digits)}"}},\n'
        f'"variables":{{\n{sizes}\n}},\n"functions":{{\n' + ",\n".join(functions) + "\n}\n}"
    )


def _function_lines(functions: Sequence[Function], digits: int, top: float) -> list[str]:
    return [_function_line(f"f{k}", *f, digits, top) for k, f in enumerate(functions)]


def _function_line(
    name: str, variables: Sequence[str], costs: Sequence[float], digits: int, top: float
) -> str:
    """A forbidden entry costs so much that no other entries bring the sum back below `top`."""
    entries = ",".join(_decimal(min(cost, 3 * top), digits) for cost in costs)
    return f'"{name}":{{"scope":{_json(list(variables))},"costs":[{entries}]}}'


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _decimal(cost: float, digits: int) -> str:
    """`cost` units as nats, exactly."""
    sign, whole = ("-", -int(cost)) if cost < 0 else ("", int(cost))
    return f"{sign}{whole // 10**digits}.{whole % 10**digits:0{digits}d}"
