"""The dual network of `pdl` (Park & Van Hentenryck 2022; paper §3, eq. alm-1).

It predicts mu from x. Training alternates: some epochs move the primal network with mu frozen,
then some move the dual network towards max(0, mu_k + lambda g(y)) with y and the previous mu_k
frozen; then lambda grows unless the violation has fallen enough.
"""

from __future__ import annotations

import torch
from torch import Tensor

from cmpe.learning.networks.networks import Network, Parameters
from cmpe.learning.training.optimizer import Adam

HIDDEN = 128  # units of the dual network (paper, supplement B.C)
PRIMAL, DUAL = 8, 2  # epochs of each phase
GROWTH = 2.0  # lambda is multiplied by it
ENOUGH = 0.8  # lambda stays where the violation falls below this share of the last one


class DualNetwork:
    """One hidden layer per member, and the multipliers it had when its phase began."""

    def __init__(
        self, inputs: int, constraints: int, seeds: list[int], rates: list[float],
        device: torch.device,
    ) -> None:  # fmt: skip
        self.network = Network((inputs, HIDDEN, constraints), constraints)
        self.adam = Adam([self.network.initial(s + 1) for s in seeds], rates, device)
        self.frozen = self.adam.flat.clone()
        self.last = torch.full((len(seeds),), torch.inf, device=device)

    @staticmethod
    def is_dual(epoch: int) -> bool:
        """Whether `epoch` moves the dual network."""
        return epoch % (PRIMAL + DUAL) >= PRIMAL

    def begin(self, epoch: int) -> None:
        """At the start of a dual phase, freeze mu_k."""
        if epoch % (PRIMAL + DUAL) == PRIMAL:
            self.frozen.copy_(self.adam.flat)

    def prices(self, encoded: Tensor) -> Tensor:
        """mu >= 0 for encoded evidence (M, B, I), without gradient: (M, B, m)."""
        with torch.no_grad():
            return self._raw(self.adam.parameters, encoded).clamp(min=0.0)

    def _raw(self, parameters: Parameters, encoded: Tensor) -> Tensor:
        hidden = torch.baddbmm(
            parameters["bias0"].unsqueeze(1), encoded, parameters["weight0"]
        ).relu()
        return torch.baddbmm(parameters["bias1"].unsqueeze(1), hidden, parameters["weight1"])

    def loss(self, encoded: Tensor, g: Tensor, penalty: Tensor) -> Tensor:
        """|mu - max(0, mu_k + lambda g)| (M, B)."""
        with torch.no_grad():
            before = self._raw(self.adam.views(self.frozen), encoded).clamp(min=0.0)
            wanted = (before + penalty * g).clamp(min=0.0)
        return (self._raw(self.adam.parameters, encoded) - wanted).abs().sum(-1)

    def grow(self, epoch: int, violation: Tensor, penalty: Tensor, most: float) -> None:
        """After a whole period: lambda (M, N, m) grows where `violation` (M,) stays high."""
        if (epoch + 1) % (PRIMAL + DUAL):
            return
        stays = (violation > ENOUGH * self.last) & (violation > 0)
        factor = torch.where(stays, GROWTH, 1.0).view(-1, 1, 1)
        penalty.mul_(factor).clamp_(max=most)
        self.last.copy_(violation)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        own = {f"adam.{name}": value for name, value in self.adam.state().items()}
        return {**own, "frozen": self.frozen, "last": self.last}
