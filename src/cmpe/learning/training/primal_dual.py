"""The dual network of `pdl` (Park & Van Hentenryck 2022; paper §3, eq. alm-1).

It predicts mu from x. Training alternates: `primal_epochs` move the primal network with mu frozen,
then `dual_epochs` move the dual network towards max(0, mu_k + lambda g(y)) with y and the previous
mu_k frozen; then lambda is multiplied by `dual_growth` unless the violation has fallen below
`dual_enough` times that of the period before. The settings are fields of `TrainingConfig`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from cmpe.learning.networks.networks import Network, Parameters
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.optimizer import Adam


class DualNetwork:
    """One hidden layer per member, and the multipliers it had when its phase began."""

    def __init__(
        self,
        inputs: int,
        constraints: int,
        configs: Sequence[TrainingConfig],
        device: torch.device,
    ) -> None:
        self.config = configs[0]
        self.network = Network((inputs, self.config.dual_hidden, constraints), constraints)
        start = [self.network.initial(c.seed + 1) for c in configs]
        self.adam = Adam(start, [c.learning_rate for c in configs], device)
        self.growth = torch.tensor([c.dual_growth for c in configs], device=device)  # (M,)
        self.frozen = self.adam.flat.clone()
        self.last = torch.full((len(configs),), torch.inf, device=device)

    @property
    def period(self) -> int:
        """Epochs of a primal and a dual phase."""
        return self.config.primal_epochs + self.config.dual_epochs

    def is_dual(self, epoch: int) -> bool:
        """Whether `epoch` moves the dual network."""
        return epoch % self.period >= self.config.primal_epochs

    def begin(self, epoch: int) -> None:
        """At the start of a dual phase, freeze mu_k."""
        if epoch % self.period == self.config.primal_epochs:
            self.frozen.copy_(self.adam.flat)

    def prices(self, encoded: Tensor) -> Tensor:
        """mu >= 0 for encoded evidence (M, B, I), without gradient: (M, B, m)."""
        with torch.no_grad():
            return self.raw(self.adam.parameters, encoded).clamp(min=0.0)

    def raw(self, parameters: Parameters, encoded: Tensor) -> Tensor:
        """The outputs before they are cut off at 0."""
        hidden = torch.baddbmm(
            parameters["bias0"].unsqueeze(1), encoded, parameters["weight0"]
        ).relu()
        return torch.baddbmm(parameters["bias1"].unsqueeze(1), hidden, parameters["weight1"])

    def loss(self, encoded: Tensor, g: Tensor, penalty: Tensor) -> Tensor:
        """|mu - max(0, mu_k + lambda g)| (M, B)."""
        with torch.no_grad():
            before = self.raw(self.adam.views(self.frozen), encoded).clamp(min=0.0)
            wanted = (before + penalty * g).clamp(min=0.0)
        return (self.raw(self.adam.parameters, encoded) - wanted).abs().sum(-1)

    def grow(self, epoch: int, violation: Tensor, penalty: Tensor) -> None:
        """After a whole period: lambda (M, N, m) grows where `violation` (M,) stays high."""
        if (epoch + 1) % self.period:
            return
        stays = (violation > self.config.dual_enough * self.last) & (violation > 0)
        factor = torch.where(stays, self.growth, 1.0).view(-1, 1, 1)
        penalty.mul_(factor).clamp_(max=self.config.penalty_limit)
        self.last.copy_(violation)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        own = {f"adam.{name}": value for name, value in self.adam.state().items()}
        return {**own, "frozen": self.frozen, "last": self.last}
