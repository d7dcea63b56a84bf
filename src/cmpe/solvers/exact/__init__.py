"""`exact`: a proved optimum for every row of a batch, by elimination, dual and frontiers.

docs/exact.md explains the algorithm. One elimination plan serves all rows; the whole batch is
solved in compiled calls, over threads. This module is the engine for rows that elimination can
reach; `exact.complete` adds what becomes of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.lagrangian import MOST_BYTES, Batch, lane_bytes
from cmpe.core.compiler import timing
from cmpe.core.dual import BOUND, INACTIVE, INFEASIBLE
from cmpe.core.proof import ProofResults, prove_rows
from cmpe.core.settings import EXACT
from cmpe.errors import Interrupted
from cmpe.problem import Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running


def eliminate(instances: Instances, rounds: int, running: Running | None = None) -> Solutions:
    """At most `rounds` rounds of a growing G per row; what they do not prove stays open."""
    results = make_results(instances)
    how = running or Running()
    work = Elimination(instances, results, rounds, how.bytes)
    spent = work.run(how)
    results.assignments[~np.isfinite(results.gap)] = -1
    known = (results.kind == INACTIVE) | (results.kind == BOUND)
    solutions = Solutions.of(
        instances.problem,
        results.assignments,
        bound=results.bound,
        infeasible=results.kind == INFEASIBLE,
        method="exact",
        seconds=spent,
        multipliers=np.where(known[:, np.newaxis], results.multipliers, np.nan),
    )
    if work.finished is not None:
        raise Interrupted(solutions, work.finished)
    return solutions


def seconds_of_elimination(problem: Problem) -> float:
    """About what a row's dual and losses take, at most."""
    # The operations of a very wide plan are an integer too large for a float.
    # Every step of the dual carries all functions along, and more of them take more steps.
    effort = max(1.0, 0.25 * (1 + len(problem.constraints)) ** 2)
    if len(problem.constraints) > 1 and lane_bytes(problem) > EXACT.cached_bytes:
        # Each step goes through memory, with all functions.
        functions = (1 + len(problem.constraints)) / EXACT.few_functions
        effort = EXACT.subgradient_steps * max(1.0, functions)
    return EXACT.seconds_per_entry * effort * float(min(problem.plan.operations, 10**300))


def seconds_per_round(problem: Problem) -> float:
    """About what a round takes at most: every state carries all functions along."""
    return EXACT.seconds_per_round * max(1.0, 0.5 * (1 + len(problem.constraints)))


def rounds_within(problem: Problem, limits: Limits) -> int:
    """How many rounds of search a row's time allows; below 1, not even its dual."""
    if limits.seconds is None:
        return EXACT.rounds
    left = limits.seconds - seconds_of_elimination(problem)
    return int(min(EXACT.rounds, np.ceil(left / seconds_per_round(problem))))


def too_wide(problem: Problem, limits: Limits) -> bool:
    """Whether to go without elimination: no memory or no time for it, or it would be slow.

    Rows that are slow to eliminate but need no more than memory allows may come back to it.
    """
    most = min(MOST_BYTES, EXACT.slow_bytes, limits.bytes)
    return lane_bytes(problem) > most or rounds_within(problem, limits) < 1


def make_results(instances: Instances) -> ProofResults:
    """Room for the proof of every row, evidence filled in."""
    count = len(instances)
    assignments = np.zeros((count, instances.problem.variables), dtype=np.int32)
    assignments[:, list(instances.problem.evidence_variables)] = instances.evidence
    return ProofResults(
        assignments,
        np.full(count, np.inf),
        np.full(count, np.inf),
        np.zeros(count, dtype=np.int64),
        np.zeros((count, len(instances.problem.constraints))),
        np.zeros(count, dtype=np.int64),
    )


class Elimination:
    """One batch on its way through the compiled calls."""

    def __init__(
        self, instances: Instances, results: ProofResults, rounds: int, memory: int = MOST_BYTES
    ) -> None:
        self._batch = Batch(instances, memory)
        self._results = results
        self._rounds = rounds
        self.finished: int | None = None  # how many rows, if Ctrl-C came

    def run(self, running: Running) -> Floats:
        """Solve all rows; seconds of each, its chunk's time shared evenly."""
        count = self._batch.tables.evidence.shape[1]
        chunks = self._batch.chunks()
        seconds = np.zeros(count)
        done = 0
        try:
            with ExitStack() as stack:
                mapped: Iterable[float] = map(self._chunk, chunks)
                if len(chunks) > 1:  # starting a thread takes as long as many rows
                    pool = stack.enter_context(ThreadPoolExecutor(running.cores))
                    mapped = pool.map(self._chunk, chunks)
                for rows, spent in zip(chunks, mapped, strict=True):
                    seconds[rows] = spent / (rows.stop - rows.start)
                    done = rows.stop
                    running.report(done, count)
        except KeyboardInterrupt:
            self._results.gap[done:] = np.inf
            self.finished = done
        return seconds

    def _chunk(self, rows: slice) -> float:
        begin = timing.now()
        part = ProofResults._make(array[rows] for array in self._results)
        prove_rows(self._batch.rows(rows), EXACT.states, self._rounds, part)
        return timing.now() - begin
