"""Solvers that answer one row at a time: the shared loop, limits and assembly."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Assignments
from cmpe.errors import BackendError, Interrupted, MethodError
from cmpe.execution.executors import map_rows
from cmpe.models.extension import is_fractional
from cmpe.problem import Instances
from cmpe.solution import Solutions

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Running:
    """How to run, as opposed to what to solve."""

    workers: int = 1
    threads: int = 1
    start: Assignments | None = None  # (B, n): an assignment per row to begin from, -1 for none
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for name in ("workers", "threads"):
            if getattr(self, name) < 1:
                raise MethodError(f"{name} must be at least 1, found {getattr(self, name)}")
        if self.start is not None:
            given = np.asarray(self.start)
            kind = np.float64 if is_fractional(given) else np.int32
            start = np.array(given, dtype=kind, ndmin=2)
            start.setflags(write=False)
            object.__setattr__(self, "start", start)


@dataclass(frozen=True)
class Limits:
    """What one row may use."""

    seconds: float | None = None
    threads: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise MethodError(f"a time limit must be above 0 seconds, found {self.seconds}")


class Clock:
    """Shares one row's time limit among repeated solves."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._begin = time.perf_counter()

    def left(self) -> Limits:
        """The limits with the time that remains, at least a millisecond."""
        if self._limits.seconds is None:
            return self._limits
        spent = time.perf_counter() - self._begin
        return replace(self._limits, seconds=max(1e-3, self._limits.seconds - spent))

    def expired(self) -> bool:
        """Whether no time is left."""
        spent = time.perf_counter() - self._begin
        return self._limits.seconds is not None and spent >= self._limits.seconds


@dataclass(frozen=True)
class RowAnswer:
    """What a method says of one row, before anything is recomputed."""

    free_values: NDArray[Any] | None  # (|free|,) or no assignment
    bound: float = np.inf
    infeasible: bool = False
    seconds: float = 0.0


RowJob = Callable[[int], RowAnswer]


def check_start(instances: Instances, start: Assignments) -> None:
    """Refuse a start that is not one assignment per row; what it says of evidence is not read."""
    problem, shape = instances.problem, (len(instances), instances.problem.variables)
    if start.shape != shape:
        raise MethodError(f"a start must have shape {shape}, found {start.shape}")
    free = list(problem.free)
    values, most = start[:, free], np.asarray(problem.objective.cardinalities)[free] - 1
    whole = (values == np.floor(values)) | np.isin(free, problem.continuous)
    if not (whole & ((values == FREE) | (values >= 0)) & (values <= most)).all():
        raise MethodError("a start must hold values of its variables, or -1 where there is none")


def start_of(start: Assignments | None, row: int, free: Sequence[int]) -> Assignments | None:
    """Where to begin with one row: the values of `free` (|free|,), or None."""
    if start is None or (start[row] < 0).any():
        return None
    return start[row, list(free)]


def solve_rows(instances: Instances, job: RowJob, method: str, running: Running) -> Solutions:
    """Answer every row with `job`; on Ctrl-C raise Interrupted with what is finished."""
    answers: dict[int, RowAnswer] = {}
    timed = _Timed(job)
    if instances.problem.is_log_linear:
        instances.tables(0, slice(0, 1))  # loads compiled code, which no row should be charged with
    try:
        for row, answer in map_rows(timed, len(instances), workers=running.workers):
            answers[row] = answer
            if running.progress is not None:
                running.progress(len(answers), len(instances))
    except KeyboardInterrupt:
        partial = _assemble(instances, answers, method)
        raise Interrupted(partial, len(answers)) from None
    return _assemble(instances, answers, method)


@dataclass(frozen=True)
class _Timed:
    """A row job with its wall-clock time; a failing back-end leaves the row unknown."""

    job: RowJob

    def __call__(self, row: int) -> RowAnswer:
        begin = time.perf_counter()
        try:
            answer = self.job(row)
        except BackendError as error:
            warnings.warn(f"row {row}: {error}", RuntimeWarning, stacklevel=2)
            answer = RowAnswer(None)
        spent = time.perf_counter() - begin
        return RowAnswer(answer.free_values, answer.bound, answer.infeasible, spent)


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
