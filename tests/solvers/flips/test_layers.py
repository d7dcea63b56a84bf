"""A network as the compiled loops read it, against the network itself."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.solvers.flips.layers import Layers
from tests.networks import random_image, random_network

NETWORKS = [(4, 3), (4, 1), (5, 6, 1), (5, 6, 3), (4, 5, 4, 3)]


@pytest.fixture(params=NETWORKS, ids=str)
def case(request):
    network = random_network(1, request.param)
    images = np.array([random_image(i, request.param[0]) for i in range(9)])
    return network, Layers.of(network), images


def test_sums_decide_as_the_network_does(case):
    network, layers, images = case
    sums = layers.sums(images)
    own = layers.decide(sums)
    assert sums.shape == (9, layers.hidden + layers.classes)
    np.testing.assert_array_equal(own, network.decide(images))
    np.testing.assert_allclose(layers.margins(sums, own), network.margins(images, own))
    assert (layers.rivals(sums, own) != own).all()


def test_slopes_of_active_units_are_the_gradient(case):
    _, layers, images = case
    sums = layers.sums(images)
    own, slopes = layers.decide(sums), (sums[:, : layers.hidden] > 0).astype(np.float32)
    targets = layers.rivals(sums, own)
    found = layers.back(own, targets, slopes) @ layers.single[0]
    rows, step = np.arange(9), 1e-6
    for pixel in range(images.shape[1]):
        nudge = step * np.eye(images.shape[1])[pixel]
        up, down = (layers.sums(images + s * nudge)[:, layers.hidden :] for s in (1, -1))
        change = (up - down) / (2 * step)
        expected = change[rows, own] - change[rows, targets]
        np.testing.assert_allclose(found[:, pixel], expected, atol=1e-4)


def test_guesses_lie_between_and_follow_the_sign(case):
    _, layers, images = case
    sums = layers.sums(images)
    guess = layers.guess(sums, 3.0)
    assert ((guess >= 0) & (guess <= 1)).all()
    np.testing.assert_array_equal(guess > 0.5, sums[:, : layers.hidden].astype(np.float32) > 0)


def test_nearest_classes_are_others_in_order(case):
    _, layers, images = case
    sums = layers.sums(images)
    own, slopes = layers.decide(sums), layers.guess(sums, 3.0)
    count = layers.classes - 1
    nearest = layers.nearest(sums, own, slopes, count)
    assert nearest.shape == (9, count)
    assert (nearest != own[:, None]).all()
    np.testing.assert_array_equal(nearest[:, :1], layers.nearest(sums, own, slopes, 1))
