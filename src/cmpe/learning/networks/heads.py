"""From a network's logits to a relaxed answer.

The numbers are logits of the answer's coordinates. Where the answer is to stay close to the
evidence (a `Distance` objective), they are better read as changes of it:

    plain       y = sigma(logits): the paper's networks
    residual    y = x + d (1 - x) for d > 0 and x + d x for d < 0, d = tanh of the logit shrunk
                towards 0: nothing moves until it has a reason to
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from cmpe.learning.networks.coordinates import Coordinates
from cmpe.learning.settings import TRAINING


class Plain:
    """A logit per coordinate of the answer."""

    reads_rows = False  # whether `points` reads the evidence
    compares_points = False  # whether `surprise` reads the points

    def __init__(self, coordinates: Coordinates) -> None:
        self.coordinates = coordinates

    def points(self, rows: Any, logits: Tensor) -> Tensor:
        """The relaxed answers (..., D) of the logits (..., D)."""
        return self.coordinates.probabilities(logits)

    def surprise(self, logits: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """- log p of the labels under the logits: (...,)."""
        return self.coordinates.cross_entropy(logits, labels)


class Residual(Plain):
    """The answer as a change of the evidence; - log p is Laplace's, the distance itself."""

    reads_rows = compares_points = True

    def __init__(self, coordinates: Coordinates, partners: Tensor) -> None:
        super().__init__(coordinates)
        self._from = partners  # for each coordinate of the answer, one of the evidence

    def points(self, rows: Any, logits: Tensor) -> Tensor:
        """x moved towards 1 or 0 by a share of the way."""
        x: Tensor = rows.given[..., self._from]
        shrunk = torch.nn.functional.softshrink(logits, TRAINING.still)
        d = (logits + (shrunk - logits).detach()).tanh()  # its gradient is that of the logit
        return x + torch.where(d > 0, d * (1.0 - x), d * x)

    def surprise(self, logits: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """sum of |y - y*|."""
        return (points - labels).abs().sum(-1)
