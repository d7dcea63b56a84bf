"""`reduction`: exact answers of rows too wide to eliminate, by fixing variables first.

With an answer of value L and the value bounds of a split relaxation (`bounds.marginals`), every
value whose bound is at most L is out. Variables with one value left become evidence, the graph
falls apart, and what is left is split again, more tightly, or eliminated exactly. Where nothing
more can be fixed, the most decisive variable of a cut is branched on, the greatest bound first.
What was put aside holds nothing better than L, so max(L, bounds of open nodes) is a bound whenever
it stops. Where a gap is enough, a value is out if its bound is at most L + gap.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from cmpe.arrays import FREE, Assignments
from cmpe.bounds.base import Work
from cmpe.bounds.lagrangian import lane_bytes
from cmpe.bounds.marginals import ValueBounds, value_bounds
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.settings import SETTINGS
from cmpe.bounds.splitting import by_size
from cmpe.core.compiler import timing
from cmpe.core.settings import EXACT
from cmpe.errors import Interrupted, OutOfTime, TooLarge
from cmpe.problem import Instances, Problem
from cmpe.problem.starts import checked
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Limits
from cmpe.solvers.exact import (
    eliminate,
    seconds_of_elimination,
    seconds_per_round,
)
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.rows import RowAnswer, solve_rows
from cmpe.solvers.search import Search


@dataclass(frozen=True)
class Reduction:
    """Proves wide rows by reduction, elimination and branching."""

    nodes: int | None = None  # of one row, at most; those left open count with their bounds

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """Proved answers, or the incumbent and bound at the time limit (seconds a row)."""
        return solve_rows(instances, self._job(instances, limits), "reduction", limits)

    def _job(self, instances: Instances, limits: Limits) -> _Prove:
        memory, seconds = limits.of_a_row().memory, limits.seconds or 0.0
        splits = Splits(instances.problem, limits.seed, memory, seconds)
        if limits.start is None:
            start = first_answers(instances, limits).assignments
        else:
            start = checked(instances, limits.start)
        splits.prepare(instances, np.inf if limits.seconds is None else limits.seconds)
        return _Prove(instances, start, limits.of_a_row(), splits, self.nodes)


def first_answers(instances: Instances, limits: Limits) -> Solutions:
    """What `search` makes of the user's start, or of none, in its share of the time."""
    told = replace(limits, gap=0.0, progress=None)
    if limits.seconds is not None:
        enough = max(EXACT.least_search, EXACT.search_seconds * len(instances.conditioning.free))
        told = replace(told, seconds=min(EXACT.search_share * limits.seconds, enough))
        if len(instances):  # loads compiled code, makes the pool
            Search(passes=1, bounds=False).answer(instances.take(slice(0, 1)), Limits())
    try:
        return Search(bounds=False).answer(instances, told)
    except Interrupted as stop:  # nothing is proved yet
        raise Interrupted(stop.solutions, 0) from None


class Splits:
    """Splits of nodes; those of the whole problem are made once for all rows."""

    def __init__(
        self, problem: Problem, seed: int, memory: float | None = None, seconds: float = 0.0
    ) -> None:
        self._root, self._seed, self._memory = problem.evidence_variables, seed, memory
        self._longest = max(EXACT.split_seconds, EXACT.longest_split * seconds)
        self._made: dict[int, Relaxation] = {}

    def prepare(self, instances: Instances, seconds: float) -> None:
        """Make the first split and load compiled code, which no row should be charged with."""
        if len(instances) and not is_narrow(instances.problem, seconds):
            first = instances.take(slice(0, 1))
            with suppress(TooLarge):
                value_bounds(first, self.of(first.problem, 0), Work(steps=1))

    def seconds(self, attempt: int) -> float:
        """In which a split must be small enough to do enough of its steps."""
        return min(self._longest, EXACT.split_seconds * EXACT.split_growth**attempt)

    def of(self, problem: Problem, attempt: int, until: float = np.inf) -> Relaxation:
        """A split of a node, another one at every attempt; OutOfTime if it takes too long."""
        seconds = self.seconds(attempt)
        work = Work(seconds, seed=self._seed + attempt, until=until, memory=self._memory)
        tied = 2 if seconds == EXACT.split_seconds else 3
        if problem.evidence_variables != self._root:
            return by_size(problem.conditioning, work, tied)
        if attempt not in self._made:
            self._made[attempt] = by_size(problem.conditioning, work, tied)
        return self._made[attempt]


def is_narrow(problem: Problem, seconds: float) -> bool:
    """Whether to eliminate, within so many seconds."""
    if not problem.conditioning.free:
        return True
    # Widths first: the operations of a very wide plan are a number too large for a float.
    return lane_bytes(problem) <= EXACT.narrow_bytes and seconds_of_elimination(problem) <= seconds


@dataclass(order=True)
class _OpenNode:
    """A row with some more variables fixed; greatest bound first."""

    negated: float
    number: int
    row: Assignments = field(compare=False)  # (n,), -1 where free
    attempt: int = field(compare=False, default=0)  # splits that were tried


@dataclass(frozen=True)
class _Prove:
    """Answers one row."""

    instances: Instances
    start: Assignments
    limits: Limits
    splits: Splits
    nodes: int | None

    def __call__(self, row: int) -> RowAnswer:
        search, interrupted = self.begin(row), False
        try:
            for _ in search.run():
                pass
        except KeyboardInterrupt:
            interrupted = True
        problem, best = self.instances.problem, search.best.assignment
        return RowAnswer.known(problem, best, search.bound, interrupted=interrupted)

    def begin(self, row: int) -> BestFirst:
        """The search of one row, its clock running."""
        until = np.inf if self.limits.seconds is None else timing.now() + self.limits.seconds
        problem = self.instances.problem
        best = Incumbent(problem, self.limits.gap)
        best.offer(self.start[row])
        full = np.full(problem.variables, FREE, dtype=np.int32)
        full[list(problem.evidence_variables)] = self.instances.evidence[row]
        search = BestFirst(best, self.splits, until, self.nodes)
        search.push(np.inf, full)
        return search


class BestFirst:
    """Best-first search over what is fixed."""

    def __init__(self, best: Incumbent, splits: Splits, until: float, nodes: int | None) -> None:
        self.open: list[_OpenNode] = []
        self.best = best
        self._settled = -np.inf  # greatest bound of a node that cannot be taken further
        self._problem, self._splits, self.until = best.problem, splits, until
        self.latest = until  # when a split must be made
        self.deadline = until  # of everything: steps go on beyond `until`
        self.out_of_time = False  # whether one was not
        self._nodes = np.inf if nodes is None else nodes
        self._count = 0

    @property
    def bound(self) -> float:
        """On the best feasible objective; -inf: there is none."""
        return max([self.best.enough, self._settled, *(-node.negated for node in self.open)])

    def run(self) -> Iterator[None]:
        """Node after node until all are closed or a limit is reached."""
        done = 0
        while self.open and done < self._nodes and not self._is_over():
            self.expand()
            done += 1
            yield

    def _is_over(self) -> bool:
        return self.out_of_time or timing.now() >= self.until

    def push(self, bound: float, row: Assignments, attempt: int = 0) -> None:
        """Keep a node, unless it holds nothing better than the incumbent."""
        if bound > self.best.enough:
            self._count += 1
            heapq.heappush(self.open, _OpenNode(-bound, self._count, row, attempt))

    def expand(self) -> None:
        """Take the node with the greatest bound: prove it, reduce it or branch on it."""
        node = heapq.heappop(self.open)
        try:
            self.expand_node(node)
        except KeyboardInterrupt:  # it counts as open
            heapq.heappush(self.open, node)
            raise

    def expand_node(self, node: _OpenNode) -> None:
        """The same for a given node."""
        if -node.negated <= self.best.enough:
            return
        observed = np.flatnonzero(node.row != FREE)
        problem = self._problem.observing(observed.tolist())
        instances = problem.given(node.row[observed][np.newaxis])
        if is_narrow(problem, self.until - timing.now()):
            self._eliminate(instances, -node.negated)
            return
        bound, row = -node.negated, node.row
        for attempt in range(node.attempt, EXACT.splits):
            try:
                relaxation = self._splits.of(problem, attempt, self.latest)
            except OutOfTime:
                self.out_of_time = True
                self.push(bound, row)
                return
            except TooLarge:  # cannot be split
                self._settled = max(self._settled, bound)
                return
            found = value_bounds(instances, relaxation, self._work(attempt))
            bound = min(bound, found.upper)
            if bound <= self.best.enough:
                return
            fixed = self._fixed(row, instances, found)
            if fixed is None:
                return
            is_last = attempt == EXACT.splits - 1
            if (fixed != row).any() or (timing.now() >= self.until and not is_last):
                self.push(bound, fixed, 0 if (fixed != row).any() else attempt + 1)
                return
        self._branch(bound, row, instances, found)

    def _work(self, attempt: int) -> Work:
        """All steps, even if they take longer than a turn; a few of them bound nothing."""
        if self.deadline == np.inf:
            return Work(steps=EXACT.split_steps)
        now = timing.now()
        all_steps = EXACT.split_steps / SETTINGS.enough_steps * self._splits.seconds(attempt)
        seconds = min(self.deadline - now, max(self.until - now, all_steps))
        return Work(max(1e-4, seconds), EXACT.split_steps)

    def _eliminate(self, instances: Instances, bound: float) -> None:
        left = self.until - timing.now()
        rounds = min(EXACT.rounds, 1 + left / seconds_per_round(instances.problem))
        found = eliminate(instances, max(1, int(rounds)))
        self.best.offer(found.assignments[0])
        if found.status[0] != Status.INFEASIBLE:
            self._settled = max(self._settled, min(bound, float(found.bound[0])))

    def _fixed(
        self, row: Assignments, instances: Instances, found: ValueBounds
    ) -> Assignments | None:
        """The row with every variable that has one value left; None if one has none."""
        out = row.copy()
        for variable, bounds in zip(instances.conditioning.free, found.values, strict=True):
            left = np.flatnonzero(bounds > self.best.enough)
            if not len(left):
                return None
            if len(left) == 1:
                out[variable] = left[0]
        return out

    def _branch(
        self, bound: float, row: Assignments, instances: Instances, found: ValueBounds
    ) -> None:
        """On the variable, of a cut if there is one, whose second value loses most."""
        free = instances.conditioning.free
        loss = np.array([np.sort(b)[-1] - np.sort(b)[-2] for b in found.values])
        loss[~np.isfinite(loss)] = 0.0
        choose = np.array(found.split) if any(found.split) else np.ones(len(free), dtype=bool)
        at = int(np.argmax(np.where(choose, loss, -1.0)))
        for value, reach in enumerate(found.values[at]):
            child = row.copy()
            child[free[at]] = value
            self.push(min(bound, float(reach)), child)
