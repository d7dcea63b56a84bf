"""Slopes of margins, against sampled points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.bounds.networks.slopes import quick_loss_bound, steepest
from tests.models.test_relu import network
from tests.networks import loss_by_brute_force, random_image, random_network


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(3, 1), (3, 4, 1), (3, 4, 3), (2, 3, 3, 2)]))
def test_no_point_is_below_the_bound(seed, sizes):
    net = network(*sizes, seed=seed)
    rng = np.random.default_rng(seed)
    images = rng.random((5, sizes[0]))
    bound = quick_loss_bound(net, images)
    own = net.decide(images)
    for image, c, least in zip(images, own, bound, strict=True):
        points = np.concatenate(
            [
                rng.random((300, sizes[0])),
                image + (rng.random((300, sizes[0])) - image) * rng.random((300, 1)),
                image[None],
            ]
        )
        margins = net.margins(points, np.full(len(points), c))
        values = np.abs(points - image).sum(axis=1) + margins
        assert values[margins > 0].min(initial=np.inf) >= least - 1e-9


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(1, 2, 1), (3, 3, 3), (2, 3, 2, 2), (3, 2)]))
def test_no_violating_point_has_a_smaller_loss(seed, sizes):
    net, image = random_network(seed, sizes), random_image(seed, sizes[0])
    assert 1.0 + quick_loss_bound(net, image)[0] <= loss_by_brute_force(net, image) + 1e-7


def test_a_linear_network_is_exact():
    net = network(3, 2)
    slope = np.abs(net.weights[0][0] - net.weights[0][1]).max()
    assert steepest(net)[0, 1] == pytest.approx(slope)
    assert steepest(net)[1, 0] == pytest.approx(slope)
