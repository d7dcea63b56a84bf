"""`exact`: a proved optimum for every row of a batch, by elimination, dual and frontiers.

docs/exact.md explains the algorithm. One elimination plan serves all rows; the whole batch is
solved in compiled calls, over threads. Rows that the engine cannot prove within its memory go
to MILP with their incumbent and bound.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import Interrupted
from cmpe.models.loglinear import Floats
from cmpe.problem import Assignments, Evidence, Instances, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.rows import Limits, Running

WORKING_SET = 1 << 22  # bytes that the lanes of one block may fill
MOST_BYTES = 1 << 31  # of one lane: above this a problem is too wide to eliminate
STATES = 1 << 16  # of one row's frontiers
CHUNK = 512  # rows of one compiled call
PADDING = 1e-9  # of max(1, |q|): the engine adds up tables in another order than the problem


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
        """Proved answers; `time_limit` (seconds a row) applies to rows handed on to MILP."""
        limits = Limits(time_limit, self.running.threads, seed)
        instances = problem.given(evidence)
        if lane_bytes(problem) > MOST_BYTES:
            return self._hand_on(instances, None, limits)
        solutions = self._eliminate(instances)
        return self._hand_on(instances, solutions, limits)

    def _eliminate(self, instances: Instances) -> Solutions:
        results = Results.of(instances)
        engine = _Engine(instances, results)
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

    def _hand_on(self, instances: Instances, known: Solutions | None, limits: Limits) -> Solutions:
        """Let MILP finish what is not proved, from the incumbent where there is one."""
        from cmpe.solvers.milp import MilpSolver

        everything = np.arange(len(instances))
        proved = (Status.OPTIMAL, Status.INFEASIBLE)
        rest = everything if known is None else everything[~np.isin(known.status, proved)]
        if not len(rest) and known is not None:
            return known
        start = None
        if known is not None and known.feasible[rest].all():
            start = known.assignments[rest]
        solver = MilpSolver("highs", replace(self.running, start=start))
        more = solver.solve(
            instances.problem, instances.evidence[rest], time_limit=limits.seconds, seed=limits.seed
        )
        bound = more.bound if known is None else np.minimum(more.bound, known.bound[rest])
        finished = Solutions.of(
            instances.problem,
            more.assignments,
            bound=bound,
            infeasible=more.status == Status.INFEASIBLE,
            method="exact+milp",
            seconds=more.seconds + (0.0 if known is None else known.seconds[rest]),
        )
        if known is None:
            return finished
        both = Solutions.concatenate([known, finished])
        order = everything.copy()
        order[rest] = len(instances) + np.arange(len(rest))
        return both.take(order)


def lane_bytes(problem: Problem) -> int:
    """Memory that the engine takes for one row at a time."""
    tables = 2 + len(problem.constraints)
    entries = len(problem.conditioning.layout.values)
    messages, pairs = problem.plan.message_entries, problem.plan.operations
    return 8 * (2 * tables * entries + tables * messages + pairs)


class _Engine:
    """One batch on its way through the compiled calls."""

    def __init__(self, instances: Instances, results: Results) -> None:
        problem = instances.problem
        structure = instances.conditioning
        self._plan = problem.compiled_plan
        self._offsets = structure.layout.offsets
        self._gathers = tuple(structure.gathers)
        self._evidence = np.ascontiguousarray(instances.evidence.T, dtype=np.int64)
        self._finite = all(c.function.is_finite for c in problem.constraints)
        padding = PADDING * np.maximum(1.0, np.abs(problem.limits))
        self._limits = problem.limits + problem.tolerances + padding
        per_lane = max(1, lane_bytes(problem))
        self._lanes = int(np.clip(WORKING_SET // per_lane, 4, 64))
        self._results = results
        self.finished: int | None = None  # how many rows, if Ctrl-C came

    def run(self, running: Running) -> Floats:
        """Solve all rows; seconds of each, its chunk's time shared evenly."""
        count = self._evidence.shape[1]
        chunks = [slice(a, min(a + CHUNK, count)) for a in range(0, count, CHUNK)]
        seconds = np.zeros(count)
        done = 0
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

    def _chunk(self, rows: slice) -> float:
        from cmpe.solvers import exact_kernels as kernels

        begin = time.perf_counter()
        evidence = np.ascontiguousarray(self._evidence[:, rows])
        part = self._results.part(rows)
        common = (self._plan, self._offsets, self._gathers, evidence, self._limits, self._lanes)
        waiting = kernels.solve_free(*common, self._finite, part)
        if len(waiting):
            kernels.solve_constrained(*common, self._finite, STATES, waiting, part)
        return time.perf_counter() - begin
