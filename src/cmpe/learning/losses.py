"""The losses, each a pure function of one evaluated batch (paper §3, §4; SPEC §4).

In minimisation form: f = C - h > 0 and g_j = t_j - q_j, feasible when every g_j <= 0. Write
v = sum over j of max(0, g_j) (paper, extension to several constraints).

    mse, mae               |y - y*|^2, |y - y*|, summed over coordinates
    mse_pen, mae_pen       + sum of lambda_xj max(0, g_j)                         (eq. sub-1)
    ssl_pen                f + sum of lambda_xj / 2 max(0, g_j)^2                 (eq. penalty-loss)
    pdl                    f + lambda / 2 sum of max(0, g_j)^2 + sum of mu_j g_j  (eq. alm)
    ss_cmpe                f if v = 0 else alpha_x (f + v)                        (eq. loss_1)
                           smooth: (1 - s) f + s alpha_x (f + v), s = sigma(beta max g_j)
                                                                                  (eq. loss_cont)
    ss_cmpe_pen            + rho sum of max(0, g_j)^2 where infeasible           (paper, extensions)
    distill                - log p(y*), plus `mix` times ss_cmpe: supervised on certified answers
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from cmpe.errors import MethodError


class Evaluated(NamedTuple):
    """A batch after the forward pass: M members side by side, B rows each, m constraints."""

    f: Tensor  # (M, B)
    g: Tensor  # (M, B, m)
    points: Tensor  # (M, B, D)
    surprise: Tensor  # (M, B): - log p(y*) under the outputs; 0 without labels
    targets: Tensor  # (M, B, D): coordinates of y*, or a scalar without labels
    alpha: Tensor  # (M, B): NaN where a bound is missing
    penalty: Tensor  # (M, B, m): lambda_x
    multipliers: Tensor  # (M, B, m): mu of the dual network
    beta: Tensor  # (M, 1): inf is the piecewise form
    rho: Tensor  # (M, 1)
    mix: Tensor  # (M, 1)


Loss = Callable[[Evaluated], Tensor]  # to (M, B)


def excess(g: Tensor) -> Tensor:
    """max(0, g_j): (M, B, m)."""
    return g.clamp(min=0.0)


def mse(batch: Evaluated) -> Tensor:
    """|y - y*|^2 (paper §3, supervised)."""
    return (batch.points - batch.targets).square().sum(-1)


def mae(batch: Evaluated) -> Tensor:
    """|y - y*| (paper §3, supervised)."""
    return (batch.points - batch.targets).abs().sum(-1)


def _linear_penalty(batch: Evaluated) -> Tensor:
    return (batch.penalty * excess(batch.g)).sum(-1)


def mse_pen(batch: Evaluated) -> Tensor:
    """mse + lambda_x max(0, g); lambda_x grows by eq. sub-1."""
    return mse(batch) + _linear_penalty(batch)


def mae_pen(batch: Evaluated) -> Tensor:
    """mae + lambda_x max(0, g); lambda_x grows by eq. sub-1."""
    return mae(batch) + _linear_penalty(batch)


def ssl_pen(batch: Evaluated) -> Tensor:
    """f + lambda_x / 2 max(0, g)^2 (eq. penalty-loss)."""
    return batch.f + 0.5 * (batch.penalty * excess(batch.g).square()).sum(-1)


def pdl(batch: Evaluated) -> Tensor:
    """The augmented Lagrangian of the primal network (eq. alm); lambda is `penalty`."""
    return ssl_pen(batch) + (batch.multipliers * batch.g).sum(-1)


def ss_cmpe(batch: Evaluated) -> Tensor:
    """f where feasible, alpha_x (f + v) where not (eq. loss_1, loss_cont)."""
    return _two_branches(batch, torch.zeros_like(batch.f))


def ss_cmpe_pen(batch: Evaluated) -> Tensor:
    """ss_cmpe with rho max(0, g)^2 added to the infeasible branch."""
    return _two_branches(batch, batch.rho * excess(batch.g).square().sum(-1))


def _two_branches(batch: Evaluated, added: Tensor) -> Tensor:
    if not batch.g.shape[-1]:
        return batch.f
    known = ~batch.alpha.isnan()  # where nothing can violate there is no second branch
    alpha = torch.where(known, batch.alpha, 1.0)
    other = alpha * (batch.f + excess(batch.g).sum(-1)) + added
    gate = _gate(batch.g.amax(-1), batch.beta)
    return torch.where(known, batch.f + gate * (other - batch.f), batch.f)


def _gate(g: Tensor, beta: Tensor) -> Tensor:
    """sigma(beta g), or the step [g > 0] where beta is infinite."""
    steep = beta.isinf()
    step = (g > 0).to(g.dtype)
    return torch.where(steep, step, torch.sigmoid(torch.where(steep, 1.0, beta) * g))


def distill(batch: Evaluated) -> Tensor:
    """Cross-entropy to the certified answer, plus `mix` times ss_cmpe."""
    return batch.surprise + batch.mix * ss_cmpe(batch)


LOSSES: Mapping[str, Loss] = {
    "mse": mse,
    "mae": mae,
    "mse_pen": mse_pen,
    "mae_pen": mae_pen,
    "ssl_pen": ssl_pen,
    "pdl": pdl,
    "ss_cmpe": ss_cmpe,
    "ss_cmpe_pen": ss_cmpe_pen,
    "distill": distill,
}
SUPERVISED = frozenset({"mse", "mae", "mse_pen", "mae_pen"})
NEED_LABELS = SUPERVISED | {"distill"}
NEED_ALPHA = frozenset({"ss_cmpe", "ss_cmpe_pen", "distill"})


def loss_named(name: str) -> Loss:
    """The loss called `name`."""
    if name not in LOSSES:
        raise MethodError(f"a loss is one of {', '.join(LOSSES)}; found {name!r}")
    return LOSSES[name]
