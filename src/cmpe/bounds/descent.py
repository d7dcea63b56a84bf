"""The bound of a relaxation, minimised over the multipliers of copies and constraints.

Polyak's subgradient step with momentum, joint in both kinds of multipliers; the target lies a
share below the best bound, and the share shrinks when nothing comes of it (Polyak 1969; Held,
Wolfe and Crowder 1974). Every evaluation is a bound, and the best one is certified at the end:
evaluated again, with what rounding can have taken off it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.base import (
    Bounds,
    RowTables,
    Work,
    clock,
    loosened_limits,
    over_chunks,
    row_tables,
)
from cmpe.bounds.lagrangian import Lagrangian
from cmpe.bounds.relaxation import Relaxation
from cmpe.errors import TooLarge
from cmpe.problem import Instances

# How much a step moves the constraints' multipliers, in `RowTables.units`, against the copies'.
MU_WEIGHT = 1e-3


@dataclass(frozen=True)
class Schedule:
    """How the multipliers move.

    `even`: a variable's own table is dealt out evenly to its copies, else the first one has it.
    `held`: so many steps move only the constraints' multipliers; the copies' follow.
    """

    even: bool = True
    held: int = 0


class RelaxedRow:
    """The arrays of one row after another."""

    def __init__(self, relaxation: Relaxation, limits: Floats) -> None:
        self.relaxed = relaxation.compiled
        self.limits = limits
        numbers, entries = self.relaxed.numbers, self.relaxed.entries
        self.h, self.t = np.zeros(numbers), np.zeros((len(limits), numbers))
        self.weights = np.zeros(len(limits))
        copies, buckets = numbers - entries, len(self.relaxed.buckets)
        self.state = tuple(
            np.zeros(n) for n in (copies, len(limits), copies, len(limits), copies, len(limits))
        )
        self.level = np.zeros(5)  # see `bounds.kernels.relaxation._aim`
        self.scratch = (
            np.zeros(self.relaxed.total),
            np.zeros(self.relaxed.total - numbers, dtype=np.int16),
            np.zeros(buckets, dtype=np.int32),
            np.zeros(copies),
            np.zeros(len(self.relaxed.copy_entry), dtype=np.int64),
            np.zeros(int(self.relaxed.groups[:, 2].max(initial=1))),
        )

    def begin(self, given: RowTables, even: bool) -> None:
        """Load a row's tables; all multipliers are 0."""
        from cmpe.core import relaxation as kernels

        entries = len(given.h)
        self.weights[:] = MU_WEIGHT * given.units**2
        self.h[:entries] = given.h
        kernels.share_out(self.relaxed, even, self.h)
        for own, table in zip(self.t, given.t, strict=True):
            own[:entries] = table
            kernels.share_out(self.relaxed, even, own)
        for array in self.state:
            array[:] = 0.0
        self.level[:] = np.inf, 0.0, 0.0, 0.0, given.least

    def impossible(self) -> bool:
        """Whether even the relaxation satisfies no constraint."""
        from cmpe.core import relaxation as kernels

        arrays = (self.h, self.t, self.limits, self.scratch)
        return bool(kernels.impossible(self.relaxed, *arrays))

    def descend(self, steps: int, free: bool) -> bool:
        """Some steps; whether more of them could help."""
        from cmpe.core import relaxation as kernels

        kernels.descend(
            self.relaxed, self.h, self.t, self.limits, self.weights, steps, free, self.level,
            self.state, self.scratch,
        )  # fmt: skip
        return not self.level[3]

    def certified(self) -> float:
        """The best bound, safe against rounding."""
        from cmpe.core import relaxation as kernels

        arrays = (self.h, self.t, self.limits, self.state, self.scratch)
        bound = float(kernels.certify(self.relaxed, *arrays))
        return bound if bound >= self.level[4] else -np.inf

    def work(self, work: Work, held: int, begin: float) -> int:
        """Descend until the work is done; returns the steps."""
        done = 0
        for size in work.slices(begin):
            going, left = True, size
            if done < held:
                size = min(held - done, left)
                self.descend(size, free=False)
                left -= size
                done += size
            if left:
                going = self.descend(left, free=True)
                done += left
            if not going or self.level[0] == -np.inf:
                break
        return done


def minimise(
    instances: Instances, relaxation: Relaxation, work: Work, schedule: Schedule | None = None
) -> Bounds:
    """Bound every row by `relaxation`, which must fit the structure of the instances.

    Where nothing is split, elimination finds the minimum exactly.
    """
    if relaxation.copies == 0:
        with suppress(TooLarge):  # another order may be wider than the relaxation's
            return Lagrangian().upper_bound(instances, work)
    chosen = schedule or Schedule()
    limits = loosened_limits(instances)
    out = Bounds.empty(len(instances), len(limits))

    def chunk(rows: slice) -> None:
        row = RelaxedRow(relaxation, limits)
        for at, given in enumerate(row_tables(instances, rows), rows.start):
            begin = clock()
            row.begin(given, chosen.even)
            if row.impossible():
                out.upper[at] = -np.inf
            else:
                out.steps[at] = row.work(work, chosen.held, begin)
                out.upper[at] = row.certified()
                out.multipliers[at] = row.state[5]
            out.infeasible[at] = out.upper[at] == -np.inf
            out.seconds[at] = clock() - begin

    over_chunks(instances, chunk, work.threads)
    return out
