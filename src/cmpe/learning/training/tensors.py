"""Training data on its device: what every step of every member reads and none writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.learning.losses.functions import relaxation_of
from cmpe.learning.losses.relaxation import Coefficients, RelaxedProblem
from cmpe.learning.networks.modules import inputs_of
from cmpe.learning.networks.networks import with_margin_input
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.data import TrainingData


class Tensors:
    """Rows, labels and limits as tensors, with f and g built into the constants.

    An example is row * K + margin. The constants of the rows' coefficients hold -C and -q, so
    that the relaxation's values are -f and g. Row N stands for no row: it fills up batches.
    """

    def __init__(
        self,
        data: TrainingData,
        config: TrainingConfig,
        device: torch.device,
        relaxation: RelaxedProblem | None = None,
    ) -> None:
        self.data, self.config, self.device = data, config, device
        problem = data.problem
        self.relaxation = relaxation or relaxation_of(
            problem, floor=config.floor, device=str(device), head=config.head
        )
        evidence = _with_last(data.evidence)
        self.encoded = inputs_of(problem, evidence, config, data.reads).to(device)  # (N + 1, I)
        self.limits, self.tolerances = map(self.floats, (problem.limits, problem.tolerances))
        given = self.relaxation.rows(evidence)
        moved = self.floats(np.concatenate([[problem.shift], problem.limits]))
        self.rows = given._replace(constant=given.constant - moved)
        self.scale = self._field_scale()
        self.targets = self._targets()
        self.margins, self.multipliers, self.p_upper, self.q_lower = (
            self.floats(_with_last(a).reshape(len(evidence) * a.shape[1], *a.shape[2:]))
            for a in (data.margins, data.multipliers, data.p_upper, data.q_lower)
        )

    def rewrite(self, first: int, part: TrainingData) -> None:
        """Put other rows in the place of those from `first` on; every tensor stays where it is."""
        other = Tensors(part, self.config, self.device, self.relaxation)
        count, examples = len(part), part.margins.size
        at = first * part.margins.shape[1]
        self.encoded[first : first + count] = other.encoded[:count]
        for mine, theirs in zip(self.rows, other.rows, strict=True):
            mine[first : first + count] = theirs[:count]
        for name in ("targets", "margins", "multipliers", "p_upper", "q_lower"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if len(mine):
                mine[at : at + examples] = theirs[:examples]
        for name in ("evidence", "margins", "usable", "labels", "reference"):
            getattr(self.data, name)[first : first + count] = getattr(part, name)

    def floats(self, values: object) -> Tensor:
        """float32 on the device."""
        return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=self.device)

    def _field_scale(self) -> float:
        """The mean size of h's gradient at the uniform point: the unit of temperatures."""
        some = self.rows.take(
            torch.arange(min(TRAINING.scale_rows, len(self.encoded)), device=self.device)
        )
        count = self.relaxation.coordinates.count
        logits = torch.zeros((len(some.constant), count), device=self.device)
        points = self.relaxation.coordinates.probabilities(logits).requires_grad_()
        if not points.numel():
            return 1.0
        with torch.enable_grad():  # a resumed run loads its state without gradients
            h = self.relaxation.values(some, points)[:, 0].sum()
        (slopes,) = torch.autograd.grad(h, points)
        return float(slopes.abs().mean())

    def _targets(self) -> Tensor:
        """What labels say (N K, D): bytes where it is whole, else float32.

        An example without a label has no share.
        """
        data = self.data
        if not self.config.kind.labels:
            return torch.zeros((0, 0), dtype=torch.uint8, device=self.device)
        labels = _with_last(data.labels)[..., list(self.relaxation.free)]
        wanted = self.relaxation.coordinates.of(labels)
        kind = np.uint8 if data.problem.has_tables else np.float32
        flat = wanted.reshape(labels.shape[0] * labels.shape[1], -1).astype(kind)
        return torch.as_tensor(flat).to(self.device)

    def question(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        """The row and the margin of each example (M, B)."""
        return examples // self.data.margins.shape[1], self.margins[examples]

    def read(self, rows: Tensor, margin: Tensor) -> tuple[Tensor, Coefficients]:
        """What the network reads of `rows` (M, B), and their coefficients."""
        return with_margin_input(self.encoded[rows], margin, self.config), self.rows.take(rows)

    def minimisation(
        self, rows: Coefficients, points: Tensor, margin: Tensor
    ) -> tuple[Tensor, Tensor]:
        """f (M, B) and g (M, B, m) = t - (q - margin) at relaxed points."""
        first, *others = self.relaxation.values(rows, points).unbind(-1)
        if len(others) == 1:
            g = others[0].unsqueeze(-1)
        else:
            g = torch.stack(others, -1) if others else first.new_zeros((*first.shape, 0))
        if len(self.config.margins) > 1:
            g = g + margin.unsqueeze(-1)
        return -first, g


def _with_last(rows: NDArray[Any]) -> NDArray[Any]:
    """One more row, which is read but never counts."""
    return np.concatenate([rows, rows[:1]])
