"""Bounds of neural functions over boxes: linear relaxations of each layer, from the output back.

A layer's numbers lie between two affine functions of the inputs. A ReLU between l < 0 < u lies
below u (z - l) / (u - l) and above 0 or z, whichever is nearer (CROWN, Zhang et al. 2018); other
monotone activations lie between their values at l and u. The affine functions are passed back to
the inputs layer by layer, and their extremes there are exact: a variable of k values takes one of
them.

`Chain.of` reads torch modules of Linear, Flatten, Identity, Dropout, ReLU, Tanh, Sigmoid, Softplus
and Sequential.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Indices
from cmpe.errors import ModelError

if TYPE_CHECKING:
    from torch import nn

ROWS = 128  # that are bounded together
ROUNDING = 1e-9  # a share of the numbers' size: what float64 sums may have lost


class Box(NamedTuple):
    """Inputs of B rows: known ones, and free ones from 0 to 1, at most one of each variable."""

    known: Floats  # (B, D); 0 where free
    free: Indices  # the free coordinates, those of a variable side by side
    firsts: Indices  # where each free variable begins among them


@dataclass(frozen=True)
class Weighted:
    """weight x + bias."""

    weight: Floats  # (outputs, inputs)
    bias: Floats


@dataclass(frozen=True)
class Monotone:
    """An activation that never falls; `is_relu` has lines of its own."""

    function: Callable[[Floats], Floats]
    is_relu: bool = False


@dataclass(frozen=True)
class Chain:
    """Affine layers and activations, one after the other, to one number."""

    layers: tuple[Weighted | Monotone, ...]

    @classmethod
    def of(cls, module: nn.Module) -> Chain:
        """The layers of a torch module; others are refused."""
        return cls(tuple(_layers(module)))

    def span(self, box: Box) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the output of each row: (B,), (B,)."""
        parts = [
            self._span(box._replace(known=box.known[a : a + ROWS]))
            for a in range(0, len(box.known), ROWS)
        ]
        none = np.zeros(0)
        low, high = zip(*parts, strict=True) if parts else ((none,), (none,))
        return np.concatenate(low), np.concatenate(high)

    def _span(self, box: Box) -> tuple[Floats, Floats]:
        lines: list[_Relaxed] = []
        for k, layer in enumerate(self.layers):
            if isinstance(layer, Monotone):
                before = self._reached(box, lines, k)
                lines.append(_lines(layer, *before))
        low, high = self._reached(box, lines, len(self.layers))
        room = ROUNDING * (1.0 + np.maximum(np.abs(low), np.abs(high)))
        return (low - room)[:, 0], (high + room)[:, 0]

    def _reached(self, box: Box, lines: Sequence[_Relaxed], depth: int) -> tuple[Floats, Floats]:
        """Bounds of every number before layer `depth`: (B, H), (B, H)."""
        high = self._highest(box, lines, depth, 1.0)
        return -self._highest(box, lines, depth, -1.0), high

    def _highest(self, box: Box, lines: Sequence[_Relaxed], depth: int, sign: float) -> Floats:
        """The highest that sign * the numbers before layer `depth` can be."""
        slopes: Floats | None = None  # (1 or B, H, inputs of the layer)
        total: Floats = np.zeros((1, 1))
        activation = len(lines)
        for layer in reversed(self.layers[:depth]):
            if isinstance(layer, Weighted):
                weight = (
                    sign * layer.weight[np.newaxis] if slopes is None else slopes @ layer.weight
                )
                bias = sign * layer.bias if slopes is None else slopes @ layer.bias
                slopes, total = weight, total + bias
                continue
            activation -= 1
            line = lines[activation]
            if slopes is None:
                slopes = sign * np.eye(line.over.shape[1])[np.newaxis]
            up, down = np.maximum(slopes, 0.0), np.minimum(slopes, 0.0)
            total = total + (up @ line.above[..., np.newaxis])[..., 0]
            total = total + (down @ line.below[..., np.newaxis])[..., 0]
            slopes = up * line.over[:, np.newaxis] + down * line.under[:, np.newaxis]
        if slopes is None:
            slopes = sign * np.eye(box.known.shape[1])[np.newaxis]
        total = total + (slopes @ box.known[..., np.newaxis])[..., 0]
        if len(box.free):
            best = np.maximum.reduceat(slopes[..., box.free], box.firsts, axis=-1)
            total = total + np.maximum(best, 0.0).sum(axis=-1)
        return total


class _Relaxed(NamedTuple):
    """under z + below <= activation(z) <= over z + above for the z that can be: (B, H) each."""

    under: Floats
    below: Floats
    over: Floats
    above: Floats


def _lines(layer: Monotone, low: Floats, high: Floats) -> _Relaxed:
    if not layer.is_relu:
        flat = np.zeros_like(low)
        return _Relaxed(flat, layer.function(low), flat, layer.function(high))
    open_ = (low < 0.0) & (high > 0.0)
    rise = np.where(open_, high / np.where(open_, high - low, 1.0), (low >= 0.0).astype(float))
    under = np.where(open_, (high > -low).astype(float), rise)
    return _Relaxed(under, np.zeros_like(low), rise, np.where(open_, -low * rise, 0.0))


def _layers(module: nn.Module) -> list[Weighted | Monotone]:
    import torch
    from torch import nn

    if isinstance(module, nn.Sequential):
        return [layer for part in module for layer in _layers(part)]
    if isinstance(module, nn.Linear):
        weight = module.weight.detach().cpu().double().numpy()
        known = dict(module.named_parameters())
        bias = known["bias"].detach().cpu().double().numpy() if "bias" in known else None
        return [Weighted(weight, np.zeros(len(weight)) if bias is None else bias)]
    if isinstance(module, nn.Flatten | nn.Identity | nn.Dropout):
        return []
    if isinstance(module, nn.ReLU):
        return [Monotone(lambda z: np.maximum(z, 0.0), is_relu=True)]
    if isinstance(module, nn.Tanh | nn.Sigmoid | nn.Softplus):
        function: Callable[[Floats], Floats] = lambda z: module(torch.as_tensor(z)).numpy()  # noqa: E731
        return [Monotone(function)]
    raise ModelError(f"there is no bound for a layer {type(module).__name__}")
