"""The losses, each a pure function of one evaluated batch (paper §3, §4; docs/learning.md).

In minimisation form: f = C - h > 0 and g_j = t_j - q_j, feasible when every g_j <= 0. Write
v = sum over j of max(0, g_j) (paper, extension to several constraints).

    mse, mae               |y - y*|^2, |y - y*|, summed over coordinates
    mse_pen, mae_pen       + sum of lambda_xj max(0, g_j)                         (eq. sub-1)
    ssl_pen                f + sum of lambda_xj / 2 max(0, g_j)^2                 (eq. penalty-loss)
    pdl                    f + lambda / 2 sum of max(0, g_j)^2 + sum of mu_j g_j  (eq. alm)
    ss_cmpe                f if v = 0 else alpha_x (f + v)                        (eq. loss_1)
                           smooth: (1 - s) f + s alpha_x (f + v), s = sigma(beta max g_j)
                                                                                  (eq. loss_cont)
                           alpha_x includes the contrast (see alpha.py)
    ss_cmpe_pen            + rho sum of max(0, g_j)^2 where infeasible           (paper, extensions)
    distill                - log p(y*): supervised on certified answers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from cmpe.learning.losses.catalogue import loss_kind

NOTHING = torch.zeros(())


class Evaluated(NamedTuple):
    """A batch after the forward pass: M members side by side, B rows each, m constraints.

    What a loss does not read may be left as it is.
    """

    f: Tensor  # (M, B)
    g: Tensor  # (M, B, m)
    points: Tensor = NOTHING  # (M, B, D)
    surprise: Tensor = NOTHING  # (M, B): - log p(y*) under the outputs
    targets: Tensor = NOTHING  # (M, B, D): coordinates of y*
    alpha: Tensor = NOTHING  # (M, B): NaN where a bound is missing
    penalty: Tensor = NOTHING  # (M, B, m): lambda_x
    multipliers: Tensor = NOTHING  # (M, B, m): mu of the dual network
    contrast: Tensor = torch.ones(())  # (M, 1): stands for alpha where a bound is missing
    beta: Tensor | None = None  # (M, 1); None is the piecewise form
    gate_gradient: bool = True
    rho: Tensor = NOTHING  # (M, 1)


Loss = Callable[[Evaluated], Tensor]  # to (M, B)


def excess(g: Tensor) -> Tensor:
    """max(0, g_j): (M, B, m)."""
    return g.clamp(min=0.0)


def over_constraints(values: Tensor) -> Tensor:
    """The sum over constraints of (M, B, m); of one constraint it is a view."""
    return values.squeeze(-1) if values.shape[-1] == 1 else values.sum(-1)


def mse(batch: Evaluated) -> Tensor:
    """|y - y*|^2 (paper §3, supervised)."""
    return (batch.points - batch.targets).square().sum(-1)


def mae(batch: Evaluated) -> Tensor:
    """|y - y*| (paper §3, supervised)."""
    return (batch.points - batch.targets).abs().sum(-1)


def _linear_penalty(batch: Evaluated) -> Tensor:
    return over_constraints(batch.penalty * excess(batch.g))


def mse_pen(batch: Evaluated) -> Tensor:
    """mse + lambda_x max(0, g); lambda_x grows by eq. sub-1."""
    return mse(batch) + _linear_penalty(batch)


def mae_pen(batch: Evaluated) -> Tensor:
    """mae + lambda_x max(0, g); lambda_x grows by eq. sub-1."""
    return mae(batch) + _linear_penalty(batch)


def ssl_pen(batch: Evaluated) -> Tensor:
    """f + lambda_x / 2 max(0, g)^2 (eq. penalty-loss)."""
    return batch.f + 0.5 * over_constraints(batch.penalty * excess(batch.g).square())


def pdl(batch: Evaluated) -> Tensor:
    """The augmented Lagrangian of the primal network (eq. alm); lambda is `penalty`."""
    return ssl_pen(batch) + over_constraints(batch.multipliers * batch.g)


def ss_cmpe(batch: Evaluated) -> Tensor:
    """f where feasible, alpha_x (f + v) where not (eq. loss_1, loss_cont)."""
    return _two_branches(batch, None)


def ss_cmpe_pen(batch: Evaluated) -> Tensor:
    """ss_cmpe with rho max(0, g)^2 added to the infeasible branch."""
    return _two_branches(batch, batch.rho * over_constraints(excess(batch.g).square()))


def _two_branches(batch: Evaluated, added: Tensor | None) -> Tensor:
    """Where a bound of alpha_x is missing its ratio is left out: contrast (f + v).

    The gate s is differentiated by default. Its slope beta s (1 - s) (other - f) is what drives an
    answer near g = 0 back: at least beta / 4 times (contrast - 1) f there, against which the
    gradients of f, nearly those of t, are small. Without it (as the authors' program has it) only
    the weights of the two branches change with g, and answers settle on the far side.
    """
    if not batch.g.shape[-1]:
        return batch.f
    alpha = torch.where(batch.alpha.isnan(), batch.contrast, batch.alpha)
    other = alpha * (batch.f + over_constraints(excess(batch.g)))
    if added is not None:
        other = other + added
    worst = batch.g.squeeze(-1) if batch.g.shape[-1] == 1 else batch.g.amax(-1)
    if batch.beta is None:
        return torch.where(worst > 0, other, batch.f)
    gate = torch.sigmoid(batch.beta * worst)
    return torch.lerp(batch.f, other, gate if batch.gate_gradient else gate.detach())


def distill(batch: Evaluated) -> Tensor:
    """Cross-entropy to the certified answer."""
    return batch.surprise


LOSSES: Mapping[str, Loss] = {
    function.__name__: function
    for function in (mse, mae, mse_pen, mae_pen, ssl_pen, pdl, ss_cmpe, ss_cmpe_pen, distill)
}


def loss_named(name: str) -> Loss:
    """The loss called `name`."""
    return LOSSES[loss_kind(name).name]
