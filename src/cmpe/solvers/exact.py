"""`exact`: a proved optimum for every row of a batch, by elimination, dual and frontiers.

docs/exact.md explains the algorithm. One elimination plan serves all rows; the whole batch is
solved in compiled calls, over threads. Rows that the engine cannot prove within its memory go
to MILP with their incumbent and bound; rows too wide to eliminate go there with what `search`
finds.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.bounds.lagrangian import MOST_BYTES, Batch, lane_bytes
from cmpe.errors import Interrupted
from cmpe.models.loglinear import Floats
from cmpe.problem import Assignments, Evidence, Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.rows import Limits, Running

STATES = 1 << 16  # of one row's frontiers
ROUNDS = 40  # of the search of one row
SEARCH_SHARE = 0.2  # of the time limit of a row too wide to eliminate, before MILP
SECONDS_PER_ROUND = 0.02  # at most, about
SECONDS_PER_ENTRY = 2e-7  # of one row's dual and losses per bucket entry, at most, about
_loaded: set[int] = set()  # numbers of functions for which compiled code is there


@dataclass(frozen=True)
class Results:
    """What compiled calls fill in, one entry per row."""

    assignments: Assignments  # (B, n)
    bound: Floats
    gap: Floats  # inf where nothing was found
    kind: NDArray[np.int64]  # of bounds.dual_kernels
    multipliers: Floats  # (B, m)
    states: NDArray[np.int64]

    @classmethod
    def of(cls, instances: Instances) -> Results:
        """Room for the answers, evidence filled in."""
        count = len(instances)
        assignments = np.zeros((count, instances.problem.variables), dtype=np.int32)
        assignments[:, list(instances.problem.evidence_variables)] = instances.evidence
        return cls(
            assignments,
            np.full(count, np.inf),
            np.full(count, np.inf),
            np.zeros(count, dtype=np.int64),
            np.zeros((count, len(instances.problem.constraints))),
            np.zeros(count, dtype=np.int64),
        )

    def part(self, rows: slice) -> tuple[NDArray[np.generic], ...]:
        """Views for one compiled call."""
        return (
            self.assignments[rows],
            self.bound[rows],
            self.gap[rows],
            self.kind[rows],
            self.multipliers[rows],
            self.states[rows],
        )


@dataclass(frozen=True)
class ExactSolver:
    """Proves the optimum, or infeasibility, of every row."""

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
        limits = Limits(time_limit, self.running.threads, seed)
        instances = problem.given(evidence)
        if lane_bytes(problem) > MOST_BYTES or _rounds(problem, limits) < 1:
            return self._too_wide(instances, limits)
        solutions = self.search(instances, _rounds(problem, limits))
        return self._hand_on(instances, solutions, limits)

    def search(self, instances: Instances, rounds: int) -> Solutions:
        """At most `rounds` rounds of a growing G per row; what they do not prove stays open."""
        results = Results.of(instances)
        engine = _Engine(instances, results, rounds)
        spent = engine.run(self.running)
        from cmpe.bounds.dual_kernels import INFEASIBLE

        results.assignments[~np.isfinite(results.gap)] = -1
        solutions = Solutions.of(
            instances.problem,
            results.assignments,
            bound=results.bound,
            infeasible=results.kind == INFEASIBLE,
            method="exact",
            seconds=spent,
        )
        if engine.finished is not None:
            raise Interrupted(solutions, engine.finished)
        return solutions

    def _too_wide(self, instances: Instances, limits: Limits) -> Solutions:
        """No elimination: MILP from what search makes of the user's start, or of none."""
        from cmpe.solvers.neighbourhoods import SearchSolver

        seconds = None if limits.seconds is None else SEARCH_SHARE * limits.seconds
        rough = SearchSolver(replace(self.running, progress=None), bounds=False).solve(
            instances.problem, instances.evidence, time_limit=seconds, seed=limits.seed
        )
        return self._hand_on(instances, rough, limits)

    def _hand_on(self, instances: Instances, known: Solutions, limits: Limits) -> Solutions:
        """Let MILP finish what is not proved, from the incumbent where there is one."""
        from cmpe.solvers.milp import MilpSolver

        rest = np.flatnonzero(~np.isin(known.status, (Status.OPTIMAL, Status.INFEASIBLE)))
        if not len(rest):
            return known
        part = known.take(rest)
        start = np.where(part.feasible[:, np.newaxis], part.assignments, -1)
        solver = MilpSolver("highs", replace(self.running, start=start))
        evidence = instances.evidence[rest]
        left = limits.seconds
        if left is not None:  # a row's limit holds for both methods together
            left = max(1e-3, left - float(part.seconds.max()))
        try:
            more = solver.solve(instances.problem, evidence, time_limit=left, seed=limits.seed)
        except Interrupted as stop:
            finished = better(instances.problem, part, stop.solutions, "exact+milp")
            whole = known.replaced(rest, finished)
            raise Interrupted(whole, len(known) - len(rest) + stop.finished) from None
        return known.replaced(rest, better(instances.problem, part, more, "exact+milp"))


def better(problem: Problem, known: Solutions, new: Solutions, method: str) -> Solutions:
    """The better answer and the lower bound of each row."""
    keep = known.feasible & ~(new.feasible & (new.objective >= known.objective))
    return Solutions.of(
        problem,
        np.where(keep[:, np.newaxis], known.assignments, new.assignments),
        bound=np.minimum(known.bound, new.bound),
        infeasible=new.status == Status.INFEASIBLE,
        method=method,
        seconds=known.seconds + new.seconds,
    )


def _rounds(problem: Problem, limits: Limits) -> int:
    """How many rounds of search a row's time allows; below 1, not even its dual."""
    if limits.seconds is None:
        return ROUNDS
    left = limits.seconds - SECONDS_PER_ENTRY * problem.plan.operations
    return int(min(ROUNDS, np.ceil(left / SECONDS_PER_ROUND)))


@dataclass(frozen=True)
class TraceEvent:
    """What was known of a row after some seconds; NaN where there is no incumbent yet."""

    seconds: float
    incumbent: float
    bound: float
    states: int


def trace(problem: Problem, evidence: Evidence | None = None) -> list[TraceEvent]:
    """How `exact` closes in on the first row: one event per round of its search.

    Each event is a run of its own that stops after that many rounds, so its time is measured,
    not guessed.
    """
    instances = problem.given(evidence)
    first = Instances(problem, instances.evidence[:1])
    ExactSolver().search(first, 0)  # loads compiled code before anything is timed
    events: list[TraceEvent] = []
    for rounds in range(ROUNDS + 1):
        results = Results.of(first)
        begin = time.perf_counter()
        _Engine(first, results, rounds).run(Running())
        spent = time.perf_counter() - begin
        found = np.isfinite(results.gap[0])
        values = problem.objective.value(results.assignments) if found else [np.nan]
        events.append(
            TraceEvent(spent, float(values[0]), float(results.bound[0]), int(results.states[0]))
        )
        if results.bound[0] == -np.inf or (found and events[-1].bound - values[0] < 1e-6):
            break
    return events


class _Engine:
    """One batch on its way through the compiled calls."""

    def __init__(self, instances: Instances, results: Results, rounds: int) -> None:
        self._batch = Batch(instances)
        self._results = results
        self._budget = (STATES, rounds)
        self.finished: int | None = None  # how many rows, if Ctrl-C came

    def run(self, running: Running) -> Floats:
        """Solve all rows; seconds of each, its chunk's time shared evenly."""
        count = self._batch.evidence.shape[1]
        chunks = self._batch.chunks()
        seconds = np.zeros(count)
        done = 0
        self._load()
        try:
            with ThreadPoolExecutor(running.threads) as pool:
                for rows, spent in zip(chunks, pool.map(self._chunk, chunks), strict=True):
                    seconds[rows] = spent / (rows.stop - rows.start)
                    done = rows.stop
                    if running.progress is not None:
                        running.progress(done, count)
        except KeyboardInterrupt:
            self._results.gap[done:] = np.inf
            self.finished = done
        return seconds

    def _load(self) -> None:
        """Load compiled code, which no row should be charged with, once per number of functions."""
        functions = len(self._batch.gathers)
        if functions not in _loaded:
            self._chunk(slice(0, 0))
            _loaded.add(functions)

    def _chunk(self, rows: slice) -> float:
        from cmpe.solvers import exact_kernels as kernels

        begin = time.perf_counter()
        batch, part = self._batch, self._results.part(rows)
        common = (
            batch.plan, batch.offsets, batch.gathers, batch.rows(rows), batch.limits, batch.lanes,
            batch.finite,
        )  # fmt: skip
        waiting = kernels.solve_free(*common, part)
        if len(waiting) or rows.stop == 0:
            kernels.solve_constrained(*common, self._budget, waiting, part)
        return time.perf_counter() - begin
