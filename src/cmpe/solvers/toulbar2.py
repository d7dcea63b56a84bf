"""toulbar2: the objective as a cost function network, each constraint as a second one.

toulbar2 counts in integers and its upper bounds are strict, so every table is scaled and
rounded here: cost = round(-SCALE * h). Rounding moves a sum of F tables by at most F / 2 units;
constraints are loosened and bounds widened by that much, and the answer is tested by the
problem, as for `milp`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmpe.errors import MissingExtra
from cmpe.models.loglinear import Floats
from cmpe.problem import Constraint, Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.milp import PADDING
from cmpe.solvers.rows import Clock, Limits, RowAnswer, Running, solve_rows

LARGEST_COST = 10**15  # the sum of all costs stays below it
MOST_CUTS = 50
WIDEST_TABLE = 2  # wider tables in a second network can crash toulbar2 1.4


@dataclass(frozen=True)
class Toulbar2Solver:
    """Branch and bound with soft local consistency (extra `toulbar2`)."""

    running: Running = Running()

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """Proved optimum of every row; time limits count whole CPU seconds, rounded up."""
        _package()
        instances = problem.given(evidence)
        job = _Row(instances, Limits(time_limit, self.running.threads, seed), self.running.start)
        return solve_rows(instances, job, "toulbar2", self.running)


def _package() -> Any:
    try:
        import pytoulbar2
    except ImportError:
        raise MissingExtra.named("toulbar2 (pytoulbar2)", "toulbar2") from None
    return pytoulbar2


@dataclass(frozen=True)
class _Row:
    instances: Instances
    limits: Limits
    start: np.ndarray | None

    def __call__(self, row: int) -> RowAnswer:
        here = slice(row, row + 1)
        count = len(self.instances.problem.functions)
        tables = [self.instances.tables(k, here)[0] for k in range(count)]
        free = len(self.instances.conditioning.free)
        if np.isneginf(tables[0][0]) or free == 0:
            values = np.zeros(free, dtype=np.int32)
            feasible = self._is_feasible(row, values)
            return RowAnswer(values if feasible else None, infeasible=not feasible,
                             bound=float(tables[0][0]))  # fmt: skip
        return self._cut_and_solve(row, _Network(self.instances, tables))

    def _cut_and_solve(self, row: int, network: _Network) -> RowAnswer:
        cuts: list[list[int]] = []
        clock, start = Clock(self.limits), self._start(row)
        bound, values = np.inf, None
        while len(cuts) < MOST_CUTS:
            answer = network.solve(clock.left(), cuts, start)
            bound = min(bound, answer.bound)
            if answer.free_values is None:
                return RowAnswer(values, bound, infeasible=answer.infeasible)
            values = answer.free_values
            if self._is_feasible(row, values):
                break
            cuts.append(values.tolist())
        return RowAnswer(values, bound)

    def _is_feasible(self, row: int, values: Any) -> bool:
        full = self.instances.complete(values[np.newaxis], slice(row, row + 1))
        return bool(self.instances.problem.is_feasible(full)[0])

    def _start(self, row: int) -> list[int] | None:
        if self.start is None:
            return None
        values = self.start[row, list(self.instances.conditioning.free)]
        return values.tolist() if self._is_feasible(row, values) else None


class _Network:
    """One row as integer cost functions."""

    def __init__(self, instances: Instances, tables: Sequence[Floats]) -> None:
        self._structure = instances.conditioning
        self._starts = self._structure.layout.offsets
        self._scale = _scale(tables)
        self._objective = self._quantised(-tables[0])
        self._constraints = [
            self._constraint(constraint, table)
            for constraint, table in zip(instances.problem.constraints, tables[1:], strict=True)
        ]

    @property
    def _linear(self) -> bool:
        """Several constraints go in as knapsacks: several second networks crash toulbar2 1.4."""
        return len(self._constraints) > 1

    @property
    def _widest(self) -> int:
        return 1 if self._linear else WIDEST_TABLE

    def _entry_name(self, k: int) -> str:
        """The variable whose values are the entries of table k."""
        scope = self._structure.scopes[k]
        return f"z{scope[0]}" if len(scope) == 1 else f"e{k}"

    @property
    def _rounding(self) -> int:
        """By how many units the rounded tables can differ from the true ones, in sum."""
        return len(self._structure.scopes)

    def _quantised(self, table: Floats) -> Floats:
        return np.rint(table * self._scale)  # whole numbers below 2**53, or inf

    def _constraint(self, constraint: Constraint, table: Floats) -> tuple[Floats, int]:
        """(costs, largest cost allowed); -inf becomes low enough to satisfy on its own."""
        q = constraint.at_most
        loose = q + constraint.tolerance + PADDING * max(1.0, abs(q))
        limit = math.floor(loose * self._scale) + self._rounding
        satisfied = np.isneginf(table)
        costs = self._quantised(np.where(satisfied, 0.0, table))
        if satisfied.any():
            highest = np.maximum.reduceat(costs, self._starts[:-1]).sum()
            costs[satisfied] = min(0.0, limit - highest)
        return costs, limit

    def solve(self, limits: Limits, cuts: list[list[int]], start: list[int] | None) -> RowAnswer:
        """One run of toulbar2 without the assignments in `cuts`."""
        package = _package()
        network = package.CFN(None, 0, seed=max(1, limits.seed % 2**31), verbose=-1)
        try:
            self._declare(network)
            for costs, limit in self._constraints:
                self._constrain(network, package, costs, limit)
            self._fill(network, self._objective)
            self._channel(network)
            for cut in cuts:
                network.AddCompactFunction(_names(self._structure.free), 0, [cut], [network.Top])
            if start is not None:
                network.UpdateUB(self._cost(start) + 1)
        except network.Contradiction:
            return RowAnswer(None, -np.inf, infeasible=True)
        return self._run(network, limits)

    def _constrain(self, network: Any, package: Any, costs: Floats, limit: int) -> None:
        lowest = int(np.minimum.reduceat(costs, self._starts[:-1]).sum())
        if limit < lowest:
            raise network.Contradiction
        if self._linear:
            self._add_linear(network, costs, limit)
            return
        second = package.CFN(None, 0, verbose=-1, init=False)
        self._declare(second)
        self._fill(second, costs)
        network.AddWeightedCSPConstraint(second, lowest - 1, limit + 1)

    def _add_linear(self, network: Any, costs: Floats, limit: int) -> None:
        """The constraint as a knapsack over the values of variables and entry variables."""
        tuples, constant = [], 0
        for k, scope in enumerate(self._structure.scopes):
            entries = costs[self._starts[k] : self._starts[k + 1]].tolist()
            if not scope:
                constant += int(entries[0])
                continue
            name = self._entry_name(k)
            tuples += [(name, value, int(cost)) for value, cost in enumerate(entries) if cost]
        if tuples:
            network.AddGeneralizedLinearConstraint(tuples, "<=", limit - constant)
        elif constant > limit:
            raise network.Contradiction

    def _run(self, network: Any, limits: Limits) -> RowAnswer:
        seconds = 0 if limits.seconds is None else math.ceil(limits.seconds)
        before = time.process_time()
        try:
            result = network.Solve(timeLimit=seconds)
        except (network.Contradiction, network.SolverOut):
            result = None
        stopped = bool(seconds) and time.process_time() - before > 0.9 * seconds
        if result is None and not stopped:
            return RowAnswer(None, -np.inf, infeasible=True)
        cost = network.GetDDualBound() if stopped else result[1]
        bound = (self._rounding - cost) / self._scale
        values = None if result is None else result[0][: len(self._structure.free)]
        return RowAnswer(None if values is None else np.array(values, np.int32), bound)

    def _declare(self, network: Any) -> None:
        """One variable per free variable, then one per entry of each wide table."""
        for variable in self._structure.free:
            network.AddVariable(f"z{variable}", range(self._structure.cardinalities[variable]))
        for k, scope in enumerate(self._structure.scopes):
            if len(scope) > self._widest:
                size = int(self._starts[k + 1] - self._starts[k])
                network.AddVariable(f"e{k}", range(size))

    def _fill(self, network: Any, table: Floats) -> None:
        for k, scope in enumerate(self._structure.scopes):
            entries = [_cost(e) for e in table[self._starts[k] : self._starts[k + 1]].tolist()]
            if len(scope) > self._widest:
                network.AddFunction([f"e{k}"], entries)
            else:
                network.AddFunction(_names(scope), entries if scope else entries[0])

    def _channel(self, network: Any) -> None:
        """Make each entry variable agree with the variables of its scope."""
        for k, scope in enumerate(self._structure.scopes):
            if len(scope) > self._widest:
                sizes = [self._structure.cardinalities[v] for v in scope]
                for digits, variable in zip(np.indices(sizes), scope, strict=True):
                    agree = digits.ravel()[:, None] == np.arange(digits.max() + 1)
                    costs = np.where(agree, 0.0, network.Top).ravel().tolist()
                    network.AddFunction([f"e{k}", f"z{variable}"], costs)

    def _cost(self, values: list[int]) -> int:
        layout = replace(self._structure.layout, values=self._objective)
        full = np.zeros((1, len(self._structure.cardinalities)), dtype=np.int32)
        full[0, list(self._structure.free)] = values
        return int(layout.evaluate(full)[0])


def _scale(tables: Sequence[Floats]) -> float:
    largest = max(float(np.abs(t[np.isfinite(t)]).sum()) for t in tables)
    return 10.0 ** min(9, math.floor(math.log10(LARGEST_COST / max(1.0, largest))))


def _names(variables: Sequence[int]) -> list[str]:
    return [f"z{v}" for v in variables]


def _cost(entry: float) -> int | float:
    return entry if math.isinf(entry) else int(entry)
