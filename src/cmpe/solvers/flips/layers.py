"""A ReLU network as the attack's compiled loops read it, and its linearisations.

Between two inputs x and x' every hidden unit has an average slope s = (relu(a') - relu(a)) /
(a' - a) in [0, 1]. With these slopes the network is affine from x to x', exactly:

    (F_c - F_t)(x') - (F_c - F_t)(x) = (w_c - w_t) S_L W_L ... S_1 W_1 (x' - x),  S = diag(s).

With slopes 0 and 1 of the units that are active at one point it is the gradient there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.models.relu import ReluNetwork

Single = NDArray[np.float32]
Classes = NDArray[np.int64]


@dataclass(frozen=True)
class Layers:
    """A network of at least two logits: F alone is (0, F)."""

    network: ReluNetwork
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    single: tuple[Single, ...]  # the weights in float32: slopes need no more
    first: Floats  # (n, H_1): the first layer by input
    deep: Floats  # later layers: weights, then biases, end to end
    sizes: NDArray[np.int64]  # widths after the input
    metric: Single  # W_1 W_1^T: norms of gradients without the gradients

    @classmethod
    def of(cls, network: ReluNetwork) -> Layers:
        """Lay out a network; one output becomes two."""
        weights, biases = list(network.weights), list(network.biases)
        if network.outputs == 1:
            weights[-1] = np.vstack([np.zeros_like(weights[-1]), weights[-1]])
            biases[-1] = np.concatenate([[0.0], biases[-1]])
        flat = [np.zeros(0)]
        for weight, bias in zip(weights[1:], biases[1:], strict=True):
            flat += [weight.ravel(), bias]
        single = tuple(weight.astype(np.float32) for weight in weights)
        return cls(
            network=network,
            weights=tuple(weights),
            biases=tuple(biases),
            single=single,
            first=np.ascontiguousarray(weights[0].T),
            deep=np.concatenate(flat),
            sizes=np.array([len(bias) for bias in biases], dtype=np.int64),
            metric=single[0] @ single[0].T,
        )

    @property
    def hidden(self) -> int:
        """How many hidden units there are in all layers."""
        return int(self.sizes[:-1].sum())

    @property
    def classes(self) -> int:
        """How many logits, at least two."""
        return int(self.sizes[-1])

    def sums(self, images: Floats) -> Floats:
        """What every unit of every layer adds up to, logits last: (B, hidden + classes)."""
        parts, values = [], images
        for weight, bias in zip(self.weights, self.biases, strict=True):
            parts.append(values @ weight.T + bias)
            values = np.maximum(parts[-1], 0.0)
        return np.concatenate(parts, axis=1)

    def decide(self, sums: Floats) -> Classes:
        """The class with the largest logit; ties take the lowest."""
        return np.asarray(sums[:, self.hidden :].argmax(axis=1))

    def rivals(self, sums: Floats, own: Classes) -> Classes:
        """The class with the largest logit but for `own`."""
        logits = sums[:, self.hidden :].copy()
        logits[np.arange(len(own)), own] = -np.inf
        return np.asarray(logits.argmax(axis=1))

    def margins(self, sums: Floats, own: Classes) -> Floats:
        """F_own - the largest other logit, from the sums of all layers."""
        logits, rows = sums[:, self.hidden :], np.arange(len(own))
        return np.asarray(logits[rows, own] - logits[rows, self.rivals(sums, own)])

    def guess(self, sums: Floats, sharpness: float) -> Single:
        """Slopes before anything is known: a sigmoid of each unit's sum, in units of its row."""
        hidden = sums[:, : self.hidden].astype(np.float32)
        size = np.sqrt(np.square(hidden).sum(axis=1, keepdims=True) / max(self.hidden, 1))
        scaled = np.clip(sharpness * hidden / np.maximum(size, 1e-30), -30.0, 30.0)
        return np.asarray(1.0 / (1.0 + np.exp(-scaled)), dtype=np.float32)

    def back(self, own: Classes, target: Classes, slopes: Single) -> Single:
        """The slopes of F_own - F_target by the first layer's sums: (P, H_1)."""
        ends = np.cumsum(self.sizes[:-1])
        if not len(ends):
            one = np.eye(self.classes, dtype=np.float32)
            return np.asarray(one[own] - one[target])
        value = self.single[-1][own] - self.single[-1][target]
        for layer in range(len(ends) - 1, 0, -1):
            value = (value * slopes[:, ends[layer - 1] : ends[layer]]) @ self.single[layer]
        return np.asarray(value * slopes[:, : ends[0]])

    def nearest(self, sums: Floats, own: Classes, slopes: Single, count: int) -> Classes:
        """The `count` classes with the smallest (F_own - F_k) / |slopes by input|: (B, count)."""
        rows, others = np.divmod(np.arange(len(own) * self.classes), self.classes)
        value = self.back(own[rows], others, slopes[rows])
        norms = np.sqrt(np.maximum(np.einsum("ph,ph->p", value @ self.metric, value), 1e-30))
        logits = sums[:, self.hidden :]
        gaps = logits[np.arange(len(own)), own][:, None] - logits
        ratio = gaps / norms.reshape(len(own), self.classes)
        ratio[np.arange(len(own)), own] = np.inf
        return np.asarray(np.argsort(ratio, axis=1)[:, :count], dtype=np.int64)
