"""The k best of rows that elimination can reach: compiled, one plan for all of them.

See `kernels.ranks` for the algorithm. One answer more than asked for is collected: it says whether
the last is tied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Indices, Integers, Values
from cmpe.bounds.base import loosened_limits
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.tradeoffs.narrow import MOST_SUMS, SUMS_PER_SECOND
from cmpe.tradeoffs.points import EvaluatedTables, h_tolerance
from cmpe.tradeoffs.ranked import Ranked, falling, ranked_of

SPACES = (1 << 16, 1 << 20)  # states of a row: the next where one is too small
MOST_RANK = 1 << 14  # answers of equal h that are looked through for the first ones
CHUNK_ENTRIES = 1 << 22  # of assignments that one compiled call fills in


class RankedBatch:
    """Rows of one structure."""

    def __init__(self, instances: Instances, k: int, limits: Limits) -> None:
        self._instances, self._k, self._limits_of = instances, k, limits
        self._problem = instances.problem
        self._plan = self._problem.compiled_plan
        self._offsets = instances.conditioning.layout.offsets
        self._finite = all(c.function.is_finite for c in self._problem.constraints)
        own = loosened_limits(instances)
        self._limits = own if len(own) else np.zeros(1)  # a t of nothing but zeros
        self._tables = EvaluatedTables.of(self._problem.models)
        self._guess = np.zeros(2)
        self._work: Any = None
        self._room = (0, 0)  # states and rank of it

    def run(self) -> list[Ranked]:
        """All rows, some at a time."""
        running, count = self._limits_of.running, len(self._instances)
        dual = lagrangian_dual(self._instances, threads=running.cores)
        self._mu = np.zeros((count, len(self._limits)))
        self._mu[:, : dual.multipliers.shape[1]] = dual.multipliers
        nothing = np.zeros((0, self._problem.variables), dtype=self._problem.dtype)
        none = ranked_of(self._problem, nothing, complete=True, bound=-np.inf)
        out: list[Ranked] = [none] * count
        live = np.flatnonzero(~dual.infeasible)
        step = max(1, CHUNK_ENTRIES // ((self._k + 1) * max(1, self._problem.variables)))
        for first in range(0, len(live), step):
            part = live[first : first + step]
            for row, ranked in zip(part, self._ranked(part, self._k + 1), strict=True):
                out[row] = ranked
            running.report(min(count, int(part[-1]) + 1), count)
        running.report(count, count)
        return out

    def _ranked(self, rows: Indices, rank: int) -> list[Ranked]:
        """The best of some rows; those whose last is tied are collected again, with more."""
        from cmpe.tradeoffs.kernels import ranks as kernels

        found = self._collected(rows, rank, SPACES[0])
        self._put_in_order(found)
        highest = np.where(found.counts > 0, found.values[:, 0, 0], -np.inf)
        whole = self._solutions(found, np.maximum(found.bounds, highest))
        is_short = (found.kinds == kernels.COMPLETE) & ~self._are_enough(found)
        more = min(4 * rank, MOST_RANK + self._k)
        out = []
        for place, count in enumerate(found.counts.tolist()):
            if is_short[place] and rank < MOST_RANK + self._k:
                out += self._ranked(rows[place : place + 1], more)
                continue
            missing = float(found.bounds[place])
            if count > self._k:
                missing = max(missing, float(found.values[place, self._k, 0]))
            answers = whole.span(place * rank, place * rank + min(count, self._k))
            sure = bool(found.kinds[place] != kernels.OVERFLOW)
            out.append(Ranked(answers, sure, missing))
        return out

    def _put_in_order(self, found: _Collected) -> None:
        """Only what is feasible, by falling h, then by the assignment; most rows are so already."""
        problem, (count, rank) = self._problem, found.values.shape[:2]
        h, t = found.values[:, :, 0], found.values[:, :, 1:]
        is_feasible = problem.are_feasible(h.ravel(), t.reshape(count * rank, -1))
        is_there = np.arange(rank) < found.counts[:, np.newaxis]
        is_good = is_feasible.reshape(count, rank) | ~is_there
        falls = (h[:, 1:] < h[:, :-1]) | ~is_there[:, 1:]
        for row in np.flatnonzero(~(is_good.all(axis=1) & falls.all(axis=1))):
            own = np.flatnonzero(is_good[row] & is_there[row])
            own = own[falling(h[row, own], found.rows[row, own])]
            for array in (found.rows, found.values):
                array[row, : len(own)] = array[row, own]
            found.counts[row] = len(own)

    def _solutions(self, found: _Collected, bound: Floats) -> Solutions:
        """All answers, one after another."""
        count, rank, width = found.rows.shape
        values = found.values.reshape(count * rank, -1)
        whole = Solutions.evaluated(
            self._problem, found.rows.reshape(-1, width), (values[:, 0], values[:, 1:]),
            bound=bound.repeat(rank), method="best",
        )  # fmt: skip
        seen = np.zeros(width, dtype=bool)
        seen[list(self._problem.evidence_variables)] = True
        return replace(whole, observed=np.broadcast_to(seen, (len(whole), width)))

    def _are_enough(self, found: _Collected) -> NDArray[np.bool_]:
        """Whether no answer that was not collected may be as good as the last that is wanted."""
        h = found.values[:, :, 0]
        last = h[:, min(self._k, h.shape[1]) - 1]
        least = np.take_along_axis(h, np.maximum(found.counts[:, np.newaxis] - 1, 0), axis=1)[:, 0]
        return (found.counts > self._k) & (last - least > 1e-3 * h_tolerance(last))

    def _grow(self, space: int, rank: int) -> None:
        from cmpe.tradeoffs.kernels.ranks import workspace

        if space > self._room[0] or rank > self._room[1]:
            self._room = (max(space, self._room[0]), max(rank, self._room[1]))
            self._work = workspace(self._room[0], len(self._limits), self._plan, self._room[1])

    def _collected(self, rows: Indices, rank: int, space: int) -> _Collected:
        from cmpe.tradeoffs.kernels import ranks as kernels

        self._grow(space, rank)
        part = self._instances.take(rows)
        count, m = len(rows), len(self._problem.constraints)
        h = part.tables(0)
        t = np.zeros((count, len(self._limits), h.shape[1]))
        for j in range(m):
            t[:, j] = part.tables(1 + j)
        seconds = self._limits_of.seconds
        sums = MOST_SUMS if seconds is None else int(SUMS_PER_SECOND * seconds) + 1000
        self._work[3][3] = sums
        begun = part.complete(np.zeros((count, len(self._problem.free))))
        found = _Collected.empty(begun, rank, m)
        kernels.ranked_batch(
            self._plan, self._offsets, h, t, self._limits, self._finite, self._mu[rows], rank,
            self._guess, self._tables, begun, self._work, found,
        )  # fmt: skip
        over = np.flatnonzero(found.kinds == kernels.OVERFLOW)
        if space < SPACES[-1] and len(over):
            again = self._collected(rows[over], rank, SPACES[-1])
            for own, other in zip(found, again, strict=True):
                own[over] = other
        return found


class _Collected(NamedTuple):
    """Answers of some rows, the first `counts` of each."""

    rows: Values  # (R, rank, n)
    values: Floats  # (R, rank, 1 + m): h and every t
    counts: Integers  # (R,)
    kinds: Integers  # (R,)
    bounds: Floats  # (R,) of what is missing

    @classmethod
    def empty(cls, begun: Values, rank: int, constraints: int) -> _Collected:
        """Room for answers."""
        count, width = begun.shape
        counts, kinds = np.zeros((2, count), dtype=np.int64)
        rows = np.empty((count, rank, width), dtype=begun.dtype)
        return cls(rows, np.zeros((count, rank, 1 + constraints)), counts, kinds, np.zeros(count))
