"""The bounds that run on a device, each a `Bounder` as its compiled counterpart is.

All of them are valid bounds: what rounding can have taken off is added. How near they come to the
compiled ones after equal steps stands in the docstring of each.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from cmpe.bounds.base import Bounds, Work
from cmpe.bounds.lagrangian import Dual, dual_by_branch
from cmpe.bounds.splitting import Splitting
from cmpe.core.compiler import timing
from cmpe.errors import TooLarge
from cmpe.problem import Instances
from cmpe.tensor.device import scalar_on
from cmpe.tensor.dual import minimised
from cmpe.tensor.split import split_bounds


def dual(instances: Instances, device: str) -> Dual:
    """`bounds.lagrangian.lagrangian_dual` of every row, computed on `device` in float64.

    With at most one constraint the bounds equal the compiled ones to 1e-9 of 1 + their size. With
    several both take the same subgradient steps: bounds are equal to 1e-6, except where several
    maximisers tie exactly; rounding may choose another of them, and the bound, valid as any, may
    then end elsewhere. Infeasible rows are the same. Extreme answers may differ where they tie.
    """
    if not instances.problem.is_log_linear:
        scalar_on(device)  # refuses an unknown device even where no branch is left
        return dual_by_branch(instances, lambda part: dual(part, device))
    return minimised(instances, device)


@dataclass(frozen=True)
class DeviceLagrangian:
    """`lagrangian`; equal to 1e-9 of 1 + |bound|, to 1e-6 with several constraints (see `dual`)."""

    device: str

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row; refuses what is too wide to eliminate."""
        begin = timing.now()
        return dual(instances, self.device).as_bounds(timing.now() - begin)


@dataclass(frozen=True)
class DeviceSplitting:
    """`splitting`; equal to 1e-6, unless tables tie exactly and rounding breaks the tie.

    After a tie, bounds of large grids have differed by up to 0.3 nats. The split is chosen
    as the compiled bound chooses it, on the CPU.
    """

    device: str
    chosen: Splitting

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row by the split; where nothing is split, by elimination."""
        relaxation = self.chosen.split_of(instances.conditioning, work)
        if relaxation.copies == 0:
            with suppress(TooLarge):  # another order may be wider than the relaxation's
                return DeviceLagrangian(self.device).upper_bound(instances, work)
        return split_bounds(instances, relaxation, work, self.device)
