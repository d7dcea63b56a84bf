"""`exact`: a proved optimum for every row of a batch, by elimination, dual and frontiers.

docs/exact.md explains the algorithm. One elimination plan serves all rows; the whole batch is
solved in compiled calls, over threads. Rows that the engine cannot prove within its memory go
to MILP with their incumbent and bound.

Rows too wide to eliminate, or wide enough for it to be slow (`too_wide`), go through `search`,
then `reduction`, and what that leaves open to MILP if time remains. docs/wide.md explains it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.bounds.lagrangian import MOST_BYTES, Batch, lane_bytes
from cmpe.errors import Interrupted
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Limits, Running

if TYPE_CHECKING:
    from cmpe.solvers.base import Solver

STATES = 1 << 16  # of one row's frontiers
ROUNDS = 40  # of the search of one row
SLOW_BYTES = 1 << 26  # of one constrained row: above this, search and reduction are faster
REDUCTION_SHARE, SHORT = 0.75, 4.0  # of what search leaves; all of a limit of fewer seconds
NODES = 4096  # of reduction where there is no time limit
TRACE_SECONDS = 60.0  # of a wide row
SECONDS_PER_ROUND = 0.02  # at most, about
SECONDS_PER_ENTRY = 2e-7  # of one row's dual and losses per bucket entry, at most, about
_loaded: set[int] = set()  # numbers of functions for which compiled code is there

Rows = NDArray[np.intp]


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
        if too_wide(problem, limits):
            from cmpe.solvers.reduction import rough

            return self.prove(instances, rough(instances, limits, self.running), limits)
        solutions = self.search(instances, _rounds(problem, limits))
        if self.running.start is not None and len(_unproved(solutions, Limits())):
            from cmpe.solvers.local import checked

            given = Solutions.of(problem, checked(instances, self.running.start))
            solutions = better(problem, solutions, given, solutions.method.tolist())
        return self._by_milp(instances, solutions, limits)

    def search(self, instances: Instances, rounds: int) -> Solutions:
        """At most `rounds` rounds of a growing G per row; what they do not prove stays open."""
        results = Results.of(instances)
        engine = _Engine(instances, results, rounds)
        spent = engine.run(self.running)
        from cmpe.bounds.kernels.dual import INFEASIBLE

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

    def prove(
        self, instances: Instances, known: Solutions, limits: Limits, gap: float = 0.0
    ) -> Solutions:
        """Of wide rows: prove what is `known`, or better, to within `gap` nats."""
        from cmpe.solvers.reduction import ReductionSolver

        rest = _unproved(known, limits, gap)
        nodes = NODES if limits.seconds is None else None
        share = 1.0 if limits.seconds is not None and limits.seconds < SHORT else REDUCTION_SHARE
        solver = ReductionSolver(self._going_on(known, rest), gap, nodes)
        stage = _Stage(solver, "reduction", _left(known.take(rest), limits, share))
        return self._by_milp(instances, _hand_on(instances, known, rest, stage), limits, gap)

    def _by_milp(
        self, instances: Instances, known: Solutions, limits: Limits, gap: float = 0.0
    ) -> Solutions:
        """Let MILP finish what is not proved, from the incumbent where there is one."""
        from cmpe.solvers.milp import MilpSolver

        rest = _unproved(known, limits, gap)
        if not len(rest):
            return known
        solver = MilpSolver("highs", self._going_on(known, rest))
        stage = _Stage(solver, "milp", _left(known.take(rest), limits))
        return _hand_on(instances, known, rest, stage)

    def _going_on(self, known: Solutions, rest: Rows) -> Running:
        """From the incumbents of `rest`; progress counts all rows."""
        start = np.where(known.feasible[rest, np.newaxis], known.assignments[rest], -1)
        report, before = self.running.progress, len(known) - len(rest)
        if report is None:
            return replace(self.running, start=start)
        return replace(
            self.running, start=start, progress=lambda done, _: report(before + done, len(known))
        )


class _Stage(NamedTuple):
    """A solver that goes on with rows, under a name, within a row's remaining time."""

    solver: Solver
    name: str
    limits: Limits


def _hand_on(instances: Instances, known: Solutions, rest: Rows, stage: _Stage) -> Solutions:
    """What is `known`, with the rows `rest` improved by another solver."""
    part = known.take(rest)

    def joined(new: Solutions) -> Solutions:
        reached = new.seconds > 0
        names = np.where(reached, np.char.add(part.method, f"+{stage.name}"), part.method)
        return known.replaced(rest, better(instances.problem, part, new, names.tolist()))

    if not len(rest):
        return known
    evidence, (solver, _, limits) = instances.evidence[rest], stage
    try:
        more = solver.solve(
            instances.problem, evidence, time_limit=limits.seconds, seed=limits.seed
        )
    except Interrupted as stop:
        finished = len(known) - len(rest) + stop.finished
        raise Interrupted(joined(stop.solutions), finished) from None
    return joined(more)


def _unproved(known: Solutions, limits: Limits, gap: float = 0.0) -> Rows:
    """Rows that are not certified to within `gap` and have time left."""
    with np.errstate(invalid="ignore"):
        done = np.isin(known.status, (Status.OPTIMAL, Status.INFEASIBLE)) | (known.gap <= gap)
    if limits.seconds is not None:
        done |= known.seconds >= limits.seconds
    return np.flatnonzero(~done)


def _left(known: Solutions, limits: Limits, share: float = 1.0) -> Limits:
    """A share of the time that is left to each of some rows: all stages have one limit."""
    if limits.seconds is None:
        return limits
    left = share * (limits.seconds - float(known.seconds.max(initial=0.0)))
    return replace(limits, seconds=max(1e-3, left))


def better(
    problem: Problem, known: Solutions, new: Solutions, method: str | Sequence[str]
) -> Solutions:
    """The better answer and the lower bound of each row."""
    infeasible = (known.status == Status.INFEASIBLE) | (new.status == Status.INFEASIBLE)
    none = (new.assignments < 0).any(axis=1)
    keep = none | (known.feasible & ~(new.feasible & (new.objective >= known.objective)))
    rows = np.where(keep[:, np.newaxis], known.assignments, new.assignments)
    answered = known.feasible | new.feasible
    rows[infeasible & ~answered] = -1
    # An answer outweighs a claim that there is none, which is then no bound either.
    bounds = [
        np.where(s.bound > -np.inf, s.bound, np.where(answered, np.inf, -np.inf))
        for s in (known, new)
    ]
    return Solutions.of(
        problem,
        rows,
        bound=np.minimum(*bounds),
        infeasible=infeasible,
        method=method,
        seconds=known.seconds + new.seconds,
    )


def too_wide(problem: Problem, limits: Limits) -> bool:
    """Whether to go without elimination: no memory or no time for it, or it would be slow.

    An unconstrained row takes one elimination, a constrained one dozens.
    """
    most = min(MOST_BYTES, SLOW_BYTES) if problem.constraints else MOST_BYTES
    return lane_bytes(problem) > most or _rounds(problem, limits) < 1


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


def trace(
    problem: Problem, evidence: Evidence | None = None, *, time_limit: float = TRACE_SECONDS
) -> list[TraceEvent]:
    """How `exact` closes in on the first row.

    One event per round of its search, each a run of its own that stops after that many rounds, so
    its time is measured, not guessed. Of a wide row: one event after `search`, then one per node
    of `reduction`, for at most `time_limit` seconds; states are nodes.
    """
    instances = problem.given(evidence)
    first = Instances(problem, instances.evidence[:1])
    if too_wide(problem, Limits()):
        from cmpe.solvers.reduction import ReductionSolver

        return list(ReductionSolver().watch(first, Limits(time_limit)))
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
        from cmpe.solvers.exact.kernels import proof as kernels

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
