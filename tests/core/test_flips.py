"""Loops of the L1 attack against the same walk in numpy, and against linear programs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from scipy.optimize import brentq

from cmpe.core.flips import (
    Images,
    ReluLayers,
    Shortest,
    Walks,
    distances,
    outward,
    secants,
    shares,
    walk,
)
from cmpe.solvers.flips.layers import Layers
from tests.core.cases import examples
from tests.networks import random_image, random_network
from tests.problems import seeds


class Attack:
    """A random network and images, their classes and the goals of their margins."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        sizes = [(5, 4, 2), (20, 6, 3), (4, 3, 3, 3), (3, 2)][int(self.rng.integers(4))]
        self.layers = Layers.of(random_network(seed, sizes))
        self.images = np.array([random_image(seed + i, sizes[0]) for i in range(3)])
        self.sums = self.layers.sums(self.images)
        self.own = self.layers.decide(self.sums)
        self.goals = np.full(3, -1e-3)
        layers = self.layers
        self.network = ReluLayers(layers.first, layers.deep, layers.sizes)
        self.arrays = Images(self.images, self.sums, self.own, self.goals)

    def margin(self, image, row):
        sums = self.layers.sums(image[np.newaxis])
        return float(self.layers.margins(sums, self.own[row : row + 1])[0])

    def plain_walk(self, row, slope):
        """Inputs of the largest |slope| go to their bounds until the margin is at its goal."""
        z, margin, goal = self.images[row].copy(), self.margin(self.images[row], row), -1e-3
        room = np.where(slope > 0, z, 1.0 - z)
        for j in np.argsort(-np.abs(slope), kind="stable"):
            if margin <= goal:
                break
            if slope[j] == 0.0 or room[j] <= 0.0:
                continue
            after = z.copy()
            after[j] = 0.0 if slope[j] > 0 else 1.0
            then = self.margin(after, row)
            if then > margin:
                continue
            if then <= goal:
                share = brentq(lambda s: self.margin(z + s * (after - z), row) - goal, 0, 1)  # noqa: B023
                after = z + share * (after - z)
                then = goal
            z, margin = after, then
        return z, margin <= goal


@given(seeds)
@examples(100)
def test_walks_are_those_of_numpy(seed):
    case = Attack(seed)
    rows = case.rng.integers(0, 3, 4)
    slopes = case.rng.normal(size=(4, case.images.shape[1])).astype(np.float32)
    lengths, after = np.zeros(4), np.zeros((4, case.sums.shape[1]))
    best = np.full(3, np.inf), case.images.copy(), case.sums.copy()
    layers = case.layers
    walks = Walks(rows, slopes, lengths, after)
    walk(case.network, case.arrays, walks, 1e9, Shortest(*best))
    for row, slope, length in zip(rows, slopes, lengths, strict=True):
        changed, is_flipped = case.plain_walk(row, slope)
        wanted = np.abs(changed - case.images[row]).sum() if is_flipped else np.inf
        assert np.isclose(length, wanted, atol=1e-6)
    for row in range(3):
        assert best[0][row] == lengths[rows == row].min(initial=np.inf)
        if np.isfinite(best[0][row]):
            assert np.isclose(np.abs(best[1][row] - case.images[row]).sum(), best[0][row])
            assert case.margin(best[1][row], row) <= case.goals[row] + 1e-9
            assert np.allclose(best[2][row], layers.sums(best[1][row : row + 1])[0], atol=1e-9)


@given(seeds)
@examples(60)
def test_shares_end_at_the_goal(seed):
    case = Attack(seed)
    changed = np.clip(case.images + 2.0 * case.rng.normal(size=case.images.shape), 0.0, 1.0)
    out = np.zeros(3)
    shares(case.network, case.arrays, case.layers.sums(changed), out)
    for row, share in enumerate(out):
        begin, end = (case.margin(image[row], row) for image in (case.images, changed))
        here = case.margin(case.images[row] + share * (changed[row] - case.images[row]), row)
        if begin > case.goals[row] >= end:
            assert np.isclose(here, case.goals[row], atol=1e-7)
        else:
            assert share == 1.0


def test_slopes_distances_and_levels_are_those_of_numpy():
    rng = np.random.default_rng(0)
    sums, after = rng.normal(size=(4, 6)), rng.normal(size=(5, 6))
    rows, local, slopes = rng.integers(0, 4, 5), 0.25, np.zeros((5, 6))
    after[0] = sums[rows[0]]
    secants(sums, rows, after, local, slopes)
    there = (after > 0).astype(float)
    rise, run = np.maximum(after, 0.0) - np.maximum(sums[rows], 0.0), after - sums[rows]
    mean = np.where(run == 0.0, there, rise / np.where(run == 0.0, 1.0, run))
    np.testing.assert_allclose(slopes, mean + local * (there - mean))
    out = np.zeros(5)
    distances(sums, rows, after, out)
    np.testing.assert_allclose(out, np.abs(run).sum(axis=1))
    before = np.array([0.5, 0.5, 0.5, 0.2, 0.2, 0.0])
    levels = np.zeros(6, dtype=np.uint8)
    outward(before, np.array([0.501, 0.499, 0.5, 1.0, 102 / 255, 0.0]), levels)
    assert levels.tolist() == [128, 127, 128, 255, 102, 0]
