"""The k best assignments of chosen variables: each with the best completion of all others.

The space of a row is split as Lawler (1972) does. The best answer of a part has values a_1 .. a_d
of the chosen variables. What else the part holds differs from it in a first variable:

    a_1 .. a_{i-1} as they are,  variable i anything but a_i        for i = 1 .. d

Parts are rows with log-potentials of their own (-inf forbids a value), so all parts of all rows
are answered as one batch by any engine, and the bounds of the parts that are left bound all that
is missing.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Indices, Values
from cmpe.problem.rows import Potential, Rows
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.dispatch import answer_rows
from cmpe.tradeoffs.points import h_tolerance
from cmpe.tradeoffs.settings import TRADEOFFS

Allowed = tuple[NDArray[np.bool_], ...]  # of each chosen variable: the values that a part has


@dataclass(frozen=True)
class ChosenAnswers:
    """What one row's list is made of."""

    rows: Values  # (k, n)
    complete: bool
    bound: float  # on what is missing


@dataclass
class _Row:
    """One row on its way: parts by falling h of their best answer."""

    open: list[tuple[float, int, Allowed, Values, bool]] = field(default_factory=list)
    answers: list[Values] = field(default_factory=list)
    best: float = -np.inf
    last: float = -np.inf
    proved: bool = True
    closed: bool = False  # whether parts that are left are below what is asked for
    unresolved: float = -np.inf  # the highest bound of a part without an answer
    bounds: dict[int, float] = field(default_factory=dict)  # of the open parts, by number

    def missing(self) -> float:
        return max([self.unresolved, *self.bounds.values()])


def best_over(
    rows: Rows, over: Sequence[int], k: int, within: float, limits: Limits
) -> list[ChosenAnswers]:
    """The first k assignments of the variables `over` that differ, no more than `within` nats off.

    A row's list is complete where it is proved that nothing better, or nothing within the distance
    while fewer than k are listed, is missing.
    """
    search = _Search(rows, tuple(over), limits)
    return search.run(k, within)


class _Search:
    """All rows together, one part of each at a time."""

    def __init__(self, rows: Rows, over: tuple[int, ...], limits: Limits) -> None:
        self._rows, self._over = rows, over
        self._limits = replace(limits, progress=None, start=None)
        self._told, self._numbers = limits, count()

    def run(self, k: int, within: float) -> list[ChosenAnswers]:
        states = [_Row() for _ in range(len(self._rows))]
        deadline = Deadline(self._limits)
        self._split(
            states, [(i, self._whole(i)) for i in range(len(states))], TRADEOFFS.first_share
        )
        while not deadline.expired():
            live = [i for i, row in enumerate(states) if len(row.answers) < k and not row.closed]
            if not live:
                break
            parts = [(i, part) for i in live for part in self._next(states[i], within)]
            self._split(states, parts, (1.0 - TRADEOFFS.first_share) / max(1, k - 1))
            self._told.report(len(states) - len(live), len(states))
        return [self._listed(row, k, within) for row in states]

    def _whole(self, row: int) -> Allowed:
        cards = self._rows.problem.domain.cardinalities
        seen = self._rows.evidence[row]
        return tuple(
            np.ones(cards[v], bool) if seen[v] == FREE else np.arange(cards[v]) == seen[v]
            for v in self._over
        )

    def _next(self, row: _Row, within: float) -> list[Allowed]:
        """Take the best answer of the parts that are left, and split its part around it."""
        if not row.open:
            row.closed = True
            return []
        minus_h, number, part, best, proved = heapq.heappop(row.open)
        if not row.answers:
            row.best = -minus_h
        if -minus_h < row.best - within - float(h_tolerance(np.array(row.best))):
            heapq.heappush(row.open, (minus_h, number, part, best, proved))
            row.closed = True
            return []
        del row.bounds[number]
        row.answers.append(best)
        row.last, row.proved = -minus_h, row.proved and proved
        return _around(part, best[list(self._over)])

    def _split(self, states: list[_Row], parts: list[tuple[int, Allowed]], share: float) -> None:
        """Answer the parts, each of which belongs to a row."""
        if not parts:
            return
        which = np.array([i for i, _ in parts], dtype=np.intp)
        found = answer_rows(self._forbidding(which, [p for _, p in parts]), "auto", self._of(share))
        for place, (i, part) in enumerate(parts):
            row = states[i]
            bound = float(found.bound[place])
            if found.feasible[place]:
                number, h = next(self._numbers), float(found.objective[place])
                best, proved = found.assignments[place], bool(found.proved[place])
                heapq.heappush(row.open, (-h, number, part, best, proved))
                row.bounds[number] = max(bound, h)
            elif not found.proved[place]:
                row.unresolved = max(row.unresolved, bound)

    def _forbidding(self, which: Indices, parts: list[Allowed]) -> Rows:
        """The parts as rows: what a part does not have is forbidden."""
        rows = self._rows.take(which)
        further = tuple(
            Potential((v,), np.where(np.stack([p[place] for p in parts]), 0.0, -np.inf))
            for place, v in enumerate(self._over)
        )
        return replace(rows, potentials=(*rows.potentials, *further))

    def _of(self, share: float) -> Limits:
        """The limits of one part."""
        seconds = self._limits.seconds
        if seconds is None:
            return self._limits
        return replace(self._limits, seconds=max(TRADEOFFS.least_chosen_slice, share * seconds))

    def _listed(self, row: _Row, k: int, within: float) -> ChosenAnswers:
        problem = self._rows.problem
        rows = np.array(row.answers, dtype=problem.dtype).reshape(-1, problem.variables)
        missing = row.missing()
        if not len(rows):
            return ChosenAnswers(rows, missing == -np.inf, missing)
        last = row.last if len(rows) == k else row.best - within
        slack = float(h_tolerance(np.array(abs(row.best))))
        is_done = missing <= last + slack
        return ChosenAnswers(rows, bool(row.proved and is_done), missing)


def _around(part: Allowed, values: Values) -> list[Allowed]:
    """The parts that together hold all of `part` but the answer with these values."""
    out: list[Allowed] = []
    fixed: list[NDArray[np.bool_]] = []
    for place, value in enumerate(values.astype(np.intp).tolist()):
        only = np.arange(len(part[place])) == value
        others = part[place] & ~only
        if others.any():
            out.append((*fixed, others, *part[place + 1 :]))
        fixed.append(only)
    return out
