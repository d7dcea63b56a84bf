"""Loops of the L1 attack against plain Python."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmpe.core import flips
from cmpe.core.flips import Images, ReluLayers, Shortest, Walks

seeds = st.integers(0, 2**32 - 1)


class SmallNetwork:
    """A random ReLU network, as arrays and in plain numpy."""

    def __init__(self, rng, inputs=6, widths=(5, 4, 3)):
        sizes = [inputs, *widths]
        self.weights = [rng.normal(size=(b, a)) for a, b in itertools.pairwise(sizes)]
        self.biases = [rng.normal(size=b) for b in widths]
        parts = zip(self.weights, self.biases, strict=True)
        deep = [np.concatenate([w.ravel(), b]) for w, b in parts][1:]
        self.layers = ReluLayers(
            np.ascontiguousarray(self.weights[0].T), np.concatenate(deep),
            np.array(widths, dtype=np.int64),
        )  # fmt: skip

    def sums(self, x):
        """The sums of all layers, end to end."""
        out = []
        for weight, bias in zip(self.weights, self.biases, strict=True):
            out.append(weight @ x + bias)
            x = np.maximum(out[-1], 0.0)
        return np.concatenate(out)

    def margin(self, x, label):
        logits = self.sums(x)[-3:]
        return logits[label] - np.delete(logits, label).max()


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_walks_end_at_the_goal(seed):
    rng = np.random.default_rng(seed)
    network, pixels = SmallNetwork(rng), rng.random((3, 6))
    sums = np.array([network.sums(x) for x in pixels])
    label = np.array([int(row[-3:].argmax()) for row in sums])
    slopes = np.array(
        [
            [(network.margin(x + 1e-6 * e, c) - network.margin(x, c)) / 1e-6 for e in np.eye(6)]
            for x, c in zip(pixels, label, strict=True)
        ]
    )
    walks = Walks(np.arange(3), slopes.astype(np.float32), np.zeros(3), sums.copy())
    best = Shortest(np.full(3, np.inf), pixels.copy(), sums.copy())
    images = Images(pixels, sums, label, np.full(3, -1e-3))
    flips.walk(network.layers, images, walks, 1e9, best)
    for row in range(3):
        if walks.lengths[row] == np.inf:
            continue
        moved = best.pixels[row]
        assert ((moved >= 0) & (moved <= 1)).all()
        assert np.isclose(abs(moved - pixels[row]).sum(), walks.lengths[row], atol=1e-6)
        assert network.margin(moved, label[row]) <= -1e-3 + 1e-6
        assert np.allclose(best.sums[row], network.sums(moved), atol=1e-6)


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_steps_are_the_shortest(seed):
    """min sum |x' - x| subject to slopes . (x' - x) <= -amount in the box, as HiGHS has it."""
    rng = np.random.default_rng(seed)
    images, slopes = rng.random((1, 5)), rng.normal(size=(1, 5))
    amounts, changed = rng.exponential(size=1), np.zeros((1, 5))
    flips.step(images, slopes, amounts, changed)
    x, a = images[0], slopes[0]
    both = np.concatenate([a, -a])  # x' - x = up - down
    bounds = [(0, 1 - v) for v in x] + [(0, v) for v in x]
    exact = linprog(np.ones(10), A_ub=[both], b_ub=-amounts, bounds=bounds)
    if exact.status == 0:
        assert a @ (changed[0] - x) <= -amounts[0] + 1e-6
        assert abs(abs(changed[0] - x).sum() - exact.fun) <= 1e-6
    else:
        assert (changed[0][a > 0] == 0).all()


def test_distances_and_levels():
    images, changed = np.array([[0.0, 0.5], [1.0, 0.2]]), np.array([[0.25, 0.5], [0.0, 0.0]])
    out = np.zeros(2)
    flips.distances(images, np.array([0, 1]), changed, out)
    assert np.allclose(out, [0.25, 1.2])
    levels = np.zeros(3, dtype=np.uint8)
    flips.outward(np.array([0.5, 0.5, 0.5]), np.array([0.501, 0.499, 0.5]), levels)
    assert levels.tolist() == [128, 127, 128]
