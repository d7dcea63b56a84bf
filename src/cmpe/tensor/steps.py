"""The sizes of subgradient steps of a whole batch: `core.multipliers` in torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from cmpe.core.multipliers import StepRule


class Aim:
    """The aim of every row, which adapts; see `core.multipliers.fall`."""

    def __init__(self, rule: StepRule, zeros: Tensor) -> None:
        self._rule = rule
        self.aim, self._stale = zeros.clone(), zeros.clone()

    def reset(self) -> None:
        """As before the first step."""
        self.aim.zero_()
        self._stale.zero_()

    def fall(self, bound: Tensor, best: Tensor) -> Tensor:
        """How far the steps from points of value `bound` should try to fall."""
        rule, scale = self._rule, 1.0 + bound.abs()
        aim = torch.where(best == math.inf, rule.first * scale, self.aim)
        success = bound < best - rule.enough * aim - rule.least * scale
        if rule.growth != 1.0:
            aim = torch.where(bound < best - rule.much * aim, rule.growth * aim, aim)
        stale = (self._stale + 1.0).masked_fill(success, 0.0)
        waited = stale >= rule.patience
        self._stale.copy_(stale.masked_fill(waited, 0.0))
        self.aim.copy_(torch.where(waited, rule.cut * aim, aim))
        return (bound - best).clamp(min=0.0) + self.aim
