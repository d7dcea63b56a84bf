"""One row of a problem of functions of several kinds as a mixed-integer linear program.

Log-linear functions are the local polytope (`bounds.linearization`); ReLU networks, distances and
class margins are added to it (`kinds`, `columns`). Evidence enters as numbers. Two small amounts
keep the back-ends' tolerances from deciding anything:

- every limit is q + tolerance + padding * max(1, |q|); with a padding above 0 nothing that the
  problem calls feasible is cut off;
- an entry of -inf in a constraint counts as soon as it has weight. Where that weight is a number
  in [0, 1], a 0/1 column s lifts the constraint if the entry is selected and weighs at least
  `weight`; with 0 that is the closure of what is feasible. So is a class that ties: it must win
  by as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.sparse import csr_array

from cmpe.arrays import Floats, Values
from cmpe.bounds.linearization import LinearProgram, LocalPolytope
from cmpe.models.conditioning import Conditioning
from cmpe.models.extension import fixed
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import Slots
from cmpe.problem import Problem
from cmpe.solvers.milp.mixed.columns import Affine, Columns, InputColumns

SNAPPED = 1e-8  # A value nearer than this to an end of [0, 1] is moved there.


class Readable(Protocol):
    """A function that a linear program can say exactly (`kinds`)."""

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The tables that it is made of, if it is."""
        ...

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables that it reads without tables."""
        ...

    def objective(self, row: MixedProgram, build: Columns, weight: float) -> Affine:
        """One number to be maximised; `weight` is what a class must win by."""
        ...

    def require(
        self, row: MixedProgram, build: Columns, number: int, limit: float, weight: float
    ) -> None:
        """Rows that hold where the function, `number` of the problem, is at most `limit`."""
        ...


class MixedProgram:
    """The program of one row: `evidence` gives the problem's evidence variables, in order."""

    def __init__(
        self,
        problem: Problem,
        functions: tuple[Readable, ...],
        evidence: Values,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """`check` is called while it is built, and may raise."""
        self._problem = problem
        self._functions = functions
        cards = problem.objective.cardinalities
        self.known: dict[int, float] = {v: 0.0 for v, k in enumerate(cards) if k == 1}
        for variable, value in zip(problem.evidence_variables, evidence.tolist(), strict=True):
            self.known[variable] = float(value)
        self.continuous = [v for v in problem.free if v in set(problem.continuous)]
        models = [self._left(f.factors) for f in functions]
        conditioning = Conditioning(models, problem.evidence_variables)
        unused = np.zeros((1, len(problem.evidence_variables)), dtype=np.int64)
        self.tables = [conditioning.tables(i, unused)[0] for i in range(len(models))]
        self._scopes = conditioning.scopes
        self._starts = conditioning.layout.offsets
        others = {v for function in functions for v in function.scope} - set(self.known)
        self.polytope = LocalPolytope(conditioning, self.continuous, sorted(others), check)

    def _left(self, factors: tuple[Factor, ...]) -> LogLinearModel:
        """What evidence leaves of tables."""
        kept = []
        for factor in factors:
            scope = tuple(v for v in factor.scope if v not in self.known)
            kept.append(Factor(scope, fixed(factor.scope, factor.log_table, self.known)))
        return LogLinearModel(self._problem.objective.cardinalities, tuple(kept))

    @property
    def has_continuous(self) -> bool:
        """Whether a free variable takes any number in [0, 1]."""
        return bool(self.continuous)

    @property
    def is_forbidden(self) -> bool:
        """Whether the evidence alone makes h = -inf."""
        return bool(np.isneginf(self.tables[0][0]))

    def columns(self, padding: float, weight: float = 0.0) -> tuple[Columns, LinearProgram | None]:
        """The program with every limit padded; None where a constraint cannot be satisfied."""
        build = Columns(self.polytope.program(self.tables[0], (), ()))
        objective = self._functions[0].objective(self, build, weight)
        for number, constraint in enumerate(self._problem.constraints, 1):
            limit = constraint.loosened(padding)
            self._functions[number].require(self, build, number, limit, weight)
        return build, None if build.impossible else build.program(objective)

    def highest(self, table: Floats) -> float:
        """The sum over tables of the largest finite entry."""
        finite = np.where(np.isneginf(table), 0.0, table)
        return float(np.maximum.reduceat(finite, self._starts[:-1]).sum())

    def weighed_entries(self) -> Iterable[tuple[int, int]]:
        """Entries of tables with a continuous variable, each with its twin: its other value."""
        cards = self._problem.objective.cardinalities
        for scope, start in zip(self._scopes, self._starts[:-1].tolist(), strict=True):
            for axis, variable in enumerate(scope):
                if variable in self.continuous:
                    sizes = [cards[v] for v in scope]
                    entries = start + np.arange(int(np.prod(sizes))).reshape(sizes)
                    twins = np.flip(entries, axis=axis)
                    yield from zip(entries.ravel().tolist(), twins.ravel().tolist(), strict=True)

    def indicators(self, groups: Iterable[tuple[int, ...]]) -> Affine:
        """The sum of the indicators of each group of entries."""
        sums = []
        for group in groups:
            weights = np.zeros(len(self.tables[0]))
            weights[list(group)] = 1.0
            sums.append(self.polytope.weighted(weights))
        return Affine(
            np.array([constant for constant, _ in sums]), csr_array(np.stack([r for _, r in sums]))
        )

    def weighted(self, weights: Floats) -> Affine:
        """The sum of all entries, weighted."""
        constant, row = self.polytope.weighted(weights)
        return Affine(np.array([constant]), csr_array(row[np.newaxis]))

    def inputs(self, scope: tuple[int, ...]) -> InputColumns:
        """The coordinates that a network reads of `scope`."""
        cards = self._problem.objective.cardinalities
        slots = Slots([cards[v] for v in scope])
        numbers = slots.of(np.array([self.known.get(v, 0.0) for v in scope]))
        columns = np.full(slots.count, -1, dtype=np.int64)
        for d, (owner, value) in enumerate(zip(slots.owner, slots.value, strict=True)):
            if scope[owner] not in self.known:
                ((columns[d], _),) = self.polytope.indicator(scope[owner], int(value))[1]
        free = len([v for v in scope if v not in self.known])
        return InputColumns(np.asarray(numbers, dtype=np.float64), columns, float(free))

    @cached_property
    def free_continuous(self) -> list[tuple[int, int]]:
        """(place among the free variables, column) of every continuous one that has a column."""
        found = []
        for place, variable in enumerate(self._problem.free):
            if variable in self.continuous and self.polytope.has(variable):
                ((column, _),) = self.polytope.indicator(variable, 1)[1]
                found.append((place, column))
        return found

    def decode(self, columns: Floats) -> Values:
        """The values of the free variables; those in [0, 1] are snapped to near ends."""
        values = self.polytope.decode(columns).astype(self._problem.dtype)
        for place, column in self.free_continuous:
            z = float(np.clip(columns[column], 0.0, 1.0))
            values[place] = 0.0 if z < SNAPPED else 1.0 if z > 1.0 - SNAPPED else z
        return np.asarray(values)
