"""A bound of the slopes of a ReLU network's margins in the whole box, the same for all rows.

Every ReLU has a slope in [0, 1], so the derivative of F_c - F_k by an input lies between two
numbers that follow from the weights, layer by layer from the output. With L the largest of their
sizes, a move of length r lowers the margin G by at most L r, and

    sum |x - x'| + margin(x')  >=  min over r of r + max(0, G - L r)  =  min(G, G / L).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import Floats
from cmpe.models.relu import ReluNetwork


def steepest(network: ReluNetwork) -> Floats:
    """An upper bound of |d (F_c - F_k) / d x_i| over all inputs i: (classes, classes).

    With one output F it is that of F itself, whichever the classes.
    """
    outputs = network.outputs
    rows = np.eye(outputs)
    contrast = rows if outputs == 1 else (rows[:, None] - rows[None]).reshape(-1, outputs)
    low = high = contrast @ network.weights[-1]
    for weight in network.weights[-2::-1]:
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)  # slopes from 0 to 1
        up, down = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
        low, high = low @ up + high @ down, high @ up + low @ down
    size = np.maximum(-low, high).max(axis=1)
    return np.full((2, 2), size[0]) if outputs == 1 else size.reshape(outputs, outputs)


def quick_loss_bound(network: ReluNetwork, images: ArrayLike) -> Floats:
    """At most min sum |x - x'| + margin(x') subject to margin(x') > 0, for each image: (B,)."""
    points = np.atleast_2d(np.asarray(images, dtype=np.float64))
    logits, own = network.logits(points), network.decide(points)
    steep = steepest(network)[own]  # (B, classes)
    if network.outputs == 1:
        margin, steep = np.abs(logits), steep[:, :1]
    else:
        rows = np.arange(len(points))
        margin = logits[rows, own][:, None] - logits
        margin[rows, own] = np.inf
    return np.asarray((margin / np.maximum(steep, 1.0)).min(axis=1))
