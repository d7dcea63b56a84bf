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
from cmpe.bounds.settings import SETTINGS
from cmpe.core.copies import VALUES
from cmpe.errors import TooLarge
from cmpe.problem import Instances

# How much a step moves the constraints' multipliers, in `RowTables.units`, against the copies'.


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
        from cmpe.core.relaxation import CopyRow, CopyState

        self.relaxed = relaxation.compiled
        numbers, count = self.relaxed.numbers, len(limits)
        copies = numbers - self.relaxed.entries
        self.row = CopyRow(
            np.zeros(numbers), np.zeros((count, numbers)), limits, np.zeros(count), np.zeros(1)
        )
        self.state = CopyState(
            np.zeros(copies),
            np.zeros(count),
            np.zeros(copies),
            np.zeros(count),
            np.zeros(copies),
            np.zeros(count),
            np.zeros(3),
            np.zeros(1, dtype=np.bool_),
            np.zeros(self.relaxed.total),
            np.zeros(self.relaxed.total - numbers, dtype=np.int16),
            np.zeros(len(self.relaxed.buckets), dtype=np.int32),
            np.zeros(copies),
            np.zeros(len(self.relaxed.copy_entry), dtype=np.int64),
            np.zeros(int(self.relaxed.groups[:, VALUES].max(initial=1))),
        )

    def begin(self, given: RowTables, even: bool) -> None:
        """Load a row's tables; all multipliers are 0."""
        from cmpe.core import relaxation as kernels
        from cmpe.core.multipliers import BEST

        entries, row = len(given.h), self.row
        row.weights[:] = SETTINGS.mu_weight * given.units**2
        row.h[:entries] = given.h
        kernels.share_out(self.relaxed, even, row.h)
        for table, values in zip(row.t, given.t, strict=True):
            table[:entries] = values
            kernels.share_out(self.relaxed, even, table)
        for array in self.state:
            array[:] = 0
        self.state.level[BEST] = np.inf
        row.enough[:] = given.least

    def impossible(self) -> bool:
        """Whether even the relaxation satisfies no constraint."""
        from cmpe.core import relaxation as kernels

        return bool(kernels.impossible(self.relaxed, self.row, self.state))

    def descend(self, steps: int, free: bool) -> bool:
        """Some steps; whether more of them could help."""
        from cmpe.core import relaxation as kernels

        kernels.descend(self.relaxed, self.row, steps, free, self.state)
        return not self.state.is_over[0]

    def certified(self) -> float:
        """The best bound, safe against rounding."""
        from cmpe.core import relaxation as kernels

        bound = float(kernels.certify(self.relaxed, self.row, self.state))
        return bound if bound >= self.row.enough[0] else -np.inf

    def work(self, work: Work, held: int, begin: float) -> int:
        """Descend until the work is done; returns the steps."""
        from cmpe.core.multipliers import BEST

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
            if not going or self.state.level[BEST] == -np.inf:
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
                out.multipliers[at] = row.state.best_mu
            out.infeasible[at] = out.upper[at] == -np.inf
            out.seconds[at] = clock() - begin

    over_chunks(instances, chunk, work.threads)
    return out
