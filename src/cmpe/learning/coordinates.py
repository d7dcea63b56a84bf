"""Relaxed points: one distribution per variable, as coordinates.

The coordinates of a variable are the probabilities of its values 1, 2, ...; value 0 has what is
left. A binary variable has one coordinate, a variable of k values k - 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor


class Coordinates:
    """Where the coordinates of each of n variables lie among D."""

    def __init__(self, cardinalities: Sequence[int], *, device: str = "cpu") -> None:
        cards = np.asarray(cardinalities, dtype=np.int64)
        self.sizes = sizes = np.maximum(cards - 1, 0)  # (n,)
        self.first = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)  # (n + 1,)
        self.count = int(self.first[-1])
        self.variables = len(cards)
        self.is_binary = bool((cards == 2).all())
        self.owner = np.repeat(np.arange(len(cards)), sizes)  # (D,)
        self.value = np.arange(self.count) - self.first[self.owner] + 1  # (D,)
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
            return (points > 0.5).to(points.dtype)
        return (self.most_probable(points)[..., self._owner] == self._value).to(points.dtype)

    def assignments(self, points: Tensor) -> NDArray[np.int32]:
        """The most probable value of each variable: (..., n)."""
        return self.most_probable(points).cpu().numpy().astype(np.int32)

    def most_probable(self, points: Tensor) -> Tensor:
        """The same as a tensor of whole numbers."""
        if self.is_binary:
            return (points > 0.5).to(torch.int32)
        spread = self._spread(points, -1.0)
        first = 1.0 - spread.clamp(min=0.0).sum(-1, keepdim=True)
        return torch.cat([first, spread], -1).argmax(-1).to(torch.int32)

    def of(self, values: ArrayLike) -> NDArray[np.float32]:
        """The coordinates (..., D) of the variables' values (..., n)."""
        chosen = np.asarray(values)[..., self.owner]
        return np.asarray(chosen == self.value, dtype=np.float32)

    def entropy(self, logits: Tensor) -> Tensor:
        """The sum over variables of the entropy of their distributions: (...,)."""
        return self.cross_entropy(logits, self.probabilities(logits))

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
