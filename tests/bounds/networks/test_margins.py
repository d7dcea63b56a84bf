"""Bounds on distances against brute force over activation patterns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.bounds.networks.margins import distance_lower_bound
from cmpe.bounds.settings import SETTINGS
from cmpe.models.relu import ReluNetwork
from tests.networks import nearest_by_brute_force, random_image, random_network

SIZES = st.sampled_from([(1, 2, 1), (3, 3, 3), (4, 4, 1), (2, 3, 2, 2), (3, 2)])
SEEDS = st.integers(0, 10**6)


@settings(max_examples=25, deadline=None)
@given(SIZES, SEEDS, st.integers(1, 6))
def test_no_flip_is_nearer(sizes, seed, steps):
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])
    exact = nearest_by_brute_force(network, image, 1e-3)
    bound = distance_lower_bound(network, image, margin=1e-3, steps=steps)[0]
    assert 0 <= bound <= exact + 1e-9


def test_bounds_are_tight_where_the_network_is_linear():
    network = ReluNetwork((np.array([[2.0, 0.5]]),), (np.array([-1.0]),))
    image = np.array([[1.0, 1.0]])  # F = 1.5, which falls by 2 per unit of the first pixel
    assert distance_lower_bound(network, image)[0] == pytest.approx(0.75)


def test_a_constant_network_has_no_flip():
    network = ReluNetwork((np.zeros((3, 2)), np.zeros((1, 3))), (np.zeros(3), np.ones(1)))
    assert distance_lower_bound(network, np.array([[0.2, 0.8]]))[0] == np.inf


def test_batches_are_answered_row_by_row(monkeypatch):
    network = random_network(5, (4, 6, 3))
    images = np.array([random_image(i, 4) for i in range(9)])
    whole = distance_lower_bound(network, images)
    monkeypatch.setattr(
        "cmpe.bounds.networks.margins.SETTINGS", SETTINGS._replace(slopes=1)
    )  # one image at a time
    np.testing.assert_allclose(distance_lower_bound(network, images), whole)
