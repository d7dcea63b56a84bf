"""The distance of an input to another class: proved lower bounds for whole batches.

Within radius r of x the margin against class k is at least G_k - sum_i c_i t_i (`neurons`), so
a flip needs min sum t subject to c t >= G_k, a fractional knapsack, or more than r.

Each radius gives a bound min(r, knapsack at r). The second shrinks as r grows, so the best radius
is where they meet; a few bisections come close to it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.bounds.networks.neurons import ROUNDING, Moves, least_cost, margin_bounds
from cmpe.bounds.settings import SETTINGS
from cmpe.models.relu import ReluNetwork


def distance_lower_bound(
    network: ReluNetwork, images: ArrayLike, *, margin: float = 0.0, steps: int = SETTINGS.radii
) -> Floats:
    """A lower bound of sum |x - x'| over all x' with a margin of -`margin` or below: (B,).

    It is inf where there is none.
    """
    points = np.atleast_2d(np.asarray(images, dtype=np.float64))
    own = network.decide(points)
    out = np.empty(len(points))
    for part in _blocks(network, len(points)):
        out[part] = _bisected(network, points[part], own[part], margin, steps)
    return out


def _bisected(
    network: ReluNetwork,
    points: Floats,
    own: NDArray[np.int64],
    margin: float,
    steps: int,
) -> Floats:
    """max over the radii tried of min(r, least distance within r)."""
    most = np.full(len(points), float(network.inputs))  # nothing in the box is farther
    low, high = np.zeros(len(points)), np.full(len(points), np.inf)
    reach = np.minimum(SETTINGS.first_radius, most)
    for _ in range(max(1, steps)):
        moves = Moves.around(network, points, reach)
        bounds = margin_bounds(network, moves, own)
        size = ROUNDING * (1.0 + np.abs(bounds.value) + np.abs(bounds.under).max(axis=-1))
        needed = np.maximum(bounds.value + margin - size, 0.0)
        cost = least_cost(-bounds.under, moves.caps, needed).min(axis=1) * (1 - ROUNDING)
        low = np.maximum(low, np.where(reach >= most, cost, np.minimum(cost, reach)))
        beyond = cost >= reach
        high = np.where(beyond, high, np.minimum(high, reach))
        reach = np.minimum(np.where(high < np.inf, (low + high) / 2, 2 * reach), most)
    return np.asarray(low)


def _blocks(network: ReluNetwork, count: int) -> list[slice]:
    widest = max([*(len(b) for b in network.biases), network.classes])
    step = max(1, SETTINGS.slopes // (2 * network.inputs * widest))
    return [slice(i, i + step) for i in range(0, count, step)]
