"""`FenchelYoung`: a loss for scores where only the best assignment can be computed.

    loss(u, y) = E_Z max over allowed y' of [u(y') + sigma Z(y') + h(y')]  -  u(y) - h(y)

with standard normal Z for every state (Berthet et al., Learning with differentiable perturbed
optimizers, 2020). Its gradient is the mean of the best assignments minus y.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from cmpe.arguments import real_number, whole_number
from cmpe.errors import MethodError, ModelError
from cmpe.problem import Problem
from cmpe.problem.rows import Limits as RowLimits
from cmpe.torch.breaches import breach
from cmpe.torch.layer import Layer, Scores, applied


class FenchelYoung(nn.Module):
    """The perturbed loss of scores (B, n, k) and assignments y (B, n): the mean over rows.

    `samples` perturbations of each row, `sigma` their size; the same `seed` gives the same
    perturbations in the same order of calls. Scores are given as to `Layer`.
    """

    def __init__(
        self,
        problem: Problem,
        samples: int = 4,
        sigma: float = 1.0,
        seed: int = 0,
        *,
        threads: int | None = None,
    ) -> None:
        super().__init__()
        self.layer = Layer(problem, threads=threads)
        self.samples = whole_number("samples", samples, 1)
        self.sigma = real_number("sigma", sigma)
        if not 0.0 < self.sigma < math.inf:
            raise MethodError(f"sigma must be above 0, found {self.sigma}")
        self.generator = np.random.default_rng(whole_number("seed", seed, 0))

    def forward(self, potentials: Scores, y: Tensor, limits: RowLimits | None = None) -> Tensor:
        """The loss; an error where y is not allowed."""
        exact = self.layer(potentials, limits)
        rows, scores = exact._assignments(y), exact.potentials
        chosen = scores.gather(2, y.to(scores.device).unsqueeze(2)).squeeze(2)
        fixed, allowed = exact._judged(rows, chosen)
        if not allowed.all():
            row = int(np.flatnonzero(~allowed)[0])
            own = exact._rows.problem_of(row)
            raise ModelError(
                f"row {row}: y must be allowed; found one that breaks "
                f"{breach(self.layer.problem, own, rows[row])}"
            )
        best = applied(_Perturbed, scores, self, limits)
        loss: Tensor = (best - chosen.sum(dim=1) - exact._tensor(fixed)).mean()
        return loss


class _Perturbed(torch.autograd.Function):
    """The mean over perturbations of the best value; its derivative is the mean of the answers."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, loss: FenchelYoung, limits: RowLimits | None) -> Tensor:
        count, shape = loss.samples, tuple(scores.shape)
        noise = loss.sigma * loss.generator.standard_normal((count, *shape))
        moved = scores.detach().cpu().double() + torch.from_numpy(noise)
        answers = loss.layer(moved.reshape(-1, *shape[1:]), _repeated(limits, count)).solutions
        best = answers.objective.reshape(count, shape[0]).mean(axis=0)
        states = np.maximum(answers.assignments, 0).astype(np.int64)
        hot = np.zeros((len(states), *shape[1:]))
        np.put_along_axis(hot, states[:, :, np.newaxis], 1.0, axis=2)
        ctx.mean = torch.from_numpy(hot.reshape(count, *shape).mean(axis=0)).to(scores)
        return torch.from_numpy(best).to(scores)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient[:, None, None] * ctx.mean, None, None


def _repeated(limits: Any, count: int) -> Any:
    """Limits of rows, once for each perturbation."""
    if limits is None:
        return None
    if hasattr(limits, "items"):
        return {key: _tiled(q, count) for key, q in limits.items()}
    return _tiled(limits, count)


def _tiled(values: Any, count: int) -> Any:
    found = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    return found if found.ndim == 0 else np.concatenate([found] * count)
