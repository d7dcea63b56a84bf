"""How a network's last numbers become a relaxed answer.

The numbers are logits of a *code*: coordinates with their own variables. Plainly the code is the
answer itself. Where the answer is to stay close to the evidence (a `Distance` objective), two
other codes help:

    plain       y = sigma(logits): the paper's networks
    residual    y = x + d (1 - x) for d > 0 and x + d x for d < 0, d = tanh of the logit shrunk
                towards 0: nothing moves until it has a reason to
    linear      for flips of a network with one hidden layer: a target class k and the average slope
                s_j in [0, 1] of every hidden unit between x and y. The margin is then the linear
                function

                    F_c(x) - F_k(x) + sum over j of (W_cj - W_kj) s_j (V_j . (y - x)),

                and the nearest y in the box where it falls to minus the margin asked for has a
                closed form: move the inputs of the steepest slopes to their ends, the last in part
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.errors import MethodError
from cmpe.flip import Flip
from cmpe.learning.networks.coordinates import Coordinates
from cmpe.learning.settings import TRAINING

INK, INK_SPREAD = 0.15, 0.1
FLAT_STEP = 1e-6  # a hidden unit that moves less has the slope of where it is


class Plain:
    """The code is the answer: a logit per coordinate."""

    reads_rows = False  # whether `points` reads the evidence
    compares_points = False  # whether `surprise` reads the points

    def __init__(self, coordinates: Coordinates) -> None:
        self.coordinates = coordinates  # of the answer
        self.code = coordinates  # what the logits are of

    def inputs(self, encoded: Tensor) -> Tensor:
        """What the network reads (N, I) of encoded evidence (N, ...)."""
        return encoded

    def points(self, rows: Any, logits: Tensor, margin: Tensor) -> Tensor:
        """The relaxed answers (..., D) of the code's logits (..., C)."""
        return self.coordinates.probabilities(logits)

    def labels(self, evidence: NDArray[Any], answers: NDArray[Any]) -> Floats:
        """The code (..., C) of known answers, the values of the free variables (..., |free|)."""
        return self.coordinates.of(answers)

    def surprise(self, logits: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """- log p of the labels' code under the logits: (...,)."""
        return self.code.cross_entropy(logits, labels)


class Residual(Plain):
    """The answer as a change of the evidence; - log p is Laplace's, the distance itself."""

    reads_rows = compares_points = True

    def __init__(self, coordinates: Coordinates, partners: Tensor) -> None:
        super().__init__(coordinates)
        self._from = partners  # for each coordinate of the answer, one of the evidence

    def points(self, rows: Any, logits: Tensor, margin: Tensor) -> Tensor:
        """x moved towards 1 or 0 by a share of the way."""
        x: Tensor = rows.given[..., self._from]
        shrunk = torch.nn.functional.softshrink(logits, TRAINING.still)
        d = (logits + (shrunk - logits).detach()).tanh()  # its gradient is that of the logit
        return x + torch.where(d > 0, d * (1.0 - x), d * x)

    def surprise(self, logits: Tensor, points: Tensor, labels: Tensor) -> Tensor:
        """sum of |y - y*|."""
        return (points - labels).abs().sum(-1)


class Linear(Plain):
    """A target class and a slope per hidden unit; the answer solves the linear problem."""

    reads_rows = True

    def __init__(
        self, coordinates: Coordinates, flip: Flip, given: NDArray[np.int64], device: torch.device
    ) -> None:
        """`given`: for each input of the network, its coordinate among the observed ones."""
        super().__init__(coordinates)
        network = flip.network
        if len(network.weights) != 2:
            raise MethodError(
                "head linear needs a network with one hidden layer; "
                f"found {len(network.weights) - 1}"
            )
        self._flip, self._device = flip, device
        self._first, self._second = (self._tensor(w) for w in network.weights)  # (H, n), (K, H)
        self._biases = [self._tensor(b) for b in network.biases]
        # inputs of mean INK and variance INK_SPREAD leave about these means and deviations
        self._middle = self._biases[0] + INK * self._first.sum(1)
        self._spread = (INK_SPREAD * self._first.square().sum(1)).sqrt().clamp(min=1e-3)
        self._size = float((0.5 * (self._second * self._spread).square().sum(1)).mean().sqrt())
        self._x = torch.as_tensor(given, device=device)
        self._y = torch.as_tensor(np.argsort(flip.changed), device=device)
        self.hidden, self._classes = int(network.weights[0].shape[0]), network.classes
        cards = [2] * self.hidden
        smooth = [True] * len(cards)
        if network.outputs > 1:
            cards, smooth = [network.outputs, *cards], [False, *smooth]
        self.code = Coordinates(cards, smooth, device=str(device))

    def _tensor(self, values: Floats) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self._device)

    def inputs(self, encoded: Tensor) -> Tensor:
        """The hidden units before their ReLU and the logits: what decides is all in there."""
        x = 0.5 + 0.5 * encoded[..., self._x]
        hidden = x @ self._first.t() + self._biases[0]
        return self.read(hidden, hidden.relu() @ self._second.t() + self._biases[1])

    def read(self, hidden: Tensor, logits: Tensor) -> Tensor:
        """The same from sums that are known; brought to about the same size by the weights."""
        own = torch.nn.functional.one_hot(self._own(logits), self._classes).to(hidden.dtype)
        scaled = (hidden - self._middle) / self._spread
        return torch.cat([scaled, hidden.sign(), logits / self._size, own], -1)

    def _own(self, logits: Tensor) -> Tensor:
        """The class of an image."""
        return logits.argmax(-1) if logits.shape[-1] > 1 else (logits[..., 0] > 0).long()

    def read_sums(self, sums: Tensor) -> Tensor:
        """`read` of hidden units and logits side by side; one output has the logits (0, F)."""
        outputs = self._second.shape[0]
        return self.read(sums[..., : self.hidden], sums[..., -outputs:])

    def linearization(self, own: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Target classes (B, 2) and slopes (B, H): a second target where the first leads by less
        than LEAD, else -1."""
        slopes = self.code.probabilities(logits)[..., -self.hidden :]
        if self._second.shape[0] == 1:
            first = (1 - own).unsqueeze(-1)
            return torch.cat([first, torch.full_like(first, -1)], -1), slopes
        lead, best = self._scores(logits, own).topk(2, dim=-1)
        close = lead[..., :1] - lead[..., 1:] < TRAINING.lead
        return torch.cat([best[..., :1], best[..., 1:].where(close, -1)], -1), slopes

    def points(self, rows: Any, logits: Tensor, margin: Tensor) -> Tensor:
        """The nearest y at which the predicted linear margin is minus `margin`."""
        x: Tensor = rows.given[..., self._x]
        hidden = x @ self._first.t() + self._biases[0]
        outputs = hidden.relu() @ self._second.t() + self._biases[1]
        slopes = self.code.probabilities(logits)[..., -self.hidden :]
        if outputs.shape[-1] == 1:
            sign = torch.where(outputs > 0, 1.0, -1.0)
            value, weight = (sign * outputs).squeeze(-1), sign * self._second[0]
        else:
            own = outputs.argmax(-1)
            target = self._scores(logits, own).argmax(-1)
            both = outputs.gather(-1, torch.stack([own, target], -1))
            value = both[..., 0] - both[..., 1]
            weight = self._second[own] - self._second[target]
        gradient = (weight * slopes) @ self._first
        return nearest(x, gradient, value + margin)[..., self._y]

    def _scores(self, logits: Tensor, own: Tensor) -> Tensor:
        """The logits of all target classes (..., K); the own one cannot be one."""
        count = self._second.shape[0]
        scores = torch.nn.functional.pad(logits[..., : count - 1], (1, 0))
        mask = torch.nn.functional.one_hot(own, count).bool()
        return scores.masked_fill(mask, -torch.inf)

    def labels(self, evidence: NDArray[Any], answers: NDArray[Any]) -> Floats:
        """The class that each known answer has, and the average slopes on the way there."""
        network = self._flip.network
        before = np.asarray(evidence, dtype=np.float64)[..., self._flip.original]
        after = np.asarray(answers, dtype=np.float64)[..., self._flip.changed]
        after = np.where(after < 0.0, before, after)  # no answer: it has no share
        shape = after.shape[:-1]
        before, after = (a.reshape(-1, a.shape[-1]) for a in (before, after))
        a, b = (x @ network.weights[0].T + network.biases[0] for x in (before, after))
        step = b - a
        moved = np.abs(step) > FLAT_STEP
        rise = np.maximum(b, 0.0) - np.maximum(a, 0.0)
        slopes = np.where(moved, rise / np.where(moved, step, 1.0), a > 0.0)
        if network.outputs == 1:
            return self.code.of(slopes).reshape(*shape, -1)
        logits = network.logits(after)
        logits[np.arange(len(logits)), network.decide(before)] = -np.inf
        return self.code.of(np.column_stack([logits.argmax(1), slopes])).reshape(*shape, -1)


def nearest(x: Tensor, gradient: Tensor, need: Tensor) -> Tensor:
    """The y in [0, 1]^n nearest to x (..., n) with gradient . (y - x) <= -need, or the farthest
    way there; `need` is (...,). Inputs move by the size of their slope, the steepest first."""
    room = torch.where(gradient > 0, x, 1.0 - x)
    sizes = gradient.abs()
    few = min(TRAINING.few_moved, sizes.shape[-1])
    if x.device.type == "cpu" and few < sizes.shape[-1]:
        steep, order = sizes.topk(few, dim=-1)
        if bool(((steep * room.gather(-1, order)).sum(-1) >= need).all()):
            return _moved(x, gradient, need, room, (steep, order))
    return _moved(x, gradient, need, room, sizes.sort(dim=-1, descending=True))


def _moved(
    x: Tensor, gradient: Tensor, need: Tensor, room: Tensor, by_size: tuple[Tensor, Tensor]
) -> Tensor:
    """Inputs in the order of their slopes, each as far as it goes, until `need` is met."""
    steep, order = by_size
    gain = steep * room.gather(-1, order)
    before = gain.cumsum(-1) - gain
    share = (need.unsqueeze(-1) - before) / gain.clamp(min=1e-12)
    moved = share.clamp(0.0, 1.0) * room.gather(-1, order)
    step = torch.zeros_like(x).scatter(-1, order, moved)
    return x - gradient.sign() * step
