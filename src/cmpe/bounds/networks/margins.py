"""How far an input is from leaving its class: proved lower bounds for whole batches.

Within radius r of x the margin against class k is at least G_k - sum_i c_i t_i (`neurons`), so

- no flip lies within r where that stays above 0 for every k;
- a flip needs min sum t subject to c t >= G_k, a fractional knapsack, or more than r;
- sum |x - x'| + margin(x'), where the margin is above 0, is at least the same knapsack with a
  price of 1 for every unit of margin that is left, or more than r.

Each radius gives a bound min(r, knapsack at r). The second shrinks as r grows, so the best radius
is where they meet; a few bisections come close to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.bounds.networks.neurons import ROUNDING, Moves, least_cost, margin_bounds
from cmpe.models.relu import ReluNetwork

BLOCK = 2_000_000  # slopes held at a time
STEPS = 6  # radii that are tried


def margin_lower_bound(
    network: ReluNetwork, images: ArrayLike, radius: ArrayLike, classes: ArrayLike | None = None
) -> Floats:
    """A lower bound of the margin over [0, 1]^n within L1 radius r of each image: (B,)."""
    points, own, reach = _batch(network, images, classes, radius)
    out = np.empty(len(points))
    for part in _blocks(network, len(points)):
        moves = Moves.around(network, points[part], reach[part])
        out[part] = margin_bounds(network, moves, own[part]).low.min(axis=1)
    return out


def distance_lower_bound(
    network: ReluNetwork,
    images: ArrayLike,
    *,
    margin: float = 0.0,
    radius: ArrayLike | None = None,
    steps: int = STEPS,
) -> Floats:
    """A lower bound of sum |x - x'| over all x' with a margin of -`margin` or below: (B,).

    `radius` is where to begin, best the distance of a known flip; inf says that none exists.
    """
    return _over_radii(network, images, margin, radius, steps, np.inf)


def loss_lower_bound(
    network: ReluNetwork, images: ArrayLike, *, radius: ArrayLike | None = None, steps: int = STEPS
) -> Floats:
    """q_lower: at most min 1 + sum |x - x'| + margin(x') subject to margin(x') > 0: (B,)."""
    return 1.0 + _over_radii(network, images, 0.0, radius, steps, 1.0)


def _over_radii(
    network: ReluNetwork,
    images: ArrayLike,
    margin: float,
    radius: ArrayLike | None,
    steps: int,
    price: float,
) -> Floats:
    points, own, begin = _batch(network, images, None, 4.0 if radius is None else radius)
    out = np.empty(len(points))
    for part in _blocks(network, len(points)):
        out[part] = _bisected(network, points[part], own[part], begin[part], margin, steps, price)
    return out


def _bisected(
    network: ReluNetwork,
    points: Floats,
    own: NDArray[np.int64],
    begin: Floats,
    margin: float,
    steps: int,
    price: float,
) -> Floats:
    """max over the radii tried of min(r, least cost within r)."""
    most = np.full(len(points), float(network.inputs))  # nothing in the box is farther
    low, high, reach = np.zeros(len(points)), np.full(len(points), np.inf), np.minimum(begin, most)
    for _ in range(max(1, steps)):
        moves = Moves.around(network, points, reach)
        bounds = margin_bounds(network, moves, own)
        size = ROUNDING * (1.0 + np.abs(bounds.value) + np.abs(bounds.under).max(axis=-1))
        needed = np.maximum(bounds.value + margin - size, 0.0)
        cost = least_cost(-bounds.under, moves.caps, needed, price).min(axis=1) * (1 - ROUNDING)
        low = np.maximum(low, np.where(reach >= most, cost, np.minimum(cost, reach)))
        beyond = cost >= reach
        high = np.where(beyond, high, np.minimum(high, reach))
        reach = np.minimum(np.where(high < np.inf, (low + high) / 2, 2 * reach), most)
    return np.asarray(low)


def _batch(
    network: ReluNetwork, images: ArrayLike, classes: ArrayLike | None, radius: ArrayLike
) -> tuple[Floats, NDArray[np.int64], Floats]:
    points = np.atleast_2d(np.asarray(images, dtype=np.float64))
    own = network.decide(points) if classes is None else np.asarray(classes, dtype=np.int64)
    reach = np.broadcast_to(np.asarray(radius, dtype=np.float64), len(points))
    return points, own, reach


def _blocks(network: ReluNetwork, count: int) -> list[slice]:
    widest = max([*(len(b) for b in network.biases), network.classes])
    step = max(1, BLOCK // (2 * network.inputs * widest))
    return [slice(i, i + step) for i in range(0, count, step)]
