"""`search`: large-neighbourhood search for problems too wide to eliminate.

docs/wide.md explains it. A pool of induced subgraphs of bounded width serves all rows of a
structure. A pass re-optimises one of them exactly for h - sum mu_j t_j given the rest, for a block
of rows at once, one row a lane; the multipliers follow the sign of each violation, noise on the
variables' own tables fades as time runs out. Feasible assignments are kept; promising ones are
repaired and polished by the moves of `local`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import FREE, Assignments, Floats
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.errors import Interrupted, MethodError
from cmpe.models.conditioning import Conditioning, Gather
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.local import Graph, Rules, checked, joined, mean_spread
from cmpe.solvers.search.pool import Subgraphs, subgraphs
from cmpe.solvers.search.schedule import KINDS, PASSES, QUICK, Budget, Clock, schedule

METHOD = "search"
MULTIPLIER, STEP = 0.5, 0.25  # at the start, of spread(h) / spread(t)
KNOWN_STEP = 0.02  # of the same, where multipliers are given
REPAIR = 50  # steps on the way
LARGE = 4096  # slots: above it, the last polish is single moves only
SWEEPS = 3
BEGINNINGS = ("random", "icm", "messages")
ROUNDS = 6  # of messages, each with its own multipliers


@dataclass(frozen=True)
class SearchSolver:
    """Good feasible answers on wide problems, from `running.start` or from scratch.

    With a time limit it uses that many seconds a row; without one, `passes` passes, and the
    answers are then the same with any number of threads. The bound is the Lagrangian dual's where
    a member covers everything, that is where elimination is cheap, and +inf elsewhere.
    """

    running: Running = Running()
    passes: int = PASSES
    begin: str = "icm"  # or another of BEGINNINGS, for rows without a start
    bounds: bool = True  # whether to bound what is cheap to bound

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
            for done in work.run(Budget(self.passes, time_limit), self.running.threads, self.begin):
                if self.running.progress is not None:
                    self.running.progress(done, len(instances))
        except KeyboardInterrupt:
            raise Interrupted(work.answers(), work.finished) from None
        return work.bounded(self.running.threads) if self.bounds else work.answers()


def search(
    instances: Instances,
    assignments: ArrayLike = FREE,
    *,
    multipliers: ArrayLike | None = None,
    budget: Budget | None = None,
    begin: str = "icm",
    seed: int = 0,
    threads: int = 1,
) -> Assignments:
    """Improve one assignment per row (B, n); evidence is put in, -1 is no start.

    Rows without a start begin at a random assignment, where single moves from one lead (`icm`), or
    where damped max-product does (`messages`). A feasible assignment is never made worse.
    `multipliers` (B, m) near the right ones save the passes that look for them.
    """
    work = _Search(instances, checked(instances, assignments), seed, multipliers)
    for _ in work.run(budget or Budget(), threads, begin):
        pass
    return work.settled()


class _Fixed(NamedTuple):
    """What all blocks of a problem share."""

    graph: Graph
    gather: Gather
    rules: Rules
    scales: Floats  # (m,): spread of h / spread of t_j


_COMPILED: WeakKeyDictionary[Conditioning, tuple[Graph, Gather, Subgraphs]] = WeakKeyDictionary()


class _Search:
    """One batch on its way; `rows` (B, n) are replaced as blocks finish. `rooms` is what the
    blocks of one thread use in turn."""

    def __init__(
        self,
        instances: Instances,
        rows: Assignments,
        seed: int,
        multipliers: ArrayLike | None = None,
    ) -> None:
        structure, problem = instances.conditioning, instances.problem
        if structure not in _COMPILED:
            pool = subgraphs(structure, KINDS)
            _COMPILED[structure] = Graph.of(structure), joined(structure), pool
        rules = Rules.of(problem)
        scales = mean_spread(problem.models[0]) * rules.weights
        graph, gather, self.pool = _COMPILED[structure]
        self.fixed = _Fixed(graph, gather, rules, scales)
        self.instances, self.start, self.rows, self.seed = instances, rows, rows.copy(), seed
        self.rooms = threading.local()
        self.multipliers = None if multipliers is None else _prices(instances, multipliers)
        random = np.random.SeedSequence(seed).generate_state(max(1, len(rows)), np.uint64)
        self.random: NDArray[np.uint64] = random.astype(np.uint64)
        self.finished = 0
        self._seconds = np.zeros(len(rows))

    def settled(self) -> Assignments:
        """The rows, or their start where that is feasible and worth more."""
        return better(self.instances.problem, self.rows, self.start)

    def answers(self) -> Solutions:
        """What the rows are worth."""
        problem, spent = self.instances.problem, self._seconds
        return Solutions.of(problem, self.settled(), method=METHOD, seconds=spent)

    def bounded(self, threads: int) -> Solutions:
        """The answers with the dual's bounds, where elimination is cheap."""
        variables = len(self.pool.layout.cards)
        members = self.pool.pool.members
        if variables and not (members[:, 1] - members[:, 0] == variables).any():
            return self.answers()
        begin = time.perf_counter()
        dual = lagrangian_dual(self.instances, threads=threads)
        spent = (time.perf_counter() - begin) / max(1, len(self.rows))
        return Solutions.of(
            self.instances.problem,
            self.settled(),
            bound=dual.bound,
            infeasible=dual.infeasible,
            method=METHOD,
            seconds=self._seconds + spent,
        )

    def run(self, budget: Budget, threads: int, begin: str = "icm") -> Iterator[int]:
        """How many rows are finished, block after block."""
        if budget.passes < 0:
            raise MethodError(f"passes must be at least 0, found {budget.passes}")
        if begin not in BEGINNINGS:
            raise MethodError(f"a search begins with {', '.join(BEGINNINGS)}; found {begin!r}")
        from cmpe.solvers.search.kernels.lanes import LANES

        count = len(self.rows)
        if not len(self.pool.layout.cards):  # nothing to decide
            self.finished = count
            yield count
            return
        edges = np.linspace(0, count, -(-count // LANES) + 1).astype(int)  # of even blocks
        blocks = [slice(a, b) for a, b in pairwise(edges.tolist())]
        with ThreadPoolExecutor(threads) as executor:
            try:
                for rows in executor.map(lambda rows: self._block(rows, budget, begin), blocks):
                    self.finished = rows.stop
                    yield rows.stop
            finally:
                executor.shutdown(cancel_futures=True)

    def _block(self, rows: slice, budget: Budget, kind: str) -> slice:
        begin = budget.clock()
        part = Instances(self.instances.problem, self.instances.evidence[rows])
        start = self.start[rows]
        block = _Block(self, part, start, self.random[rows])
        if self.multipliers is not None:
            block.price(self.multipliers[rows])
        block.begin(start, kind)
        self.rows[rows] = block.run(budget, begin)
        self._seconds[rows] = (budget.clock() - begin) / (rows.stop - rows.start)
        return rows


def better(problem: Problem, found: Assignments, start: Assignments) -> Assignments:
    """Each row's `found`, or its `start` where that is feasible and worth more."""
    given = (start >= 0).all(axis=1)
    keep = np.zeros(len(found), dtype=bool)
    if given.any():
        worth = [problem.objective.value(rows[given]) for rows in (start, found)]
        sound = [
            problem.are_feasible(h, problem.constraint_values(rows[given]))
            for h, rows in zip(worth, (start, found), strict=True)
        ]
        keep[given] = sound[0] & ~(sound[1] & (worth[1] >= worth[0]))
    return np.where(keep[:, np.newaxis], start, found)


def _prices(instances: Instances, multipliers: ArrayLike) -> Floats:
    """Multipliers (B, m), checked."""
    given = np.asarray(multipliers, dtype=np.float64)
    shape = (len(instances), len(instances.problem.constraints))
    if given.shape != shape or not (given >= 0).all():
        raise MethodError(f"multipliers must be {shape} numbers from 0 on, found {given.shape}")
    return given


class _Block:
    """At most LANES rows, in the lanes of one state. Spare lanes take replicas of the rows, which
    only count where time decides: an answer would else depend on how many rows there are."""

    def __init__(
        self, whole: _Search, part: Instances, start: Assignments, random: NDArray[np.uint64]
    ) -> None:
        from cmpe.solvers.search.kernels import loop as kernels
        from cmpe.solvers.search.kernels.lanes import LANES

        self._whole, self._part, self._kernels = whole, part, kernels
        self._row = np.arange(LANES) % len(part)  # of each lane
        layout, fixed = whole.pool.layout, whole.fixed
        replica = np.arange(LANES, dtype=np.uint64) // np.uint64(len(part))
        mixed = random[self._row] + replica * np.uint64(0x9E3779B97F4A7C15)
        self._state = _room(layout, fixed, mixed | np.uint64(1))
        self._condition()
        kernels.take_up(layout, self._state)
        if not hasattr(whole.rooms, "scratch"):
            whole.rooms.scratch = kernels.scratch(fixed.graph, fixed.rules, whole.pool.sizes)
        self._room = whole.rooms.scratch

    def price(self, multipliers: Floats) -> None:
        """Begin at these multipliers (B, m), with short steps, which double while one is wrong."""
        self._state.multipliers[:] = multipliers[self._row].T
        self._state.steps[:] = KNOWN_STEP * self._whole.fixed.scales[:, np.newaxis]

    def begin(self, start: Assignments, kind: str) -> None:
        """Stand at `start` (B, n), and where a row has none, where `kind` leads."""
        from cmpe.solvers.search.kernels import starts as start_kernels

        layout, fixed = self._whole.pool.layout, self._whole.fixed
        free = list(self._part.conditioning.free)
        values = np.ascontiguousarray(start[self._row][:, free].T, dtype=np.int32)  # (F, L)
        self._kernels.begin(values, layout, fixed.rules, self._state, self._room)
        without = (values < 0).any(axis=0)
        if kind == "icm":
            unlimited = fixed.rules.unlimited()
            start_kernels.climb_from(
                without, layout, fixed.graph, unlimited, self._state, self._room
            )
        elif kind == "messages":
            start_kernels.pass_messages(
                without, layout, fixed.rules, fixed.scales, ROUNDS, self._state, self._room
            )

    def _condition(self) -> None:
        from cmpe.models.kernels import condition

        lanes = np.ascontiguousarray(self._part.evidence[self._row].T, dtype=np.int64)
        condition(lanes, self._whole.fixed.gather, self._state.block)

    def run(self, budget: Budget, begin: float) -> Assignments:
        """The best assignment of each row (B, n)."""
        whole, fixed = self._whole, self._whole.fixed
        clock = Clock(budget, begin, len(self._part))
        quick = QUICK if whole.multipliers is None else 0
        for passes in schedule(whole.pool, clock, whole.seed, quick):
            self._kernels.run(
                whole.pool.pool, whole.pool.layout, fixed.graph, fixed.rules, fixed.scales,
                *passes, REPAIR, self._state, self._room,
            )  # fmt: skip
        lanes = np.arange(len(self._part))
        if clock.is_timed:  # the replica of the highest h; ties go to the first
            order = np.lexsort((-self._state.best, self._row))
            lanes = order[np.searchsorted(self._row[order], lanes)]
        return self._finish(lanes, SWEEPS if clock.thorough else 0, clock.kicks)

    def _finish(self, lanes: NDArray[np.int64], sweeps: int, kicks: int) -> Assignments:
        fixed, state = self._whole.fixed, self._state
        answers = np.zeros((len(lanes), len(state.z)), dtype=np.int32)
        if len(fixed.graph.owner) > LARGE:
            sweeps, kicks = 0, 0
        steps = 50 * len(fixed.graph.free)
        self._kernels.finish(
            lanes, steps, sweeps, kicks, fixed.graph, fixed.rules, state, self._room, answers
        )
        return self._part.complete(answers)


def _room(layout: Any, fixed: _Fixed, random: NDArray[np.uint64]) -> Any:
    """A state without rows in it."""
    from cmpe.solvers.search.kernels.loop import State

    lanes, limits = len(random), len(fixed.scales)
    entries, tables, free = int(layout.offsets[-1]), len(layout.offsets) - 1, len(layout.cards)
    wide = np.float32
    scale = np.repeat(fixed.scales[:, np.newaxis], lanes, axis=1)
    return State(
        tables=np.empty(((1 + limits) * entries, lanes), dtype=wide),
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
        block=np.empty(((1 + limits) * entries, lanes)),
    )
