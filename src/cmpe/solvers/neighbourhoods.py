"""`search`: large-neighbourhood search for problems too wide to eliminate.

docs/wide.md explains it. A pool of induced subgraphs of bounded width serves all rows of a
structure. A pass re-optimises one of them exactly for h - sum mu_j t_j given the rest, for a block
of rows at once, one row a lane; the multipliers follow the sign of each violation, noise on the
variables' own tables fades as time runs out. Feasible assignments are kept; promising ones are
repaired and polished by the moves of `local`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.errors import Interrupted, MethodError
from cmpe.models.conditioning import Conditioning, Gather
from cmpe.models.flat import Floats
from cmpe.problem import FREE, Assignments, Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.local_search import Graph, Rules, checked, joined, mean_spread
from cmpe.solvers.rows import Limits, Running
from cmpe.solvers.subgraphs import Kind, subgraphs

METHOD = "search"
PASSES = 500
GLOBAL, BALLS = Kind(8.0, 0, 32), Kind(12.0, 120, 64)
FIRST = 0.15  # of the budget goes to global members, then a share of it
SHARE = 0.2
HEAT = 0.5  # of the roughness of a row's tables, falling to 0 at COLD of the budget
COLD = 0.9
MULTIPLIER, STEP = 0.5, 0.25  # at the start, of spread(h) / spread(t)
LONGEST, SHORTEST = 1.0, 0.02  # multiplier steps, for members of all and of few variables
CALL = 64  # passes of one compiled call, at most
SHARES = 25  # compiled calls of a timed run, about
REPAIR = 100  # steps on the way
LARGE = 4096  # slots: above it, the last polish is single moves only
SWEEPS = 3


class Budget(NamedTuple):
    """How long to search: passes of every row, or seconds a row."""

    passes: int = PASSES
    seconds: float | None = None
    clock: Callable[[], float] = time.perf_counter


@dataclass(frozen=True)
class SearchSolver:
    """Good feasible answers on wide problems, from `running.start` or from scratch.

    With a time limit it uses that many seconds a row; without one, `passes` passes, and the
    answers are then the same on every machine with any number of threads. No bound.
    """

    running: Running = Running()
    passes: int = PASSES

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """The best feasible assignment found, else the least violated one."""
        Limits(time_limit)
        instances = problem.given(evidence)
        given = FREE if self.running.start is None else self.running.start
        work = _Search(instances, checked(instances, given), seed)
        try:
            for done in work.run(Budget(self.passes, time_limit), self.running.threads):
                if self.running.progress is not None:
                    self.running.progress(done, len(instances))
        except KeyboardInterrupt:
            raise Interrupted(work.answers(), work.finished) from None
        return work.answers()


def search(
    instances: Instances,
    assignments: ArrayLike = FREE,
    *,
    budget: Budget | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Assignments:
    """Improve one assignment per row (B, n); evidence is put in, -1 is no start.

    A feasible assignment is never made worse.
    """
    work = _Search(instances, checked(instances, assignments), seed)
    for _ in work.run(budget or Budget(), threads):
        pass
    return work.rows


class _Fixed(NamedTuple):
    """What all blocks of a problem share."""

    graph: Graph
    gather: Gather
    rules: Rules
    scales: Floats  # (m,): spread of h / spread of t_j


_COMPILED: WeakKeyDictionary[Conditioning, tuple[Graph, Gather]] = WeakKeyDictionary()


class _Search:
    """One batch on its way; `rows` (B, n) are replaced as blocks finish."""

    def __init__(self, instances: Instances, rows: Assignments, seed: int) -> None:
        structure, problem = instances.conditioning, instances.problem
        if structure not in _COMPILED:
            _COMPILED[structure] = Graph.of(structure), joined(structure)
        rules = Rules.of(problem)
        scales = mean_spread(problem.objective) * rules.weights
        self.fixed = _Fixed(*_COMPILED[structure], rules, scales)
        self.pool = subgraphs(structure, (GLOBAL, BALLS))
        self.instances, self.rows, self.seed = instances, rows, seed
        self.random = np.random.SeedSequence(seed).generate_state(max(1, len(rows)), np.uint64)
        self.finished = 0
        self._seconds = np.zeros(len(rows))

    def answers(self) -> Solutions:
        """What `rows` are worth."""
        return Solutions.of(self.instances.problem, self.rows, method=METHOD, seconds=self._seconds)

    def run(self, budget: Budget, threads: int) -> Iterator[int]:
        """How many rows are finished, block after block."""
        if budget.passes < 0:
            raise MethodError(f"passes must be at least 0, found {budget.passes}")
        from cmpe.solvers.lane_kernels import LANES

        count = len(self.rows)
        edges = np.linspace(0, count, -(-count // LANES) + 1).astype(int)  # of even blocks
        blocks = [slice(a, b) for a, b in pairwise(edges.tolist())]
        with ThreadPoolExecutor(threads) as executor:
            try:
                for rows in executor.map(lambda rows: self._block(rows, budget), blocks):
                    self.finished = rows.stop
                    yield rows.stop
            finally:
                executor.shutdown(cancel_futures=True)

    def _block(self, rows: slice, budget: Budget) -> slice:
        begin = budget.clock()
        part = Instances(self.instances.problem, self.instances.evidence[rows])
        start = self.rows[rows]
        found = _Block(self, part, start, self.random[rows]).run(budget, begin)
        self.rows[rows] = better(self.instances.problem, found, start)
        self._seconds[rows] = (budget.clock() - begin) / (rows.stop - rows.start)
        return rows


def better(problem: Problem, found: Assignments, start: Assignments) -> Assignments:
    """Each row's `found`, or its `start` where that is feasible and worth more."""
    given = (start >= 0).all(axis=1)
    keep = np.zeros(len(found), dtype=bool)
    if given.any():
        old, new = start[given], found[given]
        worth = problem.objective.value(old), problem.objective.value(new)
        sound = problem.is_feasible(old), problem.is_feasible(new)
        keep[given] = sound[0] & ~(sound[1] & (worth[1] >= worth[0]))
    return np.where(keep[:, np.newaxis], start, found)


class _Block:
    """At most LANES rows, in the lanes of one state; spare lanes take replicas of the rows."""

    def __init__(
        self, whole: _Search, part: Instances, start: Assignments, random: NDArray[np.uint64]
    ) -> None:
        from cmpe.solvers import search_kernels as kernels
        from cmpe.solvers.lane_kernels import LANES

        self._whole, self._part, self._kernels = whole, part, kernels
        self._row = np.arange(LANES) % len(part)  # of each lane
        layout, fixed = whole.pool.layout, whole.fixed
        replica = np.arange(LANES, dtype=np.uint64) // np.uint64(len(part))
        mixed = random[self._row] + replica * np.uint64(0x9E3779B97F4A7C15)
        self._state = _room(layout, fixed, mixed | np.uint64(1))
        kernels.take_up(self._conditioned(), layout, fixed.rules, self._state)
        self._room = kernels.scratch(fixed.graph, fixed.rules, self._state, whole.pool.sizes)
        free = list(part.conditioning.free)
        values = np.ascontiguousarray(start[self._row][:, free].T, dtype=np.int32)  # (F, L)
        kernels.begin(values, layout, fixed.rules, self._state, self._room)

    def _conditioned(self) -> Floats:
        from cmpe.models.kernels import condition

        fixed = self._whole.fixed
        lanes = np.ascontiguousarray(self._part.evidence[self._row].T, dtype=np.int64)
        block = np.zeros((len(self._state.tables), len(self._row)))
        condition(lanes, fixed.gather, block)
        return block

    def run(self, budget: Budget, begin: float) -> Assignments:
        """The best assignment of each row (B, n)."""
        whole, fixed = self._whole, self._whole.fixed
        for passes in _schedule(whole, budget, begin, len(self._part)):
            self._kernels.run(
                whole.pool.pool, whole.pool.layout, fixed.graph, fixed.rules, fixed.scales,
                *passes, REPAIR, self._state, self._room,
            )  # fmt: skip
        return self._finish()

    def _finish(self) -> Assignments:
        fixed, count = self._whole.fixed, len(self._row)
        values, answers = np.zeros((2, count)), np.zeros(self._state.z.shape, dtype=np.int32)
        slots = len(fixed.graph.owner)
        self._kernels.finish(
            50 * len(fixed.graph.free), SWEEPS if slots <= LARGE else 0, fixed.graph, fixed.rules,
            self._state, self._room, values, answers,
        )  # fmt: skip
        # The replica of least penalty, then of the highest h; ties go to the first.
        order = np.lexsort((-values[1], values[0], self._row))
        first = order[np.searchsorted(self._row[order], np.arange(len(self._part)))]
        return self._part.complete(answers.T[first])


def _room(layout: Any, fixed: _Fixed, random: NDArray[np.uint64]) -> Any:
    """A state without rows in it."""
    from cmpe.solvers.search_kernels import State

    lanes, limits = len(random), len(fixed.scales)
    entries, tables, free = int(layout.offsets[-1]), len(layout.offsets) - 1, len(layout.cards)
    channels = max(1 + limits, int(fixed.rules.zeros.max()) + 1)
    wide = np.float32
    scale = np.repeat(fixed.scales[:, np.newaxis], lanes, axis=1)
    return State(
        tables=np.zeros(((1 + limits) * entries, lanes), dtype=wide),
        z=np.zeros((free, lanes), dtype=np.int32),
        current=np.zeros(((1 + limits) * tables, lanes), dtype=wide),
        totals=np.zeros((1 + limits, lanes)),
        multipliers=MULTIPLIER * scale,
        steps=STEP * scale,
        signs=np.zeros((limits, lanes)),
        best=np.full(lanes, -np.inf),
        kept=np.zeros((free, lanes), dtype=np.int32),
        random=random,
        rest=np.zeros(lanes, dtype=np.int64),
        exact=np.zeros((lanes, entries, channels + channels % 2)),
    )


Passes = tuple[NDArray[np.int64], Floats, Floats]


def _schedule(whole: _Search, budget: Budget, begin: float, rows: int) -> Iterator[Passes]:
    """Members, noise and longest multiplier steps, a call's worth at a time."""
    globally, locally = whole.pool.groups
    if not len(globally):
        return
    random = np.random.default_rng([whole.seed, 1])
    variables = np.diff(whole.pool.pool.members[:, :2], axis=1)[:, 0] / len(whole.pool.layout.cards)
    done, count = 0, 1
    while True:
        if budget.seconds is None:
            count = min(CALL, budget.passes - done)
            progress = (done + np.arange(count)) / max(1, budget.passes)
        else:
            spent = (budget.clock() - begin) / (rows * budget.seconds)
            rate = spent / max(1, done)  # of the budget, a pass
            count = int(np.clip(1 / SHARES / max(rate, 1e-6), 1, CALL)) if spent < 1 - rate else 0
            progress = spent + rate * np.arange(count)
        if count <= 0:
            return
        done += count
        everywhere = (random.random(count) < SHARE) | (progress < FIRST)
        members = np.where(
            everywhere, random.choice(globally, count), random.choice(locally, count)
        )
        heat = HEAT * np.maximum(0.0, 1.0 - progress / COLD)
        yield members, heat, np.maximum(SHORTEST, LONGEST * variables[members])
