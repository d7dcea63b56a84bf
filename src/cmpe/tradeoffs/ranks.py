"""The k best of rows that elimination can reach: compiled, one plan for all of them.

See `kernels.ranks` for the algorithm. One answer more than asked for is collected: it says whether
the last is tied.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.arrays import Floats, Indices
from cmpe.bounds.base import loosened_limits
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.tradeoffs.narrow import MOST_SUMS, SUMS_PER_SECOND
from cmpe.tradeoffs.points import h_tolerance
from cmpe.tradeoffs.ranked import Ranked, in_order, ranked_of

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

        found, counts, kinds, bounds = self._collected(rows, rank, SPACES[0])
        numbers = np.arange(rank) < counts[:, np.newaxis]
        whole = Solutions.of(self._problem, found[numbers], bound=bounds.repeat(counts),
                             method="best")  # fmt: skip
        ends = np.cumsum(counts)
        feasible = whole.feasible
        out = []
        for place, row in enumerate(rows):
            own = np.arange(ends[place] - counts[place], ends[place])
            own = own[feasible[own]]
            can_grow = kinds[place] == kernels.COMPLETE and rank < MOST_RANK + self._k
            if can_grow and not self._is_enough(whole.objective[own]):
                more = min(4 * rank, MOST_RANK + self._k)
                out += self._ranked(np.array([row]), more)
                continue
            sure = bool(kinds[place] != kernels.OVERFLOW)
            missing = float(bounds[place])
            out.append(in_order(whole, own, self._k, complete=sure, bound=missing))
        return out

    def _is_enough(self, h: Floats) -> bool:
        """Whether no answer that was not collected may be as good as the last that is wanted."""
        if len(h) <= self._k:
            return False
        last = np.partition(h, -self._k)[-self._k]
        return bool(last - h.min() > 1e-3 * float(h_tolerance(last)))

    def _grow(self, space: int, rank: int) -> None:
        from cmpe.tradeoffs.kernels.ranks import workspace

        if space > self._room[0] or rank > self._room[1]:
            self._room = (max(space, self._room[0]), max(rank, self._room[1]))
            self._work = workspace(self._room[0], len(self._limits), self._plan, self._room[1])

    def _collected(
        self, rows: Indices, rank: int, space: int
    ) -> tuple[Any, Indices, Indices, Floats]:
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
        found = np.repeat(begun[:, np.newaxis], rank, axis=1)
        counts, kinds = np.zeros((2, count), dtype=np.int64)
        bounds = np.zeros(count)
        kernels.ranked_batch(
            self._plan, self._offsets, h, t, self._limits, self._finite, self._mu[rows], rank,
            self._guess, self._work, (found, counts, kinds, bounds),
        )  # fmt: skip
        over = np.flatnonzero(kinds == kernels.OVERFLOW)
        if space < SPACES[-1] and len(over):
            again = self._collected(rows[over], rank, SPACES[-1])
            found[over], counts[over], kinds[over], bounds[over] = again
        return found, counts, kinds, bounds
