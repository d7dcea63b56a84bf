"""Variables that are maximised out before anything else: those that leave no larger tables.

    max over v of (sum of the tables that mention v)   is a table of v's neighbours.

Where v has at most two neighbours, or three and small tables, or where that table is no larger than
the largest one it replaces, nothing grows much: pendant variables, chains, and variables that hard
tables make functions of others. The value of v is recovered from its neighbours'
(`Eliminations.lift`).

Where a table of u and v leaves each value of u one value g(u) of v at most, v is replaced by g(u)
in all tables. None grows, because that is done only if u has no more values than v.

With constraints this is exact where, whatever the neighbours' values are, some value of v is best
for h and for every t_j at once:

    h(a) >= h(b) and t_j(a) <= t_j(b) for all values b of v that have any weight,

as where hard tables leave one value only, or where no t_j depends on v. The tables of every
function are then those at that value.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments, Floats, Integers
from cmpe.core.compiler import timing
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.solvers.wide.settings import SETTINGS

Scope = tuple[int, ...]


@dataclass(frozen=True)
class Eliminations:
    """What was eliminated, in order, with what it takes to recover each value."""

    models: tuple[LogLinearModel, ...]  # of the variables that are left, renumbered
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
    """Tables by variable, and the variables that are worth eliminating.

    A table is one array (1 + m, ...) of what h and each t_j have for its scope.
    """

    def __init__(self, models: Sequence[LogLinearModel]) -> None:
        self.cards, self._functions = models[0].cardinalities, len(models)
        self.tables: dict[int, tuple[Scope, Floats]] = {}
        self.mention: list[set[int]] = [set() for _ in self.cards]
        self._number = 0
        for which, model in enumerate(models):
            for factor in model.factors:
                self._add(factor.scope, self._stacked(which, factor.log_table))
        self.heap: list[tuple[int, int]] = []
        for v in range(len(self.cards)):
            self._consider(v)

    def _stacked(self, which: int, table: Floats) -> Floats:
        """The table of one function among those of the others, which are 0."""
        if self._functions == 1:
            return table[np.newaxis]
        out = np.zeros((self._functions, *table.shape))
        out[which] = table
        return out

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
        if size * self.cards[v] > SETTINGS.summed_entries:
            return
        largest = max((self.tables[n][1].size for n in self.mention[v]), default=0)
        largest = largest // self._functions
        small = SETTINGS.small_table if len(near) <= SETTINGS.most_neighbours else 0
        if len(near) <= SETTINGS.few_neighbours or size <= max(largest, small):
            heapq.heappush(self.heap, (size, v))

    def eliminate(self, v: int) -> tuple[int, Scope, Floats] | None:
        """Maximise v out; None where no value of v is best for all functions."""
        scope = tuple(sorted(self._neighbours(v)))
        total = np.zeros([self._functions, *(self.cards[u] for u in scope), self.cards[v]])
        for n in sorted(self.mention[v]):
            own, table = self.tables[n]
            total += _aligned(table, own, (*scope, v))
        best = _best_values(total)
        if best is None:
            return None
        for n in sorted(self.mention[v]):
            for u in self.tables.pop(n)[0]:
                if u != v:
                    self.mention[u].discard(n)
        self.mention[v] = set()
        at = np.broadcast_to(best[np.newaxis, ..., np.newaxis], (*total.shape[:-1], 1))
        self._add(scope, np.take_along_axis(total, at, axis=-1)[..., 0])
        for u in scope:
            self._consider(u)
        return v, scope, best.astype(np.int32)

    def replace(self, n: int) -> tuple[int, Scope, Floats] | None:
        """Put g(u) for v in every table, if table n makes one of its two a function of the other.

        That holds for all functions: where v is not g(u), h is -inf.
        """
        if n not in self.tables or len(self.tables[n][0]) != 2:
            return None
        scope, table = self.tables[n]
        for axis in (0, 1):
            u, v = scope[1 - axis], scope[axis]
            has_weight = table[0] > -np.inf
            if self.cards[u] > self.cards[v] or (has_weight.sum(axis=axis) > 1).any():
                continue
            g = has_weight.argmax(axis=axis).astype(np.int32)
            for other in sorted(self.mention[v]):
                self._add(*_with_function(*self.tables[other], v, u, g))
                for w in self.tables.pop(other)[0]:
                    self.mention[w].discard(other)
            for w in self._neighbours(u) | {u}:
                self._consider(w)
            return v, (u,), g
        return None

    def is_current(self, size: int, v: int) -> bool:
        """Whether an entry of the heap still says what v would leave."""
        return size == math.prod(self.cards[u] for u in self._neighbours(v))


def _with_function(
    scope: Scope, table: Floats, v: int, u: int, g: Integers
) -> tuple[Scope, Floats]:
    """A table (1 + m, ...) of v as one of u, where v is g(u)."""
    taken = np.moveaxis(np.take(table, g, axis=scope.index(v) + 1), scope.index(v) + 1, 1)
    rest = tuple(w for w in scope if w != v)
    if u in rest:  # taken is (1 + m, |u|, ..., |u|, ...): both are the same u
        taken = np.moveaxis(taken, rest.index(u) + 2, 2)
        taken = taken[:, np.arange(len(g)), np.arange(len(g))]
    return (u, *(w for w in rest if w != u)), taken


def _best_values(total: Floats) -> Integers | None:
    """Of the last axis of (1 + m, ..., k), the value that is best for all functions, if any is."""
    h, t = total[0], total[1:]
    best: Integers = h.argmax(axis=-1)
    if not len(t):
        return best
    highest = h.max(axis=-1, keepdims=True)
    best = np.where(h == highest, t.sum(axis=0), np.inf).argmin(axis=-1)
    own = np.take_along_axis(t, np.broadcast_to(best[..., np.newaxis], (*t.shape[:-1], 1)), axis=-1)
    is_best = (own <= t) | (h == -np.inf)
    return best if is_best.all() else None


def eliminate_small(models: Sequence[LogLinearModel], until: float = math.inf) -> Eliminations:
    """Eliminate again and again what leaves no larger tables, until a moment at most.

    The models are h and every t_j.
    """
    work = _Elimination(models)
    steps: list[tuple[int, Scope, Floats]] = []
    gone: set[int] = set()
    for n in list(work.tables):
        if timing.now() < until and (step := work.replace(n)) is not None:
            gone.add(step[0])
            steps.append(step)
    while work.heap and timing.now() < until:
        size, v = heapq.heappop(work.heap)
        if v not in gone and work.is_current(size, v):
            step = work.eliminate(v)
            if step is not None:
                gone.add(v)
                steps.append(step)
    variables = models[0].variables
    kept = tuple(v for v in range(variables) if v not in gone)
    number = {v: i for i, v in enumerate(kept)}
    cards = tuple(work.cards[v] for v in kept)
    tables = [(tuple(number[v] for v in scope), table) for scope, table in _joined(work)]
    left = tuple(
        LogLinearModel(cards, tuple(Factor(scope, table[which]) for scope, table in tables))
        for which in range(len(models))
    )
    return Eliminations(left, kept, variables, tuple(steps))


def eliminate_all(model: LogLinearModel, order: Sequence[int]) -> Eliminations:
    """Eliminate every variable, in this order: `lift` of nothing is then an optimum."""
    work = _Elimination([model])
    steps = [step for v in order if (step := work.eliminate(v)) is not None]
    total = sum(float(table[0]) for _, table in work.tables.values())
    left = LogLinearModel((), (Factor((), np.array(total)),))
    return Eliminations((left,), (), model.variables, tuple(steps))


def _joined(work: _Elimination) -> Sequence[tuple[Scope, Floats]]:
    """The tables that are left, those of equal scopes added up."""
    sums: dict[Scope, Floats] = {}
    for scope, table in work.tables.values():
        order = tuple(sorted(scope))
        aligned = _aligned(table, scope, order)
        sums[order] = sums[order] + aligned if order in sums else aligned
    return list(sums.items())


def _aligned(table: Floats, scope: Scope, target: Scope) -> Floats:
    """A view of `table` (1 + m, ...) that broadcasts over the axes of `target`."""
    place = {v: i for i, v in enumerate(scope)}
    axes = [place[v] + 1 for v in target if v in place]
    shape = [table.shape[place[v] + 1] if v in place else 1 for v in target]
    return table.transpose([0, *axes]).reshape([len(table), *shape])
