"""Relaxed points: one distribution per variable, as coordinates.

The coordinates of a variable are the probabilities of its values 1, 2, ...; value 0 has what is
left. A binary variable has one coordinate, a variable of k values k - 1. A continuous variable is
its own coordinate, and is not rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from cmpe.arrays import Assignments
from cmpe.models.neural import Slots


class Coordinates(Slots):
    """Where the coordinates of each of n variables lie among D; `continuous` marks some (n,)."""

    def __init__(
        self,
        cardinalities: Sequence[int],
        continuous: ArrayLike = False,
        *,
        device: str = "cpu",
    ) -> None:
        super().__init__(cardinalities)
        cards = np.asarray(cardinalities, dtype=np.int64)
        self.variables = len(cards)
        self.is_binary = bool((cards == 2).all())
        smooth = np.broadcast_to(np.asarray(continuous, dtype=bool), cards.shape)
        self.is_discrete = not smooth.any()
        self._smooth = torch.as_tensor(smooth.copy(), device=device)
        slots = self.first[:-1, np.newaxis] + np.arange(max(1, int(cards.max(initial=1)) - 1))
        slots = np.where(slots < self.first[1:, np.newaxis], slots, self.count)
        self._owner, self._value, self._slots = (
            torch.as_tensor(a, device=device) for a in (self.owner, self.value, slots)
        )

    def probabilities(self, logits: Tensor) -> Tensor:
        """Logits (..., D), relative to value 0 of each variable, as coordinates."""
        if self.is_binary:
            return torch.sigmoid(logits)
        return torch.exp(logits - self._log_norm(logits)[..., self._owner])

    def round(self, points: Tensor) -> Tensor:
        """The coordinates of the most probable value of each variable; a tie takes the lower."""
        if self.is_binary:
            whole = (points > 0.5).to(points.dtype)
        else:
            whole = (self.most_probable(points)[..., self._owner] == self._value).to(points.dtype)
        return whole if self.is_discrete else torch.where(self._smooth[self._owner], points, whole)

    def assignments(self, points: Tensor) -> Assignments:
        """The most probable value of each variable (..., n), or its number in [0, 1]."""
        values = self.most_probable(points)
        if self.is_discrete:
            return values.cpu().numpy().astype(np.int32)
        firsts = torch.as_tensor(np.minimum(self.first[:-1], self.count - 1), device=points.device)
        mixed = torch.where(self._smooth, points[..., firsts].double(), values.double())
        return mixed.cpu().numpy()

    def most_probable(self, points: Tensor) -> Tensor:
        """The same as a tensor of whole numbers."""
        if self.is_binary:
            return (points > 0.5).to(torch.int32)
        spread = self._spread(points, -1.0)
        first = 1.0 - spread.clamp(min=0.0).sum(-1, keepdim=True)
        return torch.cat([first, spread], -1).argmax(-1).to(torch.int32)

    def of(self, values: ArrayLike) -> NDArray[Any]:
        """The coordinates (..., D) of the variables' values (..., n), in float32."""
        return np.asarray(super().of(values), dtype=np.float32)

    def entropy(self, logits: Tensor) -> Tensor:
        """The sum over discrete variables of the entropy of their distributions: (...,)."""
        if self.is_discrete:
            return self.cross_entropy(logits, self.probabilities(logits))
        plain = torch.where(self._smooth[self._owner], -torch.inf, logits)  # continuous: value 0
        return self.cross_entropy(plain.clamp(min=-1e4), self.probabilities(plain))

    def cross_entropy(self, logits: Tensor, targets: Tensor) -> Tensor:
        """- the sum over variables of the mean log-probability under `targets` (..., D): (...,)."""
        if self.is_binary:
            return (torch.nn.functional.softplus(logits) - targets * logits).sum(-1)
        return self._log_norm(logits).sum(-1) - (targets * logits).sum(-1)

    def _log_norm(self, logits: Tensor) -> Tensor:
        """log of the sum over a variable's values of e^logit: (..., n)."""
        spread = self._spread(logits, -torch.inf)
        return torch.logsumexp(torch.cat([torch.zeros_like(spread[..., :1]), spread], -1), -1)

    def _spread(self, numbers: Tensor, padding: float) -> Tensor:
        """The coordinates by variable: (..., n, most)."""
        last = numbers.new_full((*numbers.shape[:-1], 1), padding)
        return torch.cat([numbers, last], -1)[..., self._slots]


class Observed(NamedTuple):
    """What evidence rows are to a relaxation without conditioning: the observed coordinates."""

    constant: Tensor  # (N, F): added to the values, 0 at first
    given: Tensor  # (N, O)

    def take(self, rows: Tensor) -> Observed:
        """Those of `rows`, of any shape."""
        return Observed(*(part[rows] for part in self))

    def after(self, points: Tensor) -> Tensor:
        """Free coordinates `points` (..., D), then the observed ones: (..., D + O)."""
        shape = (*points.shape[:-1], self.given.shape[-1])
        return torch.cat([points, self.given.expand(shape)], -1)
