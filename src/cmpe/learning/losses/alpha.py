"""The factors of each example: alpha_x and the penalty lambda_x (paper §4.2, eq. sub-1).

    alpha_x = contrast * max(least, p_upper / q_lower)

p_upper is an upper bound of p* = min f subject to g <= 0, q_lower a lower bound of
q* = min f + v subject to g > 0. alpha_x > p*/q* makes ss_cmpe consistent: its minimum is p*. Any
larger factor keeps that minimum. `TrainingConfig.alpha` names one of three forms:

    paper        p_upper starts at the greatest f of any assignment (max f) and is lowered at every
                 step to f of the best feasible output so far, as supplement A says it was done
    precomputed  the same start, never lowered, as the end of §4 allows
    fixed        p_upper starts at f of the dual's feasible answer, which is tight, and is lowered
                 at the steps that measure; ratios below 1 count as 1 (`least`)

With contrast 1, `paper` and `precomputed` are as printed. A weak p_upper acts as a contrast of its
own: an infeasible answer costs alpha_x (f + v) >= alpha_x q_lower >= contrast * p_upper, which is
contrast * p* at least. A ratio below 1 says that every infeasible f + v exceeds p*; a factor below
1 is consistent then, but narrows the step at g = 0.

Only a rounded output lowers p_upper: "the weight of any feasible solution is an upper bound on p*"
(supplement A) holds for assignments. The multilinear f of a relaxed output can lie below p*, since
the vertices around it may be infeasible. Without constraints one of them is at least as good, and
relaxed outputs count too. Models with potentials of 0 are never refined: there an output's f may be
that of the floor, which is too low.

Where a bound is missing, alpha_x is NaN: the loss leaves the ratio out and promises nothing.
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
    least: float = 1.0  # smaller ratios count as this

    def __post_init__(self) -> None:
        self._alpha = torch.zeros_like(self.p_upper)
        self.refresh()

    def refresh(self) -> None:
        """alpha_x from its bounds, after p_upper was written from outside."""
        self._alpha.copy_(self._factor(self.p_upper, self.q_lower))

    def _factor(self, p_upper: Tensor, q_lower: Tensor) -> Tensor:
        return self.contrast * (ABOVE * p_upper / q_lower).clamp(min=self.least)

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
