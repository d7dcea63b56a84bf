"""Networks of affine layers with ReLU between them, as arrays.

    F(x) = W_L relu( ... relu(W_1 x + b_1) ... ) + b_L

A network with one output decides class 1 where F > 0 and class 0 elsewhere; one with several
decides the class of the largest. `margins` is what must fall to 0 or below for an answer to be
another one (paper §5.4, the function G).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.errors import ModelError

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ReluNetwork:
    """A ReLU network with layers in float64."""

    weights: tuple[Floats, ...]  # (outputs, inputs) of each layer
    biases: tuple[Floats, ...]  # (outputs,)

    def __post_init__(self) -> None:
        weights, biases = _float64(self.weights), _float64(self.biases)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "biases", biases)
        if not weights or len(weights) != len(biases):
            raise ModelError(f"{len(weights)} weights need as many biases, found {len(biases)}")
        for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            if weight.ndim != 2 or bias.shape != weight.shape[:1]:
                raise ModelError(
                    f"layer {layer}: weights (outputs, inputs) and biases (outputs,) must fit, "
                    f"found {weight.shape} and {bias.shape}"
                )
            if not weight.size:
                raise ModelError(f"layer {layer}: needs inputs and outputs, found {weight.shape}")
            if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
                raise ModelError(f"layer {layer}: weights and biases must be finite")
        for layer, (a, b) in enumerate(pairwise(weights)):
            if b.shape[1] != a.shape[0]:
                raise ModelError(f"layer {layer + 1} reads {b.shape[1]} numbers of {a.shape[0]}")

    @classmethod
    def of(cls, module: nn.Module) -> ReluNetwork:
        """The layers of a torch module made of Flatten, Linear and ReLU; others are refused."""
        from torch import nn

        layers: list[nn.Linear] = []
        closed = True  # by a ReLU, or nothing there yet
        for part in _parts(module):
            if isinstance(part, nn.Linear) and closed:
                layers.append(part)
                closed = False
            elif isinstance(part, nn.ReLU) and not closed:
                closed = True
            elif not isinstance(part, nn.Flatten | nn.Identity | nn.Dropout):
                raise ModelError(
                    "a ReLU network is made of Flatten, Linear and ReLU, with one ReLU between "
                    f"two Linear layers; found {type(part).__name__}"
                )
        if not layers or closed:
            raise ModelError("a ReLU network ends with a Linear layer")
        biases = [np.zeros(p.out_features) if p.bias is None else _array(p.bias) for p in layers]
        return cls(tuple(_array(p.weight) for p in layers), tuple(biases))

    @property
    def inputs(self) -> int:
        """The number of inputs."""
        return int(self.weights[0].shape[1])

    @property
    def outputs(self) -> int:
        """The number of logits."""
        return int(self.weights[-1].shape[0])

    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(2, self.outputs)

    def logits(self, inputs: ArrayLike) -> Floats:
        """F of each row of `inputs` (B, n): (B, outputs)."""
        values: Floats = np.atleast_2d(np.asarray(inputs, dtype=np.float64))
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = np.maximum(values @ weight.T + bias, 0.0)
        return np.asarray(values @ self.weights[-1].T + self.biases[-1])

    def decide(self, inputs: ArrayLike) -> NDArray[np.int64]:
        """The class of each row; ties take the lowest."""
        logits = self.logits(inputs)
        if self.outputs == 1:
            return (logits[:, 0] > 0).astype(np.int64)
        return np.asarray(logits.argmax(axis=1))

    def margins(self, inputs: ArrayLike, classes: NDArray[np.integer]) -> Floats:
        """The margin of each row: <= 0 where another class is at least as likely.

        F_c - max over k != c of F_k; with one output F for class 1 and -F for class 0.
        """
        logits = self.logits(inputs)
        if self.outputs == 1:
            return np.where(np.asarray(classes) == 1, logits[:, 0], -logits[:, 0])
        rows = np.arange(len(logits))
        own = logits[rows, classes]
        logits[rows, classes] = -np.inf
        return np.asarray(own - logits.max(axis=1))


def _parts(module: nn.Module) -> Sequence[nn.Module]:
    """The modules that run, in order."""
    from torch import nn

    if not isinstance(module, nn.Sequential):
        return [module]
    return [part for child in module for part in _parts(child)]


def _array(values: object) -> Floats:
    return np.asarray(values.detach().cpu().numpy(), dtype=np.float64)  # type: ignore[attr-defined]


def _float64(parts: Sequence[ArrayLike]) -> tuple[Floats, ...]:
    return tuple(np.ascontiguousarray(part, dtype=np.float64) for part in parts)
