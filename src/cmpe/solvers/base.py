"""Shared by all methods: the two protocols, options, limits and deadlines.

To add a method: write an `Engine` in a module or room of its own, and one row of the registry
(`cmpe.solvers`). The command line's help, the error of an unknown method, docs/how-to.md and the
tests read that row. docs/extending.md goes through it step by step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from cmpe.arguments import real_number, seconds_of, whole_number
from cmpe.arrays import Values
from cmpe.core.compiler import timing
from cmpe.errors import MethodError, OutOfTime
from cmpe.execution import LOCAL, Workplace, check_kind
from cmpe.memory import LEAST, allowed_bytes, gigabytes_of
from cmpe.models.extension import is_fractional
from cmpe.problem import Evidence, Form, Instances, Problem
from cmpe.solution import Solutions

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Running:
    """Options of running: workers, threads, device and the like.

    `workers` rows are answered at the same time, each with `threads` threads. A method that uses
    one core for a row answers `workers` x `threads` rows at the same time instead. MILP back-ends
    and toulbar2 run in separate processes, the compiled engines in threads of this one.

    With the executor "ray" blocks of rows go to the cores of a Ray cluster, `threads` of them for
    each block: the cluster at `address`, or one of `workers` on this machine.
    """

    workers: int = 1
    threads: int = 1
    device: str = "cpu"  # or what torch calls another one: "cuda", "cuda:1"
    start: Values | None = None  # (B, n): an assignment per row to begin from, -1 for none
    progress: Progress | None = None  # is called with the rows that are done, and with all
    memory: float | None = None  # GB that the call may take; else three quarters of what is free
    executor: str = LOCAL  # or "ray"
    address: str | None = None  # of the Ray cluster

    def __post_init__(self) -> None:
        for name in ("workers", "threads"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 1))
        check_kind(self.executor, self.address)
        if self.memory is not None:
            object.__setattr__(self, "memory", gigabytes_of(self.memory))
        if self.start is not None:
            object.__setattr__(self, "start", _checked_start(self.start))

    @property
    def cores(self) -> int:
        """The number of cores that may be busy at once."""
        return self.workers * self.threads

    @cached_property
    def bytes(self) -> int:
        """Memory for each row that is answered at the same time."""
        return allowed_bytes(self.memory) // self.cores

    @property
    def place(self) -> Workplace:
        """Where blocks of rows go."""
        return Workplace(self.executor, self.workers, self.threads, self.address)

    @property
    def is_spread(self) -> bool:
        """Whether rows that are in memory are answered in blocks, by a cluster."""
        return self.executor != LOCAL

    def of_a_block(self) -> Self:
        """How a block of rows is answered, wherever it goes."""
        each = self.memory
        if each is not None and self.executor == LOCAL:
            each = max(LEAST, each / self.workers)
        return replace(
            self, workers=1, start=None, progress=None, memory=each, executor=LOCAL, address=None
        )

    def report(self, done: int, total: int) -> None:
        """Call `progress`, if there is one: `done` of `total` rows are finished."""
        if self.progress is not None:
            self.progress(done, total)


def _checked_start(start: object) -> Values:
    """Assignments as a read-only array of int32, or of float64 where there are fractions."""
    given = np.asarray(start)
    if given.dtype.kind not in "iubf":
        raise MethodError(f"a start must be numbers, found dtype {given.dtype}")
    kind = np.float64 if is_fractional(given) else np.int32
    if given.dtype == kind and given.ndim == 2 and not given.flags.writeable:
        return given
    checked = np.array(given, dtype=kind, ndmin=2)
    checked.setflags(write=False)
    return checked


@dataclass(frozen=True, kw_only=True)
class Limits(Running):
    """Every option of a call, in the one record that engines read: limits of a row, how to run."""

    seconds: float | None = None  # of one row
    seed: int = 0
    gap: float = 0.0  # nats: a certified gap that is small enough
    until: float = math.inf  # the moment (timing.now) when the whole call must be over

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seconds is not None:
            object.__setattr__(self, "seconds", seconds_of(self.seconds))
        object.__setattr__(self, "seed", whole_number("seed", self.seed, 0))
        object.__setattr__(self, "gap", real_number("gap", self.gap, example="0.1 (nats)"))
        if not self.gap >= 0:
            raise MethodError(f"a gap must be at least 0, found {self.gap}")

    @classmethod
    def of(cls, running: Running | None, **limits: Any) -> Limits:
        """The limits of a row, run as `running` says."""
        if running is None:
            return cls(**limits)
        if not isinstance(running, Running):
            raise MethodError(
                "running takes a Running: write running=cmpe.Running(workers=2), "
                f"found {type(running).__name__}"
            )
        return cls(**{f.name: getattr(running, f.name) for f in fields(Running)} | limits)

    @property
    def running(self) -> Running:
        """How to run: this record holds that, too."""
        return self

    def begun(self, rows: int) -> Limits:
        """The same, the clock of so many rows running from now on."""
        if self.seconds is None:
            return self
        return replace(self, until=timing.now() + rows * self.seconds)

    def of_a_row(self) -> Limits:
        """The same without what concerns the batch, so that a worker process can be sent it."""
        each = None if self.memory is None else max(LEAST, self.memory / self.workers)
        return replace(
            self, workers=1, device="cpu", start=None, progress=None, memory=each,
            executor=LOCAL, address=None,
        )  # fmt: skip

    def share(self, part: float) -> Limits:
        """A part of each row's time."""
        return self if self.seconds is None else replace(self, seconds=part * self.seconds)


class Deadline:
    """The moment when a row's time limit is spent; everything that works on the row asks it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._begin = timing.now()

    def left(self) -> Limits:
        """The limits with the time that remains, at least a millisecond."""
        if self._limits.seconds is None:
            return self._limits
        spent = timing.now() - self._begin
        return replace(self._limits, seconds=max(1e-3, self._limits.seconds - spent))

    def expired(self) -> bool:
        """Whether no time is left."""
        spent = timing.now() - self._begin
        return self._limits.seconds is not None and spent >= self._limits.seconds

    def check(self) -> None:
        """Give up what prepares an answer when no time is left."""
        if self.expired():
            raise OutOfTime("the time limit ended while a program was being built")


@runtime_checkable
class Engine(Protocol):
    """The implementation of a method: instances of one structure in, one answer per row out."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """One answer per row, in the order of the rows."""
        ...


@runtime_checkable
class Solver(Protocol):
    """A solver supplied by a user: anything that answers a batch of evidence rows."""

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


@dataclass(frozen=True)
class Method:
    """One row of the registry.

    `engines` has a loader for each form of problem that the method answers. Where `Form.LEAVES` is
    missing, such problems are answered branch by branch (`solvers.branches`).
    """

    name: str
    about: str  # one line for the help
    engines: Mapping[Form, Callable[[], Engine]]
    proves: bool = False
    needs: str | None = None  # an extra that must be installed
    takes_gap: bool = False
    takes_device: bool = False  # of tables only
    eliminates: bool = False  # where that is cheap, so that narrow rows take microseconds
    shares: bool = False  # rows that observe different variables may share its plan
    recognises: bool = False  # problems of a special structure (`solvers.structures`)

    @property
    def takes(self) -> str:
        """The functions that it accepts, in words."""
        return "any function" if Form.OTHER in self.engines else "tables"
