"""The list of losses: their properties besides the formulas.

Training, the command line, the reports and the adversarial study read it. A new loss is a function
in `losses` and a row here. This module needs no torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cmpe.errors import MethodError


class Family(StrEnum):
    """What a loss learns from."""

    supervised = "supervised"
    self_supervised = "self-supervised"
    consistent = "consistent"  # the paper's own: minimal at the constrained optimum
    distilled = "distilled"  # not in the paper: cross-entropy to answers


@dataclass(frozen=True)
class LossKind:
    """A loss by name, and what training must keep for it."""

    name: str
    label: str  # what a reader sees
    family: Family
    alpha: bool = False  # bounds of p* and q*
    penalty: bool = False  # a multiplier lambda_x per example
    dual: bool = False  # a second network that predicts multipliers

    @property
    def labels(self) -> bool:
        """Whether every training row needs a known answer."""
        return self.family in (Family.supervised, Family.distilled)

    @property
    def in_paper(self) -> bool:
        """Whether it is one of Arya, Rahman and Gogate (2024)."""
        return self.family is not Family.distilled


LOSS_KINDS: Mapping[str, LossKind] = {
    kind.name: kind
    for kind in (
        LossKind("mse", "MSE", Family.supervised),
        LossKind("mae", "MAE", Family.supervised),
        LossKind("mse_pen", "MSE + penalty", Family.supervised, penalty=True),
        LossKind("mae_pen", "MAE + penalty", Family.supervised, penalty=True),
        LossKind("ssl_pen", "SSL + penalty", Family.self_supervised, penalty=True),
        LossKind("pdl", "PDL", Family.self_supervised, penalty=True, dual=True),
        LossKind("ss_cmpe", "SS-CMPE", Family.consistent, alpha=True),
        LossKind("ss_cmpe_pen", "SS-CMPE + penalty", Family.consistent, alpha=True),
        LossKind("distill", "distilled", Family.distilled),
    )
}
PAPER_LOSSES = tuple(name for name, kind in LOSS_KINDS.items() if kind.in_paper)


def loss_kind(name: str) -> LossKind:
    """The loss called `name`."""
    if name not in LOSS_KINDS:
        raise MethodError(f"a loss is one of {', '.join(LOSS_KINDS)}; found {name!r}")
    return LOSS_KINDS[name]


def losses_of(family: Family) -> tuple[str, ...]:
    """The names of one family."""
    return tuple(name for name, kind in LOSS_KINDS.items() if kind.family is family)
