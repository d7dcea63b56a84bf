"""Fronts of rows that can be eliminated: compiled, with one plan for all of them.

See `core.fronts.fronts` for the algorithm and docs/cost.md for its proof. The constraint whose
front is wanted comes first in the problem. An assignment where it is -inf is one point of its own,
the best h with t = -inf, which an ordinary solve finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.base import loosened_limits
from cmpe.core.compiler import timing
from cmpe.core.fronts.settings import FRONTS
from cmpe.memory import allowed_bytes
from cmpe.problem import Instances
from cmpe.solvers.base import Running
from cmpe.tradeoffs.points import (
    EvaluatedTables,
    NodePoints,
    Steps,
    TracedPoints,
    need_short_values,
    undominated,
)
from cmpe.tradeoffs.settings import TRADEOFFS

MOST_SUMS = 1 << 62


@dataclass(frozen=True)
class RowWindows:
    """What is wanted of each row of a batch: a window of t, and points that are known."""

    windows: Floats  # (B, 2)
    known: tuple[Floats, ...]  # per row: (K, 2), h and t of points that exist
    seconds: float | None = None  # of one row

    def sums(self) -> int:
        """How many sums of states a row may look at."""
        return sums_within(self.seconds)


def sums_within(seconds: float | None) -> int:
    """How many sums of states some seconds allow."""
    if seconds is None:
        return MOST_SUMS
    return int(min(MOST_SUMS, TRADEOFFS.sums_per_second * seconds)) + 1000


class NarrowBatch:
    """Rows of one structure, and the space that compiled calls share."""

    def __init__(self, instances: Instances, asked: RowWindows) -> None:
        from cmpe.core.buckets import COMPONENT, VARIABLE

        need_short_values(instances.problem)
        self._instances = instances
        self._problem = instances.problem
        self._asked = asked
        self._plan = instances.problem.compiled_plan
        self._offsets = instances.conditioning.layout.offsets
        self._variables = np.ascontiguousarray(self._plan.buckets[:, VARIABLE])
        self._components = np.ascontiguousarray(self._plan.buckets[:, COMPONENT])
        self._tables = EvaluatedTables.of(self._problem.models)
        self._begun = instances.complete(np.zeros((len(instances), len(self._problem.free))))
        self._limits = loosened_limits(instances)
        self._limits[0] = np.inf
        constraints = self._problem.constraints[1:]
        self._finite = all(c.function.is_finite for c in constraints)
        self.memory = 0  # bytes of each thread

    def run(self, running: Running) -> list[TracedPoints]:
        """The front of every row."""
        count, report = len(self._instances), running.report
        threads = max(1, min(running.cores, count))
        self.memory = allowed_bytes(running.memory) // threads
        found: list[TracedPoints] = []
        shares = [slice(k, count, threads) for k in range(threads)]
        mapped: Iterable[list[TracedPoints]]
        if threads > 1:
            with ThreadPoolExecutor(threads) as pool:
                mapped = list(pool.map(self._share, shares))
            out: list[TracedPoints | None] = [None] * count
            for rows, part in zip(shares, mapped, strict=True):
                out[rows] = part
            report(count, count)
            return [front for front in out if front is not None]
        space = _Space(self)
        for row in range(count):
            found.append(space.front(row))
            report(row + 1, count)
        return found

    def _share(self, rows: slice) -> list[TracedPoints]:
        space = _Space(self)
        return [space.front(row) for row in range(len(self._instances))[rows]]


class _Space:
    """What one thread works in."""

    def __init__(self, batch: NarrowBatch) -> None:
        from cmpe.core.fronts.settings import FRONTS
        from cmpe.core.fronts.trees import make_front_space

        self._batch = batch
        self._constraints = len(batch._problem.constraints)
        self._most = FRONTS.references if self._constraints == 1 else FRONTS.few_references
        plan = batch._plan
        states = max(
            [s for s in TRADEOFFS.front_spaces if self._bytes(s) <= batch.memory], default=0
        )
        self._guess = np.full((2, FRONTS.places), -1.0)  # nothing was learned yet
        states = states or TRADEOFFS.front_spaces[0]
        self._space: Any = make_front_space(states, self._constraints, plan)

    def _bytes(self, states: int) -> int:
        """Of `make_front_space`: points, nodes of 44 bytes, and as much again while merging."""
        return states * (16 * (1 + self._constraints) + 96)

    def front(self, row: int) -> TracedPoints:
        """The front of one row, its limits narrowed where a point misses the tolerance."""
        begin = timing.now()
        limits = self._batch._limits.copy()
        found = self._points(row, limits)
        missed = self._missed(found)
        for _ in range(TRADEOFFS.ties):
            if missed is None:
                break
            limits = np.minimum(limits, missed)
            found = self._points(row, limits)
            missed = self._missed(found)
        return self._traced(row, found, missed is None, timing.now() - begin)

    def _points(self, row: int, limits: Floats) -> _Found:
        from cmpe.core.fronts.fronts import OVERFLOW, front_row
        from cmpe.core.fronts.trees import FrontRow, Window
        from cmpe.core.states import SUM_COUNT, SUM_LIMIT

        batch = self._batch
        instances, problem = batch._instances, batch._problem
        rows = slice(row, row + 1)
        h = instances.tables(0, rows)[0]
        t = np.concatenate(
            [instances.tables(1 + j, rows) for j in range(len(problem.constraints))]
        )  # fmt: skip
        counts = self._space.states.counts
        counts[SUM_COUNT], counts[SUM_LIMIT] = 0, batch._asked.sums()
        traced = front_row(
            FrontRow(
                batch._plan, batch._offsets, h, t, limits, batch._finite,
                Window(*batch._asked.windows[row].tolist()), batch._asked.known[row],
            ),
            self._most, FRONTS.patience, self._guess, self._space,
        )  # fmt: skip
        roots = traced.points[::-1, 2].astype(np.int64)  # by rising h and t
        stored = NodePoints(batch._begun[row], batch._variables, traced.nodes, roots)
        values = stored.values(batch._tables, batch._components)
        totals = traced.totals - np.maximum(traced.covered, 0.0)
        lines = _BoundLines(traced.weight, traced.price[:, 0], totals)
        return _Found(values[:, 0], values[:, 1:], stored, traced.kind != OVERFLOW, lines)

    def _missed(self, found: _Found) -> Floats | None:
        """Narrower limits, if a point is not feasible after all; None if all are."""
        problem = self._batch._problem
        over = found.t[:, 1:] - problem.limits[1:] - problem.tolerances[1:]
        if not (over > 0).any():
            return None
        limits = np.full(self._constraints, np.inf)
        for j in range(1, self._constraints):
            above = over[:, j - 1][over[:, j - 1] > 0]
            if len(above):
                allowed = problem.limits[j] + problem.tolerances[j]
                limits[j] = allowed + 0.5 * above.min()
        return limits

    def _traced(self, row: int, found: _Found, is_sure: bool, spent: float) -> TracedPoints:
        problem = self._batch._problem
        over = found.t[:, 1:] - problem.limits[1:] - problem.tolerances[1:]
        good = np.flatnonzero((over <= 0).all(axis=1) & np.isfinite(found.h))
        complete = found.complete and is_sure
        t = found.t[:, 0]
        whole = TracedPoints(found.h, t, found.points, complete, None, spent)
        whole = whole.kept(good[undominated(found.h[good], t[good])])
        if complete:
            return whole
        window = self._batch._asked.windows[row]
        steps = found.lines.steps(whole, window)
        return TracedPoints(whole.h, whole.t, whole.points, False, steps, spent)


@dataclass(frozen=True)
class _Found:
    h: Floats
    t: Floats  # (P, m)
    points: NodePoints
    complete: bool
    lines: _BoundLines


@dataclass(frozen=True)
class _BoundLines:
    """Every assignment that was not found has weight h <= total + price t."""

    weight: Floats
    price: Floats
    total: Floats

    def steps(self, known: TracedPoints, window: Floats) -> Steps:
        """The lowest line, and the points above it, as steps."""
        ends = known.t[np.isfinite(known.t)]
        between, steps = ends, TRADEOFFS.bound_steps
        if len(ends):
            places = np.arange(steps * (len(ends) - 1) + 1) / steps
            between = np.interp(places, np.arange(len(ends)), ends)
        at = np.unique(np.concatenate([ends, between, window[np.isfinite(window)], [np.inf]]))
        upper = np.full(len(at), np.inf)
        for weight, price, total in zip(self.weight, self.price, self.total, strict=True):
            if weight > 0:
                line = total + price * at if price > 0 else np.full(len(at), total)
                upper = np.minimum(upper, line)
            else:
                upper[at < -total / price] = -np.inf  # below the least t
        upper += 1e-12 * np.maximum(1.0, np.abs(np.where(np.isfinite(upper), upper, 0.0)))
        own = np.append(-np.inf, known.h)[np.searchsorted(known.t, at, side="right")]
        return Steps(at, np.maximum(upper, own))
