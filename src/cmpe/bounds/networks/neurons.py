"""Bounds on the neurons of a ReLU network, and on its margin, near an input.

An input x may move to x' = x + p - m with 0 <= p <= 1 - x, 0 <= m <= x and sum(p + m) <= r: the
box [0, 1]^n within the L1 ball of radius r. Written with one column t = (p, m) of *moves*, that
set is a capped simplex, and 0 is a corner of it. Three facts do all the work:

1. the largest rise of a linear function, max b t, is a fractional knapsack: fill the moves in the
   order of their slopes, each up to its cap, until r is used up;
2. ReLU is convex, so over the simplex it lies below the line through its values at the corners 0
   and r e_i:   relu(a + b t) <= relu(a) + sum_i (relu(a + r b_i) - relu(a)) / r * t_i,
   which is exact at the input itself, where the chord between two bounds is not;
3. relu(z) >= 0 and relu(z) >= z; the one that is exact at the input is taken.

Passed through the layers they give every neuron two affine bounds that agree at the input (1 is
exact in the first layer), and the margin a lower one: G(x') >= G(x) - sum_i c_i t_i. All functions
take batches; everything is a matrix product, an elementwise maximum or a sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.bounds.settings import SETTINGS
from cmpe.models.relu import ReluNetwork

Signs = NDArray[np.int8]
Indices = NDArray[np.intp]

ROOM = 1e-6  # A share of a bound's size, well above the tolerances of back-ends.
ROUNDING = 1e-11  # A share of the numbers' size: what float64 sums may have lost.


@dataclass(frozen=True)
class Moves:
    """The moves of a batch of inputs, as the first layer's pre-activations: values + slopes t."""

    values: Floats  # (B, H), pre-activations of the first layer where t = 0
    slopes: Floats  # (H, M), their change per unit of each move
    caps: Floats  # (B, M): 0 <= t <= caps
    radius: Floats  # (B,): sum t <= radius

    @classmethod
    def around(cls, network: ReluNetwork, images: Floats, radius: Floats | float) -> Moves:
        """All 2n moves of images (B, n): first every pixel up, then every pixel down."""
        weight = network.weights[0]
        return cls(
            images @ weight.T + network.biases[0],
            np.hstack([weight, -weight]),
            np.hstack([1.0 - images, images]),
            np.broadcast_to(np.asarray(radius, dtype=np.float64), len(images)),
        )


@dataclass(frozen=True)
class LayerBounds:
    """Affine functions of t: value + under t <= z(t) <= value + over t, and low <= z <= high."""

    value: Floats  # (B, H), exact at t = 0
    under: Floats  # (B or 1, H, M)
    over: Floats  # (B or 1, H, M)
    low: Floats  # (B, H)
    high: Floats  # (B, H)

    @property
    def unstable(self) -> NDArray[np.bool_]:
        """Neurons that can be on either side of 0."""
        return np.asarray((self.low < 0) & (self.high > 0))


def largest_rise(slopes: Floats, caps: Floats, radius: Floats) -> Floats:
    """max of slopes @ t over 0 <= t <= caps, sum t <= radius: (B or 1, H, M) -> (B, H)."""

    def fill(rows: Indices | slice, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        best, room = _leading(slopes, caps, rows, count)
        best = np.maximum(best, 0.0)
        total = np.cumsum(room, axis=-1)
        left = radius[rows, np.newaxis, np.newaxis] - (total - room)
        rise = (best * np.clip(left, 0.0, room)).sum(axis=-1)
        return rise, (best[..., -1] <= 0) | (left[..., -1] <= room[..., -1])

    return _filled(fill, slopes.shape[-1])


def least_cost(slopes: Floats, caps: Floats, needed: Floats) -> Floats:
    """min of sum t where slopes @ t >= needed: (B, K); what cannot be reached costs inf."""

    def fill(rows: Indices | slice, count: int) -> tuple[Floats, NDArray[np.bool_]]:
        best, room = _leading(slopes, caps, rows, count)
        useful = best > 0.0
        room, best = np.where(useful, room, 0.0), np.where(useful, best, 1.0)
        gain = np.cumsum(best * room, axis=-1)
        missing = np.maximum(needed[rows, :, np.newaxis] - (gain - best * room), 0.0)
        cost = np.minimum(room, missing / best).sum(axis=-1)
        short = needed[rows] > gain[..., -1]
        return np.where(short, np.inf, cost), ~short | ~useful[..., -1]

    return _filled(fill, slopes.shape[-1])


def _leading(
    slopes: Floats, caps: Floats, rows: Indices | slice, count: int
) -> tuple[Floats, Floats]:
    """The `count` largest slopes in falling order, and their caps."""
    own = slopes[rows] if len(slopes) > 1 else slopes
    order = np.argpartition(-own, count - 1, axis=-1)[..., :count]
    best = np.take_along_axis(own, order, axis=-1)
    rank = np.argsort(-best, axis=-1, kind="stable")
    order, best = np.take_along_axis(order, rank, axis=-1), np.take_along_axis(best, rank, axis=-1)
    return best, np.take_along_axis(caps[rows, np.newaxis, :], order, axis=-1)


def _filled(fill: Callable[..., tuple[Floats, NDArray[np.bool_]]], count: int) -> Floats:
    """A knapsack with the leading moves, and with all where those leave it open."""
    filled, enough = fill(slice(None), min(count, SETTINGS.leading))
    open_rows = np.flatnonzero(~enough.all(axis=-1))
    if len(open_rows) and count > SETTINGS.leading:
        filled[open_rows] = fill(open_rows, count)[0]
    return filled


def first_layer(moves: Moves) -> LayerBounds:
    """The first layer's pre-activations, whose bounds are exact."""
    slopes = moves.slopes[np.newaxis]
    low = moves.values - largest_rise(-slopes, moves.caps, moves.radius)
    high = moves.values + largest_rise(slopes, moves.caps, moves.radius)
    return LayerBounds(moves.values, slopes, slopes, *_loosened(low, high))


def relu_bounds(layer: LayerBounds, radius: Floats) -> LayerBounds:
    """max(0, z): facts 2 and 3 where a neuron is unstable, exact where it is not."""
    on, off = layer.low >= 0, layer.high <= 0
    value = np.where(on, layer.value, np.where(off, 0.0, np.maximum(layer.value, 0.0)))
    reach = np.maximum(radius, 1e-12)[:, np.newaxis, np.newaxis]
    corner = np.maximum(layer.value[..., np.newaxis] + reach * layer.over, 0.0)
    over = (corner - value[..., np.newaxis]) / reach
    above = on | (~off & (layer.value > 0))
    on, off, above = (which[..., np.newaxis] for which in (on, off, above))
    over = np.where(on, layer.over, np.where(off, 0.0, over))
    under = np.where(above, layer.under, 0.0)
    return LayerBounds(value, under, over, np.maximum(layer.low, 0.0), np.maximum(layer.high, 0.0))


def affine_bounds(weight: Floats, bias: Floats, inside: LayerBounds, moves: Moves) -> LayerBounds:
    """weight @ a + bias of activations a; weight (H, h) for all inputs or (B, H, h) for each."""
    rise, fall = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
    value = (weight @ inside.value[..., np.newaxis])[..., 0] + bias
    over = rise @ inside.over + fall @ inside.under
    under = rise @ inside.under + fall @ inside.over
    low = np.maximum(
        value - largest_rise(-under, moves.caps, moves.radius),
        _apply(rise, inside.low) + _apply(fall, inside.high) + bias,
    )
    high = np.minimum(
        value + largest_rise(over, moves.caps, moves.radius),
        _apply(rise, inside.high) + _apply(fall, inside.low) + bias,
    )
    return LayerBounds(value, under, over, *_loosened(low, high))


def hidden_layers(
    network: ReluNetwork, moves: Moves, forced: Sequence[Signs] | None = None
) -> list[LayerBounds]:
    """The pre-activations of every hidden layer, first to last.

    `forced` has an array (H,) for each: 1 where only inputs with z >= 0 count, -1 for z <= 0.
    """
    layers: list[LayerBounds] = []
    for depth in range(len(network.weights) - 1):
        if depth == 0:
            layer = first_layer(moves)
        else:
            inside = relu_bounds(layers[-1], moves.radius)
            layer = affine_bounds(network.weights[depth], network.biases[depth], inside, moves)
        layers.append(layer if forced is None else _held(layer, forced[depth]))
    return layers


def _held(layer: LayerBounds, signs: Signs) -> LayerBounds:
    low = np.where(signs > 0, np.maximum(layer.low, 0.0), layer.low)
    high = np.where(signs < 0, np.minimum(layer.high, 0.0), layer.high)
    return replace(layer, low=low, high=high)


def contrasts(network: ReluNetwork, classes: NDArray[np.integer]) -> Floats:
    """The rows that make F_c - F_k of the logits, for every other class k: (B, K, outputs)."""
    if network.outputs == 1:
        return np.where(np.asarray(classes) == 1, 1.0, -1.0)[:, np.newaxis, np.newaxis]
    one = np.eye(network.outputs)
    others = [[k for k in range(network.outputs) if k != c] for c in classes]
    return np.asarray(one[classes][:, np.newaxis] - one[np.array(others)])


def margin_bounds(network: ReluNetwork, moves: Moves, classes: NDArray[np.integer]) -> LayerBounds:
    """F_c - F_k for every other class k, bounded over the moves."""
    rows = contrasts(network, classes)
    if len(network.weights) == 1:
        return affine_bounds(rows, np.zeros(rows.shape[:2]), first_layer(moves), moves)
    last = relu_bounds(hidden_layers(network, moves)[-1], moves.radius)
    return affine_bounds(rows @ network.weights[-1], rows @ network.biases[-1], last, moves)


def _apply(weight: Floats, values: Floats) -> Floats:
    return np.asarray((weight @ values[..., np.newaxis])[..., 0])


def _loosened(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    size = ROUNDING * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    return low - size, high + size


def loosened(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds that no point comes near: back-ends lose points at bounds that are barely wide enough.

    They only switch rows off, so the program stays exact.
    """
    room = ROOM * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    return low - room, high + room
