"""What every method shares: the protocol of solvers, how to run, limits and deadlines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from cmpe.arrays import FREE, Assignments
from cmpe.errors import MethodError
from cmpe.models.extension import is_fractional
from cmpe.problem import Evidence, Instances, Problem
from cmpe.solution import Solutions

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Running:
    """How to run, as opposed to what to solve."""

    workers: int = 1
    threads: int = 1
    device: str = "cpu"  # or what torch calls another one: "cuda", "cuda:1"
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
    gap: float = 0.0  # nats: an answer whose certified gap is within it needs no more work
    running: Running = Running()

    def __post_init__(self) -> None:
        if self.seconds is not None and not 0 < self.seconds < math.inf:
            raise MethodError(f"a time limit must be above 0 seconds, found {self.seconds}")


class Deadline:
    """The moment when a row's time limit is spent; everything that works on the row asks it."""

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


class Solver(Protocol):
    """Anything that answers a batch of evidence rows."""

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """One answer per row, in the order of the rows."""
        ...
