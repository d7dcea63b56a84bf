"""Split relaxations on tensors: the bound of `bounds.descent` for all rows of a batch at once.

    D(l, mu) = max over all copies of h - sum_j mu_j t_j + l, plus sum_j mu_j q_j

Steps, momentum, targets and stopping are those of `core.relaxation`, row by row; rows
that are done stay where they are. Nothing waits for the device within a step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from cmpe.bounds.base import Bounds, Work
from cmpe.bounds.relaxation import Relaxation
from cmpe.bounds.settings import SETTINGS
from cmpe.core.compiler import timing
from cmpe.core.dual import SLACK
from cmpe.core.multipliers import COPY_RULE
from cmpe.core.settings import WIDE
from cmpe.errors import MethodError
from cmpe.problem import Instances
from cmpe.tensor.copies import Copies, SplitPlan
from cmpe.tensor.device import INF, as_array, batch_steps
from cmpe.tensor.dual import captured
from cmpe.tensor.steps import Aim
from cmpe.tensor.tables import BatchTables, WideTables


class Descent:
    """`core.relaxation.descend` of some rows: each tensor in its place."""

    def __init__(self, plan: SplitPlan, copies: Copies, given: BatchTables) -> None:
        self._plan, self._copies, wide, relaxed = plan, copies, plan.wide, plan.relaxed
        rows, constraints = given.h.shape[1], len(given.t)
        self._limits, self._weights = wide.limits(), SETTINGS.mu_weight * given.units**2
        self._h = copies.share_out(given.h)
        self._t = self._h.new_zeros((constraints, *self._h.shape))
        for own, table in zip(self._t, given.t, strict=True):
            own.copy_(copies.share_out(table))
        self._numbers = wide.like.new_zeros((relaxed.total, rows))
        messages = (relaxed.total - relaxed.numbers, rows)
        self._winners = torch.zeros(messages, dtype=torch.int16, device=wide.device)
        self._shift, self._speed, self._best_shift = (
            wide.like.new_zeros((copies.entries, rows)) for _ in range(3)
        )
        self._mu, self._mu_speed, self.best_mu = (
            wide.like.new_zeros((constraints, rows)) for _ in range(3)
        )
        self._best = wide.like.new_zeros(rows)
        self._aim = Aim(COPY_RULE, self._best)
        self._least = given.least
        self.steps = torch.zeros(rows, dtype=torch.int64, device=wide.device)
        self.going = torch.ones(rows, dtype=torch.bool, device=wide.device)
        self.reset()

    def reset(self) -> None:
        """All multipliers are 0; rows whose constraints not even the relaxation meets are done."""
        state = (self._shift, self._speed, self._best_shift, self._mu, self._mu_speed,
                 self.best_mu, self.steps)  # fmt: skip
        for tensor in state:
            tensor.zero_()
        self._aim.reset()
        self._best.fill_(INF)
        self.impossible = torch.zeros_like(self.going)
        values = self._numbers[: len(self._h)]
        for t, limit in zip(self._t, self._limits, strict=True):
            torch.neg(t, out=values).masked_fill_(self._h == -INF, -INF)
            most = self._plan.sweep(self._numbers) + self._rounding()
            self.impossible |= most < -limit
        self.going.copy_(~self.impossible)

    def _bound(self, mu: Tensor, shift: Tensor, best: Tensor | None = None) -> Tensor:
        """D less the sum of mu_j q_j."""
        values = self._numbers[: len(self._h)]
        values.copy_(self._h)
        for price, table in zip(mu, self._t, strict=True):
            values.addcmul_(table, price, value=-1.0)
        values[len(values) - len(shift) :] += shift
        return self._plan.sweep(self._numbers, best)

    def step(self) -> None:
        """Evaluate D, keep the best, move all multipliers of the rows that are not done."""
        total = self._bound(self._mu, self._shift, self._winners)
        self.going &= total > -INF
        places, taken = self._plan.decode(self._winners)
        gradient, norm = self._copies.disagreement(taken)
        sums = self._t[:, 0] + self._t.gather(1, places.expand(len(self._t), -1, -1)).sum(1)
        slope = self._limits - sums
        slope.masked_fill_((self._mu == 0.0) & (slope > 0.0), 0.0)
        norm = norm + (self._weights * slope * slope).sum(0)
        bound = total + (self._mu * self._limits).sum(0)
        self.steps += self.going
        lower = self.going & (bound < self._best)
        fall = self._aim.fall(bound, self._best)
        tired = self._aim.aim < WIDE.least_aim * (1.0 + bound.abs())
        self._keep(lower, self._best, bound)
        self._keep(lower, self.best_mu, self._mu)
        self._keep(lower, self._best_shift, self._shift)
        self.going &= (bound >= self._least) & (norm > 0.0)
        length = (1.0 - WIDE.momentum) * fall / norm.masked_fill(norm == 0.0, 1.0)
        speed = WIDE.momentum * self._mu_speed + length * self._weights * slope
        self._keep(self.going, self._mu_speed, speed)
        self._keep(self.going, self._mu, (self._mu - speed).clamp(min=0.0))
        self._keep(self.going, self._speed, WIDE.momentum * self._speed + length * gradient)
        self._keep(self.going, self._shift, self._shift - self._speed)
        self.going &= ~tired

    def run(self, work: Work, graph: bool) -> None:
        """Step until the work is done, or no row can gain more."""
        step: Callable[[], None] = self.step
        if graph:
            step = captured(self.step)  # which makes a step, too
            self.reset()
        for _ in batch_steps(work, len(self.going), lambda: bool(self.going.any())):
            step()

    @staticmethod
    def _keep(where: Tensor, old: Tensor, new: Tensor) -> None:
        old.copy_(torch.where(where, new, old))

    def _rounding(self) -> Tensor:
        """What rounding can have taken off the sums of the last sweep."""
        sizes = self._numbers.abs()
        largest = sizes.masked_fill_(sizes == INF, 0.0).amax(0)
        return SLACK * (1.0 + len(self._plan.relaxed.buckets)) * (1.0 + largest)

    def certified(self) -> Tensor:
        """D at the best multipliers, with what rounding can have taken off it; -inf: infeasible."""
        total = self._bound(self.best_mu, self._best_shift)
        price = self.best_mu * self._limits
        slack = self._rounding() + SLACK * price.abs().sum(0)
        bound = total + price.sum(0) + slack + self._copies.drift(self._best_shift)
        return bound.masked_fill((bound < self._least) | self.impossible, -INF)


def split_bounds(
    instances: Instances, relaxation: Relaxation, work: Work, device: str, *, graph: bool = True
) -> Bounds:
    """The bounds of `bounds.descent.minimise` after as many steps, for all rows at once.

    A time limit is one for the batch: rows times seconds a row. On a GPU a step is replayed as a
    CUDA graph unless `graph` is off. Where nothing is split this moves mu alone.
    """
    if not relaxation.fits(instances.conditioning):
        raise MethodError("the relaxation must be made for the structure of these instances")
    wide = WideTables(instances, device)
    plan, copies = SplitPlan(relaxation.compiled, wide), Copies(relaxation.compiled, wide)
    out = Bounds.empty(len(instances), len(instances.problem.constraints))
    size = 3 * plan.relaxed.total + 2 * plan.widest + 6 * copies.entries
    size += (2 + 2 * len(instances.problem.constraints)) * plan.relaxed.numbers
    for rows in wide.chunks(size):
        begin = timing.now()
        descent = Descent(plan, copies, wide.row_tables(rows))
        with torch.cuda.device_of(wide.like):  # type: ignore[no-untyped-call]
            descent.run(work, graph and wide.like.is_cuda)
        out.upper[rows] = as_array(descent.certified())
        out.multipliers[rows] = as_array(descent.best_mu.T)
        out.steps[rows] = descent.steps.cpu().numpy()
        out.seconds[rows] = (timing.now() - begin) / (rows.stop - rows.start)
    out.infeasible[:] = out.upper == -np.inf
    return out
