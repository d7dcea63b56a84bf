"""What training knows of each example: alpha_x and the penalty lambda_x (paper §4.2, eq. sub-1).

    alpha_x = contrast * max(1, p_upper / q_lower)

p_upper is an upper bound of p* = min f subject to g <= 0, q_lower a lower bound of
q* = min f + v subject to g > 0. alpha_x > p*/q* makes ss_cmpe consistent: its minimum is p*. Any
larger factor keeps that minimum, and an infeasible answer then costs
alpha_x (f + v) >= alpha_x q_lower >= contrast * p*, that is, at least (contrast - 1) p* more than
the best feasible one. Where p_upper / q_lower is below 1 (every infeasible f + v is known to exceed
p*), the factor 1 is consistent already and a smaller one would only narrow that step; where a bound
is missing, the ratio is left out and nothing is promised.

p_upper falls to the best feasible f seen for that x. A rounded output that is feasible always
bounds p*; a relaxed one does only without constraints, where the multilinear f has a vertex at
least as good (with constraints its vertices may be infeasible, and a relaxed f can lie below p*).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

ABOVE = 1.0 + 1e-5  # alpha_x must exceed p*/q*, not equal it
SLACK = 1e-5  # float32 moves f and g by at most this times 1 + |value|


@dataclass
class Examples:
    """One number per member and example: M members, N examples, m constraints."""

    p_upper: Tensor  # (M, N), NaN: missing
    q_lower: Tensor  # (N,), NaN: missing
    penalty: Tensor  # (M, N, m)
    limits: Tensor  # (m,): q
    contrast: Tensor = field(default_factory=lambda: torch.ones(()))  # (M, 1), at least 1

    def __post_init__(self) -> None:
        self._alpha = torch.zeros_like(self.p_upper)
        self.refresh()

    def refresh(self) -> None:
        """alpha_x from its bounds, after p_upper was written from outside."""
        self._alpha.copy_(self._factor(self.p_upper, self.q_lower))

    def _factor(self, p_upper: Tensor, q_lower: Tensor) -> Tensor:
        return self.contrast * (ABOVE * p_upper / q_lower).clamp(min=1.0)

    def alpha(self, rows: Tensor) -> Tensor:
        """alpha_x of `rows` (M, B); NaN where a bound is missing."""
        return self._alpha.gather(1, rows)

    def lambdas(self, rows: Tensor) -> Tensor:
        """lambda_x of `rows` (M, B): (M, B, m)."""
        return self.penalty[_members(rows), rows]

    def see_feasible(self, rows: Tensor, f: Tensor, g: Tensor, counts: Tensor) -> None:
        """Lower p_upper to f of answers (M, B) that satisfy g <= 0 (M, B, m) beyond rounding."""
        margin = SLACK * (1.0 + self.limits.abs())
        feasible = (g <= -margin).all(-1) & counts
        known = self.p_upper.gather(1, rows)
        better = torch.where(feasible, torch.fmin(known, f + SLACK * (1.0 + f.abs())), known)
        self.p_upper.scatter_(1, rows, better)
        self._alpha.scatter_(1, rows, self._factor(better, self.q_lower[rows]))

    def raise_penalty(
        self, rows: Tensor, g: Tensor, rho: Tensor, factor: float, most: float
    ) -> None:
        """lambda_x += rho max(0, g), or times `factor` where violated, up to `most`."""
        here = _members(rows)
        old = self.penalty[here, rows]
        over = g.clamp(min=0.0)
        new = (
            old + rho.unsqueeze(-1) * over
            if factor == 1.0
            else torch.where(over > 0, old * factor, old)
        )
        self.penalty[here, rows] = new.clamp(max=most)


def _members(rows: Tensor) -> Tensor:
    return torch.arange(rows.shape[0], device=rows.device).unsqueeze(-1).expand_as(rows)
