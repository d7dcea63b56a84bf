"""One row of a problem of functions of several kinds as a mixed-integer linear program.

Log-linear functions are the local polytope (`bounds.linearization`); ReLU networks, distances and
class margins are added to it (`mixed_columns`). Evidence enters as numbers. Two hairs keep the
back-ends' tolerances from deciding anything:

- every limit is q + tolerance + padding * max(1, |q|); with a padding above 0 nothing that the
  problem calls feasible is cut off;
- an entry of -inf in a constraint counts as soon as it has weight. Where that weight is a number
  in [0, 1], a 0/1 column s lifts the constraint if the entry is selected and weighs at least
  `weight`; with 0 that is the closure of what is feasible. So is a class that ties: it must win
  by as much.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from cmpe.arrays import Assignments, Floats
from cmpe.bounds.linearization import LinearProgram, LocalPolytope
from cmpe.errors import MethodError, ModelError
from cmpe.models.conditioning import Conditioning
from cmpe.models.distance import Distance
from cmpe.models.extension import fixed
from cmpe.models.function import Function
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction, Slots
from cmpe.models.relu import ReluNetwork
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Problem
from cmpe.solvers.milp.mixed.columns import Affine, Columns, Inputs, at_least, split_distance
from cmpe.solvers.milp.mixed.margins import Margin

SNAPPED = 1e-8  # nearer to an end of [0, 1] is at that end
ELSEWHERE = "method local or a trained network answers here"


@dataclass(frozen=True, eq=False)
class ReluFunction:
    """A NeuralFunction whose module is a ReLU network of one output."""

    network: ReluNetwork
    scope: tuple[int, ...]


Readable = LogLinearModel | Distance | ReluFunction | ClassMargin


def readable(problem: Problem) -> tuple[Readable, ...]:
    """The problem's functions, each of a kind that a linear program can say exactly."""
    functions = tuple(_readable(problem, function) for function in problem.functions)
    continuous = set(problem.continuous) & set(problem.free)
    for function in functions:
        for factor in function.factors if isinstance(function, LogLinearModel) else ():
            if len(continuous & set(factor.scope)) > 1:
                both = sorted(continuous & set(factor.scope))
                raise MethodError(
                    "milp needs tables with at most one free continuous variable; found "
                    f"{', '.join(map(str, both))} in the scope {factor.scope}; {ELSEWHERE}"
                )
    return functions


def _readable(problem: Problem, function: Function) -> Readable:
    if isinstance(function, LogLinearModel | Distance | ClassMargin):
        return function
    if isinstance(function, CutsetNetwork) and not problem.continuous:
        return function.to_model()
    if isinstance(function, NeuralFunction):
        return _relu_function(function)
    raise MethodError(
        "milp needs log-linear models, distances, ReLU networks or class margins; found a "
        f"function of kind {type(function).__name__}; {ELSEWHERE}"
    )


def _relu_function(function: NeuralFunction) -> ReluFunction:
    name = type(function.module).__name__
    try:
        network = ReluNetwork.of(function.module)
    except ModelError as error:
        raise MethodError(
            f"milp needs ReLU networks ({error}) in the module {name}; {ELSEWHERE}"
        ) from None
    inputs = Slots([function.cardinalities[v] for v in function.scope]).count
    if network.outputs != 1 or network.inputs != inputs:
        raise MethodError(
            f"the module {name} must map {inputs} numbers to 1; "
            f"found {network.inputs} to {network.outputs}"
        )
    return ReluFunction(network, function.scope)


class MixedProgram:
    """The program of one row: `evidence` gives the problem's evidence variables, in order."""

    def __init__(
        self, problem: Problem, functions: tuple[Readable, ...], evidence: Assignments
    ) -> None:
        self._problem = problem
        self._functions = functions
        cards = problem.objective.cardinalities
        self._known: dict[int, float] = {v: 0.0 for v, k in enumerate(cards) if k == 1}
        for variable, value in zip(problem.evidence_variables, evidence.tolist(), strict=True):
            self._known[variable] = float(value)
        self._continuous = [v for v in problem.free if v in set(problem.continuous)]
        models = [self._left(f) for f in functions]
        conditioning = Conditioning(models, problem.evidence_variables)
        unused = np.zeros((1, len(problem.evidence_variables)), dtype=np.int64)
        self._tables = [conditioning.tables(i, unused)[0] for i in range(len(models))]
        self._scopes = conditioning.scopes
        self._starts = conditioning.layout.offsets
        self.polytope = LocalPolytope(conditioning, self._continuous, self._others())

    def _left(self, function: Readable) -> LogLinearModel:
        """What evidence leaves of a log-linear function; of any other, nothing."""
        factors = function.factors if isinstance(function, LogLinearModel) else ()
        kept = []
        for factor in factors:
            scope = tuple(v for v in factor.scope if v not in self._known)
            kept.append(Factor(scope, fixed(factor.scope, factor.log_table, self._known)))
        return LogLinearModel(self._problem.objective.cardinalities, tuple(kept))

    def _others(self) -> list[int]:
        """The free variables of functions without tables."""
        found: set[int] = set()
        for function in self._functions:
            if isinstance(function, Distance):
                found.update(v for pair in function.pairs for v in pair)
            elif isinstance(function, ReluFunction):
                found.update(function.scope)
            elif isinstance(function, ClassMargin):
                found.update(function.changed + function.original)
        return sorted(found - set(self._known))

    @property
    def has_continuous(self) -> bool:
        """Whether a free variable takes any number in [0, 1]."""
        return bool(self._continuous)

    @property
    def is_forbidden(self) -> bool:
        """Whether the evidence alone makes h = -inf."""
        return bool(np.isneginf(self._tables[0][0]))

    def columns(self, padding: float, weight: float = 0.0) -> tuple[Columns, LinearProgram | None]:
        """The program with every limit padded; None where a constraint cannot be satisfied."""
        build = Columns(self.polytope.program(self._tables[0], (), ()))
        objective = self._objective(build, weight)
        for number, constraint in enumerate(self._problem.constraints):
            self._require(build, 1 + number, constraint.loosened(padding), weight)
        return build, None if build.impossible else build.program(objective)

    def _objective(self, build: Columns, weight: float) -> Affine:
        function = self._functions[0]
        if isinstance(function, LogLinearModel):
            return self._weighted(np.where(np.isneginf(self._tables[0]), 0.0, self._tables[0]))
        if isinstance(function, Distance):
            return self._distance(build, function, exact=False)
        if isinstance(function, ReluFunction):
            inputs = self._inputs(function.scope)
            minus = at_least(build, function.network, inputs, np.array([[-1.0]]))
            return minus.through(np.array([[-1.0]]))
        return self._margin(function, weight).as_objective(build)

    def _require(self, build: Columns, number: int, limit: float, weight: float) -> None:
        function = self._functions[number]
        if isinstance(function, LogLinearModel):
            self._require_tables(build, self._tables[number], limit, weight)
        elif isinstance(function, Distance):
            build.require(self._distance(build, function, exact=True), -np.inf, limit)
        elif isinstance(function, ReluFunction):
            inputs = self._inputs(function.scope)
            value = at_least(build, function.network, inputs, np.ones((1, 1)))
            build.require(value, -np.inf, limit)
        else:
            self._margin(function, weight).require_at_most(build, limit)

    def _require_tables(self, build: Columns, table: Floats, limit: float, weight: float) -> None:
        """A sum of tables; -inf lifts it, where an entry's weight is a number by a column s."""
        lifting = [(e, twin) for e, twin in self._weighed_entries() if np.isneginf(table[e])]
        entries = [e for e, _ in lifting]
        rest = table.copy()
        rest[entries] = 0.0
        value = self._weighted(self.polytope.constraint_weights(rest, limit))
        if not lifting:
            build.require(value, -np.inf, limit)
            return
        share = self._indicators([(e,) for e in entries])
        selected = self._indicators(lifting)
        lifted = build.switches(len(entries), lambda z: (share.at(z) > 0.0).astype(np.float64))
        s = build.pick(lifted)
        short = csr_array(build.wide(selected.matrix) - s)
        build.require(Affine(selected.constant, short), 0.0, np.inf)
        enough = csr_array(build.wide(share.matrix) - weight * s)
        build.require(Affine(share.constant, enough), 0.0, np.inf)
        room = max(0.0, self._highest(rest) - limit)
        relief = csr_array(np.full((1, len(entries)), room)) @ s
        build.require(Affine(value.constant, build.wide(value.matrix) - relief), -np.inf, limit)

    def _highest(self, table: Floats) -> float:
        finite = np.where(np.isneginf(table), 0.0, table)
        return float(np.maximum.reduceat(finite, self._starts[:-1]).sum())

    def _weighed_entries(self) -> Iterable[tuple[int, int]]:
        """Entries of tables with a continuous variable, each with its twin: its other value."""
        cards = self._problem.objective.cardinalities
        for scope, start in zip(self._scopes, self._starts[:-1].tolist(), strict=True):
            for axis, variable in enumerate(scope):
                if variable in self._continuous:
                    sizes = [cards[v] for v in scope]
                    entries = start + np.arange(int(np.prod(sizes))).reshape(sizes)
                    twins = np.flip(entries, axis=axis)
                    yield from zip(entries.ravel().tolist(), twins.ravel().tolist(), strict=True)

    def _indicators(self, groups: Iterable[tuple[int, ...]]) -> Affine:
        """The sum of the indicators of each group of entries."""
        sums = []
        for group in groups:
            weights = np.zeros(len(self._tables[0]))
            weights[list(group)] = 1.0
            sums.append(self.polytope.weighted(weights))
        return Affine(
            np.array([constant for constant, _ in sums]), csr_array(np.stack([r for _, r in sums]))
        )

    def _weighted(self, weights: Floats) -> Affine:
        constant, row = self.polytope.weighted(weights)
        return Affine(np.array([constant]), csr_array(row[np.newaxis]))

    def _inputs(self, scope: tuple[int, ...]) -> Inputs:
        """The coordinates that a network reads of `scope`."""
        cards = self._problem.objective.cardinalities
        slots = Slots([cards[v] for v in scope])
        numbers = slots.of(np.array([self._known.get(v, 0.0) for v in scope]))
        columns = np.full(slots.count, -1, dtype=np.int64)
        for d, (owner, value) in enumerate(zip(slots.owner, slots.value, strict=True)):
            if scope[owner] not in self._known:
                ((columns[d], _),) = self.polytope.indicator(scope[owner], int(value))[1]
        free = len([v for v in scope if v not in self._known])
        return Inputs(np.asarray(numbers, dtype=np.float64), columns, float(free))

    def _margin(self, function: ClassMargin, strict: float) -> Margin:
        original, changed = self._inputs(function.original), self._inputs(function.changed)
        return Margin(function.network, original, changed, strict)

    def _distance(self, build: Columns, function: Distance, *, exact: bool) -> Affine:
        """Pairs with a known end, or of one that has two values only, are linear."""
        first, second = function.columns
        weights = np.array(function.weights)
        scope = tuple(sorted({v for pair in function.pairs for v in pair}))
        place = {v: k for k, v in enumerate(scope)}
        inputs = self._inputs(scope)
        values = Affine(inputs.numbers, build.pick(inputs.columns))
        sides = np.zeros((len(weights), len(scope)))
        total, constant = np.zeros(len(scope)), 0.0
        for k, (i, j) in enumerate(function.pairs):
            given, other = (i, j) if i in self._known else (j, i)
            v = self._known.get(given)
            whole = v in (0.0, 1.0) or other not in self._continuous
            if v is not None and other in self._known:
                constant -= weights[k] * abs(v - self._known[other])
            elif v is not None and whole:  # |v - z| = v + (1 - 2 v) z
                constant -= weights[k] * v
                total[place[other]] -= weights[k] * (1.0 - 2.0 * v)
            elif first[k] != second[k]:
                sides[k, place[j]], sides[k, place[i]] = 1.0, -1.0
        linear = values.through(total[np.newaxis], constant)
        split = sides.any(axis=1)
        difference = values.through(sides[split])
        moved = split_distance(build, difference, weights[split], exact=exact)
        matrix = build.wide(linear.matrix) + build.wide(moved.matrix)
        return Affine(linear.constant + moved.constant, csr_array(matrix))

    @cached_property
    def _free_continuous(self) -> list[tuple[int, int]]:
        """(place among the free variables, column) of every continuous one that has a column."""
        found = []
        for place, variable in enumerate(self._problem.free):
            if variable in self._continuous and self.polytope.has(variable):
                ((column, _),) = self.polytope.indicator(variable, 1)[1]
                found.append((place, column))
        return found

    def decode(self, columns: Floats) -> Assignments:
        """The values of the free variables; those in [0, 1] are snapped to near ends."""
        values = self.polytope.decode(columns).astype(self._problem.dtype)
        for place, column in self._free_continuous:
            z = float(np.clip(columns[column], 0.0, 1.0))
            values[place] = 0.0 if z < SNAPPED else 1.0 if z > 1.0 - SNAPPED else z
        return np.asarray(values)
