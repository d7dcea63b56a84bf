"""The k best of rows that elimination can reach: compiled, one plan for all of them.

See `kernels.ranks` for the algorithm. One answer more than asked for is collected, which bounds
what is missing, and all that are tied with the last.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices, Integers, Values
from cmpe.bounds.lagrangian import Batch
from cmpe.problem import Instances, Problem
from cmpe.solvers.base import Limits
from cmpe.tradeoffs.narrow import MOST_SUMS, SUMS_PER_SECOND
from cmpe.tradeoffs.points import EvaluatedTables, h_tolerance, need_short_values
from cmpe.tradeoffs.ranked import PackedAnswers, Ranked, falling

SPACES = (1 << 16, 1 << 20)  # states of a row: the next where one is too small
SPARE = 0.5  # of k: further answers that are kept, for ties
MOST_RANK = 1 << 14  # answers of equal h that are looked through for the first ones
CHUNK_ENTRIES = 1 << 24  # of values that one compiled call fills in


class RankedBatch:
    """Rows of one structure."""

    def __init__(self, instances: Instances, k: int, limits: Limits) -> None:
        need_short_values(instances.problem)
        self._instances, self._k = instances, k
        self._running = limits
        self._problem = instances.problem
        self._batch = Batch(instances, limits.bytes)
        self._tables = EvaluatedTables.of(self._problem.models)
        self._order = np.argsort(self._batch.plan.buckets[:, 0])
        seconds = limits.seconds
        self._sums = MOST_SUMS if seconds is None else int(SUMS_PER_SECOND * seconds) + 1000
        self._guess = np.zeros((2, 4))
        self._space: Any = None
        self._room = (0, 0)  # states and rank of it

    def run(self) -> list[Ranked]:
        """All rows, some at a time."""
        rank = 1 + self._k + max(32, int(SPARE * self._k))
        rows, out = np.arange(len(self._instances)), list[Ranked]()
        for part in self._parts(rows, rank, SPACES[0], self._k + 1):
            out += part
            self._running.report(len(out), len(rows))
        return out

    def _parts(self, rows: Indices, rank: int, *further: int) -> Iterator[list[Ranked]]:
        """The best of each row, as many rows at a time as their answers' room allows."""
        entries = len(self._problem.free) + 4 * (1 + len(self._problem.constraints))  # of 2 bytes
        step, lanes = max(1, CHUNK_ENTRIES // (rank * entries)), self._batch.lanes
        step -= step % lanes if step > lanes else 0  # whole blocks
        for first in range(0, len(rows), step):
            yield self._ranked(rows[first : first + step], rank, *further)

    def _ranked(self, rows: Indices, rank: int, space: int, wanted: int) -> list[Ranked]:
        """The best of some rows; those that need more room, or more answers, again with more."""
        from cmpe.core.fronts import ranks as kernels

        found = self._collected(rows, rank, space, wanted)
        were = found.counts.copy()
        self._put_in_order(found)
        are_short = found.counts < were
        are_open = (found.kinds == kernels.COMPLETE) & ~self._are_enough(found)
        are_over = found.kinds == kernels.OVERFLOW
        are_sure = ~are_over & ~(are_open & (found.counts < self._k))
        out = [self._shown(found, row, bool(are_sure[row])) for row in range(len(rows))]
        more = min(4 * rank, MOST_RANK + self._k)
        are_open &= rank < more
        for which, further in (
            (are_over & (space < SPACES[-1]), (rank, SPACES[-1], wanted)),
            (are_open & ~are_short, (more, space, wanted)),
            (are_open & are_short, (more, space, min(4 * wanted, more))),
        ):
            again = np.flatnonzero(which)
            ranked_again = chain.from_iterable(self._parts(rows[again], *further))
            for row, ranked in zip(again, ranked_again, strict=True):
                out[row] = ranked
        return out

    def _shown(self, found: _Collected, row: int, sure: bool) -> Ranked:
        """A copy: what was collected of other rows is not kept with it."""
        count, missing = int(found.counts[row]), float(found.bounds[row])
        values = found.values[row]
        highest = max(missing, float(values[0, 0])) if count else missing
        if count > self._k:
            missing = max(missing, float(values[self._k, 0]))
        which, stored = found.differing(row)
        kept = min(count, self._k)
        answers = PackedAnswers(
            self._problem, found.begun[row].copy(), which.copy(), stored[:, :kept].copy(),
            values[:kept].copy(), highest,
        )  # fmt: skip
        return Ranked(answers, sure, missing)

    def _put_in_order(self, found: _Collected) -> None:
        """Only what is feasible, by falling h, then by the assignment; most rows are so already.

        What the kernel left out is no better than the last that it gave.
        """
        from cmpe.core.fronts.ranks import ALL

        problem, (count, rank) = self._problem, found.values.shape[:2]
        h, t = found.values[:, :, 0], found.values[:, :, 1:]
        is_feasible = problem.are_feasible(h.ravel(), t.reshape(count * rank, -1))
        is_there = np.arange(rank) < found.counts[:, np.newaxis]
        is_good = is_feasible.reshape(count, rank) | ~is_there
        falls = (h[:, 1:] < h[:, :-1]) | ~is_there[:, 1:]
        for row in np.flatnonzero(~(is_good.all(axis=1) & falls.all(axis=1))).tolist():
            own = np.flatnonzero(is_good[row] & is_there[row])
            if len(own) < found.counts[row] and found.kinds[row] != ALL:
                last = h[row, : found.counts[row]].min()
                found.bounds[row] = max(found.bounds[row], last)
            _, stored = found.differing(row)
            own = own[falling(h[row, own], stored[:, own].T)]
            found.values[row, : len(own)] = found.values[row, own]
            stored[:, : len(own)] = stored[:, own]
            found.counts[row] = len(own)

    def _are_enough(self, found: _Collected) -> NDArray[np.bool_]:
        """Whether no answer that was not collected may be as good as the last that is wanted."""
        last = found.values[:, self._k - 1, 0]
        with np.errstate(invalid="ignore"):
            is_better = last - found.bounds > 1e-3 * h_tolerance(last)
        return is_better & (found.counts >= self._k)

    def _grow(self, space: int, rank: int) -> None:
        from cmpe.core.fronts.ranks import workspace

        if space > self._room[0] or rank > self._room[1]:
            self._room = (max(space, self._room[0]), max(rank, self._room[1]))
            constraints = max(1, len(self._problem.constraints))
            self._space = workspace(self._room[0], constraints, self._batch.plan, self._room[1])

    def _collected(self, rows: Indices, rank: int, space: int, wanted: int) -> _Collected:
        from cmpe.core.fronts import ranks as kernels

        self._grow(space, rank)
        self._space[0][3][3] = self._sums
        batch, count = self._batch, len(rows)
        begun = self._instances.take(rows).complete(np.zeros((count, len(self._problem.free))))
        found = _Collected.empty(begun, rank, self._problem)
        kernels.ranked_batch(
            batch.plan, batch.offsets, batch.gathers, np.ascontiguousarray(batch.evidence[:, rows]),
            batch.limits, min(batch.lanes, count), batch.finite, wanted, rank, self._guess,
            self._tables, self._order, begun, self._space, found[1:],
        )  # fmt: skip
        return found


class _Collected(NamedTuple):
    """Answers of some rows, the first `counts` of each."""

    begun: Values  # (R, n) what the answers of a row share
    values: Floats  # (R, rank, 1 + m): h and every t
    counts: Integers  # (R,)
    kinds: Integers  # (R,)
    bounds: Floats  # (R,) every answer of a higher h is known
    which: Integers  # the variables in which a row's answers differ, row by row
    stored: NDArray[np.uint16]  # their values
    places: Integers  # (R + 1, 4): of a row where `which` begins, its length; of `stored` the same

    @classmethod
    def empty(cls, begun: Values, rank: int, problem: Problem) -> _Collected:
        """Room for answers."""
        count, most = len(begun), len(problem.free)
        counts, kinds = np.zeros((2, count), dtype=np.int64)
        return cls(
            begun,
            np.zeros((count, rank, 1 + len(problem.constraints))),
            counts,
            kinds,
            np.zeros(count),
            np.empty(count * most, dtype=np.int64),
            np.empty((count * most + 1) * (rank + 8), dtype=np.uint16),
            np.zeros((count + 1, 4), dtype=np.int64),
        )

    def differing(self, row: int) -> tuple[Integers, NDArray[np.uint16]]:
        """The variables in which a row's answers differ (d,), and their values (d, answers)."""
        first, differ, low, width = self.places[row].tolist()
        stored = self.stored[low : low + differ * width].reshape(differ, width)
        return self.which[first : first + differ], stored
