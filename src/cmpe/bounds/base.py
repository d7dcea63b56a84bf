"""Shared by all bounds: the amount of work, the result, and the tables of a row.

A bounder turns instances into upper bounds on the best feasible objective that hold whenever it is
stopped: more work lowers them, never below the optimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import real_number, whole_number
from cmpe.arrays import Floats, Indices
from cmpe.bounds.settings import SETTINGS
from cmpe.core.compiler import timing
from cmpe.errors import OutOfTime
from cmpe.memory import allowed_bytes, gigabytes_of
from cmpe.problem import Instances

# A share of max(1, |q|): tables are added up in another order than by the problem.
PADDING = 1e-9


def clock() -> float:
    """Seconds that this thread has computed."""
    return timing.thread_seconds()


@dataclass(frozen=True)
class Work:
    """When to stop: after `steps`, or after `time_limit` seconds a row, whichever is first.

    Seconds are those of one core, so that a busy machine does not loosen bounds. Without a time
    limit the result depends on the steps alone.
    """

    time_limit: float | None = None
    steps: int | None = None
    threads: int = 1
    seed: int = 0
    until: float = np.inf  # a moment of `timing.now`: splits are not made after it
    memory: float | None = None  # GB that a bound may take; else three quarters of what is free

    def check_time(self) -> None:
        """Stop the preparation of a bound when the deadline has passed."""
        if timing.now() >= self.until:
            raise OutOfTime("the time limit ended while a relaxation was being made")

    def __post_init__(self) -> None:
        least = {"threads": 1, "seed": 0} | ({} if self.steps is None else {"steps": 0})
        for name, number in least.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), number))
        if self.memory is not None:
            object.__setattr__(self, "memory", gigabytes_of(self.memory))
        if self.time_limit is not None:
            seconds = real_number("time_limit", self.time_limit, example="10 (seconds)")
            object.__setattr__(self, "time_limit", seconds)

    @property
    def bytes(self) -> int:
        """Memory that a bound may take."""
        return allowed_bytes(self.memory)

    @property
    def most_steps(self) -> int:
        """Steps of one row."""
        if self.steps is not None:
            return self.steps
        return 300 if self.time_limit is None else 1 << 40

    def slices(self, begin: float) -> Iterator[int]:
        """Numbers of steps, until the work is done: small enough for the time limit."""
        done, size = 0, 1
        while done < self.most_steps:
            size = min(size, self.most_steps - done)
            yield size
            done += size
            if self.time_limit is None:
                size = 64
                continue
            spent = clock() - begin
            left = self.time_limit - spent
            each = spent / done
            if left < each:
                return
            size = max(1, min(2 * size, int(0.5 * left / max(each, 1e-9))))


@dataclass(frozen=True)
class Bounds:
    """Bounds of every row."""

    upper: Floats  # (B,) on the best feasible objective; -inf where infeasible
    infeasible: NDArray[np.bool_]  # (B,) proved
    multipliers: Floats  # (B, m) of the constraints
    steps: NDArray[np.int64]  # (B,) done
    seconds: Floats  # (B,)

    @classmethod
    def empty(cls, rows: int, constraints: int) -> Bounds:
        """Bounds of rows about which nothing is proved."""
        return cls(
            np.full(rows, np.inf),
            np.zeros(rows, dtype=bool),
            np.zeros((rows, constraints)),
            np.zeros(rows, dtype=np.int64),
            np.zeros(rows),
        )

    def put(self, rows: Indices, part: Bounds) -> None:
        """Write the bounds of some rows."""
        for field in fields(self):
            getattr(self, field.name)[rows] = getattr(part, field.name)


class Bounder(Protocol):
    """Anything that bounds the best feasible objective of every row from above."""

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row."""
        ...


def loosened_limits(instances: Instances) -> Floats:
    """Limits under which every assignment that the problem calls feasible stays: (m,)."""
    return np.array([c.loosened(PADDING) for c in instances.problem.constraints])


class RowTables(NamedTuple):
    """What evidence leaves of one row's functions, entries of t made finite."""

    h: Floats  # (E,)
    t: Floats  # (m, E)
    least: float  # below any finite h: a bound below it proves infeasibility
    units: Floats  # (m,) the size of a multiplier: how much h varies against how much t_j does


def row_tables(instances: Instances, rows: slice) -> list[RowTables]:
    """The tables of each of `rows`.

    -inf in t becomes a number so low that the constraint holds whatever else is chosen.
    """
    from cmpe.core.dual import satisfy

    problem, offsets = instances.problem, instances.conditioning.layout.offsets
    h = instances.tables(0, rows)
    varies, least = _spread(h, offsets), least_objective(h, offsets)
    t = np.zeros((len(h), len(problem.constraints), h.shape[1]))
    units = np.ones((len(h), len(problem.constraints)))
    for j, limit in enumerate(loosened_limits(instances)):
        raw = instances.tables(1 + j, rows)
        spread = _spread(raw, offsets)
        np.divide(varies, spread, out=units[:, j], where=(spread > 0) & (varies > 0))
        lanes = np.ascontiguousarray(raw.T)
        if not problem.constraints[j].function.is_finite:
            satisfy(lanes, offsets, limit)
        t[:, j] = lanes.T
    return [RowTables(h[i], t[i], float(least[i]), units[i]) for i in range(len(h))]


def _spread(entries: Floats, offsets: NDArray[np.int64]) -> Floats:
    """The sum over tables of the largest less the least finite entry, of each row (B, E)."""
    least = np.where(np.isneginf(entries), np.inf, entries)
    least = np.minimum.reduceat(least, offsets[:-1], axis=1)
    most = np.maximum.reduceat(entries, offsets[:-1], axis=1)
    spread = np.subtract(most, least, out=np.zeros_like(most), where=np.isfinite(most))
    total: Floats = spread.sum(axis=1)
    return total


def least_objective(h: Floats, offsets: NDArray[np.int64]) -> Floats:
    """Less than any finite h of each row's tables (B, E): (B,)."""
    finite = np.where(np.isneginf(h), np.inf, h)
    least = np.minimum.reduceat(finite, offsets[:-1], axis=1).sum(axis=1)
    known = np.where(np.isfinite(least), least, 0.0)
    return np.where(np.isfinite(least), known - 1e-6 * (1.0 + np.abs(known)), -np.inf)


def over_chunks(instances: Instances, work: Callable[[slice], None], threads: int) -> None:
    """Do `work` on every chunk of rows; compiled code runs in parallel."""
    count = len(instances)
    each = SETTINGS.chunk
    chunks = [slice(a, min(a + each, count)) for a in range(0, count, each)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, chunks))
