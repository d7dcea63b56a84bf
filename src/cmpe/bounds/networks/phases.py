"""Which neurons of a ReLU network need columns in a linear program, and which a 0/1 phase.

A sum of logits that must not be too small needs activations that are not too small where they
raise it, and not too large where they lower it. Only the latter need a phase; stable neurons, and
those that nothing reads, need nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.bounds.networks.neurons import LayerBounds, Signs
from cmpe.models.relu import ReluNetwork

Needs = tuple[tuple[NDArray[np.bool_], NDArray[np.bool_]], ...]
Forced = tuple[Signs, ...] | None  # of each hidden layer, 0 where free


def sides_needed(
    network: ReluNetwork, rows: Floats, layers: tuple[LayerBounds, ...], forced: Forced = None
) -> Needs:
    """Of each layer: which activations must not be too small, and which not too large.

    They serve sums of logits, `rows` (R, outputs), that must not be too small themselves.
    The row z <= 0 of a neuron that is forced off must not see too small a z, z >= 0 not too
    large a one, whether or not the neuron itself is needed.
    """
    weight = rows @ network.weights[-1]
    lower, upper = np.ones(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    out = []
    for depth in range(len(layers) - 1, -1, -1):
        rises, falls, alive = weight > 0, weight < 0, layers[depth].high[0] > 0
        needs = (lower @ rises | upper @ falls) & alive, (lower @ falls | upper @ rises) & alive
        out.append(needs)
        lower, upper, weight = *needs, network.weights[depth]
        if forced is not None:
            lower, upper = lower | (forced[depth] < 0), upper | (forced[depth] > 0)
    return tuple(out[::-1])


def kinds_of(
    layers: tuple[LayerBounds, ...], needs: Needs
) -> list[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Of each layer: the neurons with an activation column, and those with a phase."""
    out = []
    for layer, (lower, upper) in zip(layers, needs, strict=True):
        unstable = layer.unstable[0] & (lower | upper)
        out.append((unstable, unstable & upper))
    return out
