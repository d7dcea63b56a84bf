"""Adam for a stack of members, each with its own learning rate (Kingma & Ba 2015).

All parameters of a member lie end to end in one row of a (M, P) tensor, and so do gradients and
moments: one update is a dozen kernels however many layers there are, and one all-reduce covers
every gradient. torch's fused Adam has one rate for all members.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

BETAS = (0.9, 0.999)
EPSILON = 1e-8


class Adam:
    """Parameters with their gradients, moments and learning rates."""

    def __init__(
        self, members: Sequence[Mapping[str, Tensor]], rates: Sequence[float], device: torch.device
    ) -> None:
        rows = [torch.cat([p.reshape(-1) for p in member.values()]) for member in members]
        self.flat = torch.stack(rows).to(device)
        self.gradient, self.first, self.second = (torch.zeros_like(self.flat) for _ in range(3))
        self.rates = torch.tensor(rates, dtype=torch.float32, device=device).unsqueeze(-1)  # (M, 1)
        self.decay = torch.ones(2, device=device)  # the product of each beta over all steps
        self._betas = torch.tensor(BETAS, device=device)
        self._shapes = {name: value.shape for name, value in members[0].items()}
        views = self.views(self.flat).items()
        self.parameters = {name: view.detach().requires_grad_() for name, view in views}

    def views(self, flat: Tensor) -> dict[str, Tensor]:
        """The parameters by name within a tensor that lies like `flat` (M, P)."""
        views, start = {}, 0
        for name, shape in self._shapes.items():
            end = start + shape.numel()
            views[name] = flat[:, start:end].view(len(flat), *shape)
            start = end
        return views

    def differentiate(self, losses: Tensor, shares: Tensor) -> None:
        """`gradient` of the sum of shares times losses (M, B)."""
        weights = list(self.parameters.values())
        found = torch.autograd.grad(losses, weights, shares, materialize_grads=True)
        torch.cat([g.reshape(len(self.flat), -1) for g in found], 1, out=self.gradient)

    @torch.no_grad()
    def step(self) -> None:
        """One update from `gradient`."""
        self.decay.mul_(self._betas)
        left = 1.0 - self.decay
        self.first.lerp_(self.gradient, 1.0 - BETAS[0])
        self.second.mul_(BETAS[1]).addcmul_(self.gradient, self.gradient, value=1.0 - BETAS[1])
        bottom = (self.second / left[1]).sqrt_().add_(EPSILON).mul_(left[0] / self.rates)
        self.flat.addcdiv_(self.first, bottom, value=-1.0)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {
            "flat": self.flat, "first": self.first, "second": self.second, "rates": self.rates,
            "decay": self.decay,
        }  # fmt: skip

    def member(self, k: int) -> dict[str, Tensor]:
        """The parameters of member k, with a first axis of one."""
        return {name: value.detach()[k : k + 1].clone() for name, value in self.parameters.items()}


class Plateau:
    """Lower a member's rate when its loss has not fallen for `patience` epochs.

    As torch's ReduceLROnPlateau with its relative threshold of 1e-4, for every member at once.
    """

    THRESHOLD = 1e-4

    def __init__(self, factors: Sequence[float], patience: int, device: torch.device) -> None:
        self._factors = torch.tensor(factors, dtype=torch.float32, device=device)
        self._patience = patience
        self.best = torch.full_like(self._factors, torch.inf)
        self.bad = torch.zeros_like(self._factors)

    def see(self, losses: Tensor, rates: Tensor) -> None:
        """After an epoch: `losses` (M,) decide about `rates` (M, 1), which change in place."""
        better = losses < self.best - self.best.abs().nan_to_num(posinf=0.0) * self.THRESHOLD
        self.best.copy_(torch.where(better, losses, self.best))
        self.bad.copy_(torch.where(better, 0.0, self.bad + 1.0))
        lower = self.bad > self._patience
        rates.mul_(torch.where(lower, self._factors, 1.0).unsqueeze(-1))
        self.bad.masked_fill_(lower, 0.0)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        return {"best": self.best, "bad": self.bad}
