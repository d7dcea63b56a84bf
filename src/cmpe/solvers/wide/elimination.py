"""Variables that are maximised out before anything else: those that leave no larger tables.

    max over v of (sum of the tables that mention v)   is a table of v's neighbours.

Where v has at most two neighbours, or where that table is no larger than the largest one it
replaces, nothing grows: pendant variables, chains, and variables that hard tables make functions
of others. The value of v is recovered from its neighbours' (`Eliminations.lift`). With constraints
this is no longer exact, so only unconstrained problems are treated.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.compiling import timing
from cmpe.models.loglinear import Factor, LogLinearModel

Scope = tuple[int, ...]
NEIGHBOURS = 2  # Variables with so few neighbours are always eliminated,
ENTRIES = 1 << 12  # if what they leave has no more entries than this.


@dataclass(frozen=True)
class Eliminations:
    """What was eliminated, in order, with what it takes to recover each value."""

    model: LogLinearModel  # of the variables that are left, renumbered
    kept: tuple[int, ...]  # their old numbers
    variables: int  # before
    steps: tuple[tuple[int, Scope, Floats], ...]  # variable, its neighbours, best value (array)

    def lift(self, values: Assignments) -> Assignments:
        """The assignment of all variables from one of those that are left."""
        out = np.zeros(self.variables, dtype=np.int32)
        out[list(self.kept)] = values
        for variable, scope, best in reversed(self.steps):
            out[variable] = best[tuple(out[list(scope)])]
        return out

    def lower(self, values: Assignments) -> Assignments:
        """The values of the variables that are left."""
        kept: Assignments = values[list(self.kept)]
        return kept

    def messages(self, messages: dict[Scope, list[Floats]]) -> dict[Scope, list[Floats]]:
        """Messages of tables that are as they were, or that others were added to."""
        number = {v: i for i, v in enumerate(self.kept)}
        return {
            tuple(number[v] for v in scope): own
            for scope, own in messages.items()
            if all(v in number for v in scope)
        }


class _Elimination:
    """Tables by variable, and the variables that are worth eliminating."""

    def __init__(self, model: LogLinearModel) -> None:
        self.cards = model.cardinalities
        self.tables: dict[int, tuple[Scope, Floats]] = {}
        self.mention: list[set[int]] = [set() for _ in self.cards]
        self._number = 0
        for factor in model.factors:
            self._add(factor.scope, factor.log_table)
        self.heap: list[tuple[int, int]] = []
        for v in range(len(self.cards)):
            self._consider(v)

    def _add(self, scope: Scope, table: Floats) -> None:
        self.tables[self._number] = (scope, table)
        for v in scope:
            self.mention[v].add(self._number)
        self._number += 1

    def _neighbours(self, v: int) -> set[int]:
        return {u for n in self.mention[v] for u in self.tables[n][0]} - {v}

    def _consider(self, v: int) -> None:
        near = self._neighbours(v)
        size = math.prod(self.cards[u] for u in near)
        if size * self.cards[v] > ENTRIES:
            return
        largest = max((self.tables[n][1].size for n in self.mention[v]), default=0)
        if len(near) <= NEIGHBOURS or size <= largest:
            heapq.heappush(self.heap, (size, v))

    def eliminate(self, v: int) -> tuple[int, Scope, Floats]:
        """Maximise v out."""
        near = self._neighbours(v)
        scope = tuple(sorted(near))
        total = np.zeros([*(self.cards[u] for u in scope), self.cards[v]])
        for n in sorted(self.mention[v]):
            own, table = self.tables.pop(n)
            for u in own:
                if u != v:
                    self.mention[u].discard(n)
            total += _aligned(table, own, (*scope, v))
        self.mention[v] = set()
        self._add(scope, total.max(axis=-1))
        for u in scope:
            self._consider(u)
        return v, scope, total.argmax(axis=-1).astype(np.int32)

    def is_current(self, size: int, v: int) -> bool:
        """Whether an entry of the heap still says what v would leave."""
        return size == math.prod(self.cards[u] for u in self._neighbours(v))


def eliminate_small(model: LogLinearModel, until: float = math.inf) -> Eliminations:
    """Eliminate again and again what leaves no larger tables, until a moment at most."""
    work = _Elimination(model)
    steps: list[tuple[int, Scope, Floats]] = []
    gone: set[int] = set()
    while work.heap and timing.now() < until:
        size, v = heapq.heappop(work.heap)
        if v not in gone and work.is_current(size, v):
            gone.add(v)
            steps.append(work.eliminate(v))
    kept = tuple(v for v in range(model.variables) if v not in gone)
    number = {v: i for i, v in enumerate(kept)}
    factors = tuple(
        Factor(tuple(number[v] for v in scope), table) for scope, table in _joined(work)
    )
    left = LogLinearModel(tuple(model.cardinalities[v] for v in kept), factors)
    return Eliminations(left, kept, model.variables, tuple(steps))


def eliminate_all(model: LogLinearModel, order: Sequence[int]) -> Eliminations:
    """Eliminate every variable, in this order: `lift` of nothing is then an optimum."""
    work = _Elimination(model)
    steps = [work.eliminate(v) for v in order]
    total = sum(float(table) for _, table in work.tables.values())
    left = LogLinearModel((), (Factor((), np.array(total)),))
    return Eliminations(left, (), model.variables, tuple(steps))


def _joined(work: _Elimination) -> Sequence[tuple[Scope, Floats]]:
    """The tables that are left, those of equal scopes added up."""
    sums: dict[Scope, Floats] = {}
    for scope, table in work.tables.values():
        order = tuple(sorted(scope))
        aligned = _aligned(table, scope, order)
        sums[order] = sums[order] + aligned if order in sums else aligned
    return list(sums.items())


def _aligned(table: Floats, scope: Scope, target: Scope) -> Floats:
    """A view of `table` that broadcasts over the axes of `target`."""
    place = {v: i for i, v in enumerate(scope)}
    axes = [place[v] for v in target if v in place]
    shape = [table.shape[place[v]] if v in place else 1 for v in target]
    return table.transpose(axes).reshape(shape)
