"""Solvers that answer one row at a time: the shared loop, limits and assembly."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Values
from cmpe.core.compiler import timing
from cmpe.errors import BackendError, Interrupted
from cmpe.execution.blocks import map_rows
from cmpe.execution.threads import map_rows_in_threads
from cmpe.problem import Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Running


@dataclass(frozen=True)
class RowAnswer:
    """What a method says of one row, before anything is recomputed."""

    free_values: NDArray[Any] | None  # (|free|,) or no assignment
    bound: float = np.inf
    infeasible: bool = False
    seconds: float = 0.0
    interrupted: bool = False  # Ctrl-C came first: what is known so far

    @classmethod
    def known(
        cls, problem: Problem, best: Assignments | None, bound: float, *, interrupted: bool
    ) -> RowAnswer:
        """An incumbent (n,), if there is one, and a bound: -inf says that there is none."""
        if best is None:
            return cls(None, bound, bool(bound == -np.inf), interrupted=interrupted)
        return cls(best[list(problem.free)], bound, interrupted=interrupted)


RowJob = Callable[[int], RowAnswer]


def start_of(start: Values | None, row: int, free: Sequence[int]) -> Values | None:
    """Where to begin with one row: the values of `free` (|free|,), or None."""
    if start is None or (start[row] < 0).any():
        return None
    return start[row, list(free)]


def solve_rows(
    instances: Instances,
    job: RowJob,
    method: str,
    running: Running,
    *,
    one_core: bool = False,
    stop: threading.Event | None = None,
) -> Solutions:
    """Answer every row with `job`; on Ctrl-C raise Interrupted with all that is known.

    A job that uses `one_core` for a row gets all the cores that `running` allows for other rows.
    One that waits for a process of its own brings the event `stop`, and runs in threads.
    """
    answers: dict[int, RowAnswer] = {}
    timed = _Timed(job)
    if instances.problem.is_log_linear:
        instances.tables(0, slice(0, 1))  # loads compiled code, which no row should be charged with
    try:
        for row, answer in _each(timed, len(instances), running, one_core=one_core, stop=stop):
            answers[row] = answer
            if not answer.interrupted:
                running.report(len(answers), len(instances))
            elif stop is None or not stop.is_set():
                raise KeyboardInterrupt
    except KeyboardInterrupt:
        partial = _assemble(instances, answers, method)
        finished = sum(not answer.interrupted for answer in answers.values())
        raise Interrupted(partial, finished) from None
    return _assemble(instances, answers, method)


def _each(
    job: RowJob, count: int, running: Running, *, one_core: bool, stop: threading.Event | None
) -> Iterator[tuple[int, RowAnswer]]:
    workers = running.cores if one_core else running.workers
    if stop is None or workers == 1 or count <= 1:
        return map_rows(job, count, workers=workers)
    return map_rows_in_threads(job, count, stop, threads=workers)


@dataclass(frozen=True)
class _Timed:
    """A row job with its wall-clock time; a failing back-end leaves the row unknown."""

    job: RowJob

    def __call__(self, row: int) -> RowAnswer:
        begin = timing.now()
        try:
            answer = self.job(row)
        except BackendError as error:
            warnings.warn(f"row {row}: {error}", RuntimeWarning, stacklevel=2)
            answer = RowAnswer(None)
        return replace(answer, seconds=timing.now() - begin)


def _assemble(instances: Instances, answers: Mapping[int, RowAnswer], method: str) -> Solutions:
    count, free = len(instances), len(instances.problem.free)
    values = np.zeros((count, free), dtype=instances.problem.dtype)
    found = np.zeros(count, dtype=bool)
    bound, seconds = np.full(count, np.inf), np.zeros(count)
    infeasible = np.zeros(count, dtype=bool)
    for row, answer in answers.items():
        if answer.free_values is not None:
            values[row], found[row] = answer.free_values, True
        bound[row], seconds[row] = answer.bound, answer.seconds
        infeasible[row] = answer.infeasible
    assignments = instances.complete(values)
    assignments[~found] = -1
    return Solutions.of(
        instances.problem,
        assignments,
        bound=bound,
        infeasible=infeasible,
        method=method,
        seconds=seconds,
    )
