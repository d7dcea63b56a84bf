"""`reduction`: exact answers of rows too wide to eliminate, by fixing variables first.

With an answer of value L and the value bounds of a split relaxation (`bounds.marginals`), every
value whose bound is at most L is out. Variables with one value left become evidence, the graph
falls apart, and what is left is split again, more tightly, or eliminated exactly. Where nothing
more can be fixed, the most decisive variable of a cut is branched on, the greatest bound first.
What was put aside holds nothing better than L, so max(L, bounds of open nodes) is a bound whenever
it stops.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass, field, replace

import numpy as np

from cmpe.bounds.bounding import Work
from cmpe.bounds.lagrangian import lane_bytes
from cmpe.bounds.marginals import ValueBounds, value_bounds
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.splitting import by_size
from cmpe.problem import FREE, Assignments, Evidence, Instances, Problem
from cmpe.solution import OPTIMALITY_TOLERANCE, Solutions, Status
from cmpe.solvers.rows import Limits, RowAnswer, Running, solve_rows

NARROW_BYTES = 1 << 24  # of one row: up to here the exact engine takes over
ROUNDS = 40  # of the exact engine on a narrow node
CUTS = 3  # different splits of a node before it is branched on
STEPS = 300  # of the descent on one split
STEP_SECONDS = 0.1  # a split must be small enough to do its steps in about this time
SEARCH_SHARE = 0.1  # of the time limit, for a first answer
SEARCH_SECONDS = 0.2  # without a time limit


@dataclass(frozen=True)
class ReductionSolver:
    """Proves wide rows by reduction, elimination and branching."""

    running: Running = Running()

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """Proved answers, or the incumbent and bound at the time limit (seconds a row)."""
        instances = problem.given(evidence)
        limits = Limits(time_limit, 1, seed)
        job = _Prove(instances, self._start(instances, limits), limits, _Splits(problem, seed))
        return solve_rows(instances, job, "reduction", self.running)

    def _start(self, instances: Instances, limits: Limits) -> Assignments:
        if self.running.start is not None:
            return self.running.start
        from cmpe.solvers.neighbourhoods import SearchSolver

        share = SEARCH_SECONDS if limits.seconds is None else SEARCH_SHARE * limits.seconds
        running = replace(self.running, progress=None)
        search = SearchSolver(running)
        found = search.solve(
            instances.problem, instances.evidence, time_limit=share, seed=limits.seed
        )
        return found.assignments


class _Splits:
    """Splits of nodes; those of the whole problem are made once for all rows."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._root, self._seed = problem.evidence_variables, seed
        self._made: dict[int, Relaxation] = {}

    def of(self, problem: Problem, attempt: int) -> Relaxation:
        """A split of a node, another one at every attempt."""
        work = Work(time_limit=STEP_SECONDS, seed=self._seed + attempt)
        if problem.evidence_variables != self._root:
            return by_size(problem.conditioning, work)
        if attempt not in self._made:
            self._made[attempt] = by_size(problem.conditioning, work)
        return self._made[attempt]


@dataclass
class _Incumbent:
    """The best feasible assignment of a row."""

    problem: Problem
    assignment: Assignments | None = None  # (n,)
    objective: float = -np.inf

    def offer(self, assignment: Assignments) -> None:
        """Take a better feasible assignment."""
        if (assignment < 0).any() or not self.problem.is_feasible(assignment)[0]:
            return
        objective = float(self.problem.objective.value(assignment)[0])
        if objective > self.objective:
            self.assignment, self.objective = assignment, objective

    @property
    def enough(self) -> float:
        """A bound up to here proves the incumbent: half the tolerance above it."""
        if self.assignment is None:
            return -np.inf
        return self.objective + 0.5 * OPTIMALITY_TOLERANCE * max(1.0, abs(self.objective))


@dataclass(order=True)
class _Node:
    """A row with some more variables fixed; greatest bound first."""

    negated: float
    number: int
    row: Assignments = field(compare=False)  # (n,), -1 where free


@dataclass(frozen=True)
class _Prove:
    """Answers one row."""

    instances: Instances
    start: Assignments
    limits: Limits
    splits: _Splits

    def __call__(self, row: int) -> RowAnswer:
        until = np.inf if self.limits.seconds is None else time.perf_counter() + self.limits.seconds
        problem = self.instances.problem
        best = _Incumbent(problem)
        best.offer(self.start[row])
        full = np.full(problem.variables, FREE, dtype=np.int32)
        full[list(problem.evidence_variables)] = self.instances.evidence[row]
        search = _Search(problem, best, self.splits)
        search.push(np.inf, full)
        while search.open and time.perf_counter() < until:
            search.expand()
        bound = max([best.enough, search.settled, *(-node.negated for node in search.open)])
        if best.assignment is None:
            return RowAnswer(None, bound, infeasible=bound == -np.inf)
        return RowAnswer(best.assignment[list(self.instances.conditioning.free)], bound)


class _Search:
    """Best-first search over what is fixed."""

    def __init__(self, problem: Problem, best: _Incumbent, splits: _Splits) -> None:
        self.open: list[_Node] = []
        self.settled = -np.inf  # greatest bound of a node that cannot be taken further
        self._problem, self._best, self._splits = problem, best, splits
        self._count = 0

    def push(self, bound: float, row: Assignments) -> None:
        """Keep a node, unless it holds nothing better than the incumbent."""
        if bound > self._best.enough:
            self._count += 1
            heapq.heappush(self.open, _Node(-bound, self._count, row))

    def expand(self) -> None:
        """Take the node with the greatest bound: prove it, reduce it or branch on it."""
        node = heapq.heappop(self.open)
        if -node.negated <= self._best.enough:
            return
        observed = np.flatnonzero(node.row != FREE)
        problem = self._problem.observing(observed.tolist())
        instances = problem.given(node.row[observed][np.newaxis])
        if not instances.conditioning.free or lane_bytes(problem) <= NARROW_BYTES:
            self._eliminate(instances, -node.negated)
            return
        bound, row = -node.negated, node.row
        for attempt in range(CUTS):
            relaxation = self._splits.of(problem, attempt)
            found = value_bounds(instances, relaxation, Work(steps=STEPS))
            bound = min(bound, found.upper)
            if bound <= self._best.enough:
                return
            fixed = self._fixed(row, instances, found)
            if fixed is None:
                return
            if (fixed != row).any():
                self.push(bound, fixed)
                return
        self._branch(bound, row, instances, found)

    def _eliminate(self, instances: Instances, bound: float) -> None:
        from cmpe.solvers.exact import ExactSolver

        found = ExactSolver().search(instances, ROUNDS)
        self._best.offer(found.assignments[0])
        if found.status[0] != Status.INFEASIBLE:
            self.settled = max(self.settled, min(bound, float(found.bound[0])))

    def _fixed(
        self, row: Assignments, instances: Instances, found: ValueBounds
    ) -> Assignments | None:
        """The row with every variable that has one value left; None if one has none."""
        out = row.copy()
        for variable, bounds in zip(instances.conditioning.free, found.values, strict=True):
            left = np.flatnonzero(bounds > self._best.enough)
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
