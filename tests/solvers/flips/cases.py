"""Programs of flips of small random networks, and inputs of their regions."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from cmpe.bounds.networks.neurons import contrasts
from cmpe.solvers.flips.program import FlipProgram, Region, flip_program
from tests.networks import random_image, random_network

SIZES = st.sampled_from([(3, 4, 2), (4, 5, 1), (6, 8, 3), (3, 4, 3, 2), (4, 3, 3, 3, 2)])
SEEDS = st.integers(0, 10**6)
RADII = st.sampled_from([0.2, 0.8, 2.0, 9.0])
MARGIN = 1e-3


def a_program(seed: int, sizes: tuple[int, ...], radius: float):
    """A network, its image, the contrast of one target, and the program."""
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    row = rows[seed % len(rows)]
    return network, image, row, flip_program(network, row, Region.around(image, radius), MARGIN)


def inputs_of(flip: FlipProgram, seed: int, count: int = 60) -> np.ndarray:
    """Inputs of the region: inner ones, and some with few pixels changed."""
    rng, region = np.random.default_rng(seed), flip.region
    t = region.caps * rng.random((count, len(region.caps)))
    t *= rng.random(t.shape) < rng.choice([0.3, 1.0], size=(count, 1))
    first = {int(p): i for i, p in enumerate(region.pixel)}
    for i, p in enumerate(region.pixel):  # never up and down at once
        if first[int(p)] != i:
            t[rng.random(count) < 0.5, first[int(p)]] = 0.0
            t[t[:, first[int(p)]] > 0, i] = 0.0
    t *= np.minimum(1.0, region.radius * (1 - 1e-12) / np.maximum(t.sum(axis=1), 1e-300))[:, None]
    return np.array([region.point(each) for each in t])
