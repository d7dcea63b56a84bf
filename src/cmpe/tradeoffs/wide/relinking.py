"""Mixtures of two answers: many points of a front from two of them.

Let a and b be two assignments. The variables in which they differ fall into components, with an
edge between two variables that a table of h or of t holds. No table holds variables of two
components, so each component changes h by dh_i and t by dt_i on its own, and every choice S of
components is an assignment with

    h = h(a) + sum over S of dh_i,    t = t(a) + sum over S of dt_i.

The front between a and b is then a knapsack. Components that are better both ways are taken, those
that are worse both ways are not; of the others, the trades, the steepest come first: that chain is
the hull of all mixtures. Between two points of the chain every choice among the `CORE` trades
around is looked at, as the core of a knapsack is (Balas and Zemel 1980). Answers that are optimal
at two multipliers differ in many small components, so a few of them fill a front.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from cmpe.arrays import Floats, Indices, Integers, Values
from cmpe.models.flat import FlatTables
from cmpe.problem import Problem
from cmpe.tradeoffs.points import undominated
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS


class Anchor(NamedTuple):
    """An answer with a finite t."""

    h: float
    t: float
    row: Values  # (n,)


@dataclass(frozen=True)
class MixedAnswers:
    """Mixtures of two answers; h and t are right but for rounding."""

    h: Floats  # (P,)
    t: Floats  # (P,)
    ends: tuple[Values, Values]  # (n,) each
    part: Integers  # (n,) the component of each variable, -1 where the answers agree
    flipped: NDArray[np.bool_]  # (P, K + 1) which components are as in the second answer

    def rows(self, which: Indices) -> Values:
        """The assignments of some of them: (P, n)."""
        return np.where(self.flipped[which][:, self.part], self.ends[1], self.ends[0])


class Mixtures:
    """Makes mixtures of the answers of one problem."""

    def __init__(self, problem: Problem, over: int) -> None:
        models = problem.models
        self._functions = tuple(_Slots.of(models[j].flat) for j in (0, 1 + over))
        self._variables = problem.variables

    def between(self, low: Anchor, high: Anchor) -> MixedAnswers:
        """Undominated mixtures of two answers, by rising t."""
        part = self._components(low.row != high.row)
        changes = [slots.changes(low.row, high.row, part) for slots in self._functions]
        trades = Trades.of(*changes)
        chosen = trades.choices()
        h, t = (base + chosen @ each for base, each in zip(trades.base, trades.added, strict=True))
        kept = undominated(h, t)
        flipped = np.pad(trades.components(chosen[kept]), ((0, 0), (0, 1)))  # none in no component
        return MixedAnswers(low.h + h[kept], low.t + t[kept], (low.row, high.row), part, flipped)

    def _components(self, different: NDArray[np.bool_]) -> Integers:
        """The component of every variable that differs, -1 of the others: (n,)."""
        ends, first = [], self._variables
        for slots in self._functions:
            mine = np.flatnonzero(different[slots.variables])
            ends.append(np.stack([slots.variables[mine], first + slots.tables[mine]]))
            first += slots.count
        one, other = np.concatenate(ends, axis=1)
        graph = coo_array((np.ones(len(one), dtype=np.int8), (one, other)), shape=(first, first))
        _, label = connected_components(graph, directed=False)
        out = np.full(self._variables, -1, dtype=np.int64)
        out[different] = np.unique(label[: self._variables][different], return_inverse=True)[1]
        return out


@dataclass(frozen=True)
class _Slots:
    """The places of variables in the tables of a function, tables without variables left out."""

    values: Floats
    offsets: Integers  # (F,) where each table begins
    starts: Integers  # (F,) its first slot
    variables: Integers  # (S,)
    strides: Integers  # (S,)
    tables: Integers  # (S,)

    @classmethod
    def of(cls, flat: FlatTables) -> _Slots:
        arity = np.diff(flat.starts)
        used = np.flatnonzero(arity)
        numbers = np.repeat(np.arange(len(used)), arity[used])
        begins = flat.offsets[:-1][used], flat.starts[:-1][used]
        return cls(flat.values, *begins, flat.variables, flat.strides, numbers)

    @property
    def count(self) -> int:
        """How many tables."""
        return len(self.offsets)

    def changes(self, low: Values, high: Values, part: Integers) -> Floats:
        """What each component adds when it goes from `low` to `high`: (K,)."""
        components = int(part.max(initial=-1)) + 1
        if not self.count:
            return np.zeros(components)
        own = np.maximum.reduceat(part[self.variables], self.starts)
        mine = own >= 0
        change = self._at(high)[mine] - self._at(low)[mine]
        total = np.zeros(components)
        np.add.at(total, own[mine], change)
        return total

    def _at(self, assignment: Values) -> Floats:
        """Each table's value."""
        places = self.strides * assignment[self.variables].astype(np.int64)
        return self.values[self.offsets + np.add.reduceat(places, self.starts)]


@dataclass(frozen=True)
class Trades:
    """Components between two answers, and which of them give some h for some t."""

    taken: NDArray[np.bool_]  # (K,) as the cheapest mixture has them
    base: Floats  # (2,) what those add to h and t
    order: Indices  # (R,) the components that trade, the steepest first
    added: Floats  # (2, R) what each trade adds to h and t, above 0

    @classmethod
    def of(cls, dh: Floats, dt: Floats) -> Trades:
        """Of the changes of all components."""
        trade = dh * dt > 0.0
        taken = np.where(trade, dh < 0.0, (dh >= 0.0) & (dt <= 0.0))
        which = np.flatnonzero(trade)
        order = which[np.argsort(-dh[which] / dt[which], kind="stable")]
        both = np.stack([dh, dt])
        return cls(taken, both[:, taken].sum(axis=1), order, np.abs(both[:, order]))

    def choices(self) -> NDArray[np.bool_]:
        """Which trades are made (C, R): every beginning, varied in its core."""
        count = len(self.order)
        core = min(WIDE_FRONTS.core, count)
        patterns = (np.arange(1 << core)[:, np.newaxis] >> np.arange(core)) & 1 > 0  # (2^c, c)
        out = [np.zeros((1, count), dtype=bool)]
        for first in range(0, count - core + 1, max(1, core // 2)):
            block = np.zeros((len(patterns), count), dtype=bool)
            block[:, :first] = True
            block[:, first : first + core] = patterns
            out.append(block)
        out.append(np.ones((1, count), dtype=bool))
        return np.concatenate(out)

    def components(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which components are as in the higher answer: (C, K)."""
        out = np.repeat(self.taken[np.newaxis], len(chosen), axis=0)
        out[:, self.order] ^= chosen
        return out
