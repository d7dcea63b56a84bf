"""Bounds on neurons: exact where they claim it, sound at every sampled point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmpe.bounds.networks.neurons import (
    Moves,
    contrasts,
    first_layer,
    hidden_layers,
    largest_rise,
    least_cost,
    margin_bounds,
    relu_bounds,
)
from cmpe.bounds.settings import SETTINGS
from tests.networks import margin_by_brute_force, random_image, random_network

SIZES = st.sampled_from([(1, 2, 1), (3, 4, 3), (4, 5, 1), (2, 3, 3, 2), (5, 4, 3, 2, 3), (3, 2)])
SEEDS = st.integers(0, 10**6)
RADII = st.sampled_from([0.0, 1e-3, 0.3, 1.0, 2.5, 10.0])


def sampled_moves(rng, caps, radius, count=200):
    """Points of the capped simplex: interior ones, corners, and 0."""
    t = rng.random((count, len(caps))) ** rng.choice([1, 4, 20], size=(count, 1)) * caps
    t[: len(caps)] = np.diag(np.minimum(caps, radius))[:count]
    t[-1] = 0.0
    total = t.sum(axis=1, keepdims=True)
    return t * np.minimum(1.0, radius / np.maximum(total, 1e-300))


def walk(network, image, t):
    """Pre-activations of every layer, logits last, at image + p - m."""
    n = len(image)
    values = image + t[:, :n] - t[:, n:]
    out = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        out.append(values @ weight.T + bias)
        values = np.maximum(out[-1], 0.0)
    return out


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), SEEDS, RADII)
def test_largest_rise_is_the_knapsack(count, seed, radius):
    rng = np.random.default_rng(seed)
    slopes, caps = rng.normal(size=(1, 2, count)), rng.random((3, count)).round(1)
    found = largest_rise(slopes, caps, np.full(3, radius))
    for b in range(3):
        for h in range(2):
            limits = [(0.0, c) for c in caps[b]]
            exact = linprog(-slopes[0, h], np.ones((1, count)), [radius], bounds=limits)
            assert found[b, h] == pytest.approx(-exact.fun, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), SEEDS)
def test_least_cost_is_the_cheapest_mix(count, seed):
    rng = np.random.default_rng(seed)
    slopes, caps = rng.normal(size=(2, 1, count)), rng.random((2, count)).round(1)
    needed = rng.random((2, 1)) * 2
    found = least_cost(slopes, caps, needed)
    for b in range(2):
        limits = [(0.0, c) for c in caps[b]]
        exact = linprog(np.ones(count), -slopes[b], -needed[b], bounds=limits)
        assert found[b, 0] == pytest.approx(exact.fun if exact.status == 0 else np.inf, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(SIZES, SEEDS, RADII)
def test_first_layer_is_exact(sizes, seed, radius):
    network = random_network(seed, sizes)
    images = np.array([random_image(seed + i, sizes[0]) for i in range(2)])
    layer = first_layer(Moves.around(network, images, radius))
    for image, low, high in zip(images, layer.low, layer.high, strict=True):
        limits = [(0.0, 1.0 - v) for v in image] + [(0.0, v) for v in image]
        for weight, bias, least, most in zip(
            network.weights[0], network.biases[0], low, high, strict=True
        ):
            slopes, here = np.append(weight, -weight), weight @ image + bias
            for sign, bound in ((1.0, least), (-1.0, most)):
                ball = np.ones((1, len(slopes)))
                exact = linprog(sign * slopes, ball, [radius], bounds=limits)
                assert bound == pytest.approx(here + sign * exact.fun, abs=1e-8)


@settings(max_examples=120, deadline=None)
@given(SIZES, SEEDS, RADII)
def test_all_layers_are_sound(sizes, seed, radius):
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])
    moves = Moves.around(network, image[np.newaxis], radius)
    t = sampled_moves(np.random.default_rng(seed), moves.caps[0], radius)
    values = walk(network, image, t)
    for layer, z in zip(hidden_layers(network, moves), values[:-1], strict=True):
        assert_within(layer, z, t)
        assert_within(relu_bounds(layer, moves.radius), np.maximum(z, 0.0), t)
    own = network.decide(image[np.newaxis])
    margins = margin_bounds(network, moves, own)
    assert_within(margins, values[-1] @ contrasts(network, own)[0].T, t)
    assert margins.value.min() == pytest.approx(network.margins(image[np.newaxis], own)[0])


@settings(max_examples=60, deadline=None)
@given(SIZES.filter(lambda sizes: len(sizes) > 2), SEEDS, RADII)
def test_forced_neurons_narrow_the_bounds_of_their_side(sizes, seed, radius):
    rng = np.random.default_rng(seed)
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])
    moves = Moves.around(network, image[np.newaxis], radius)
    t = sampled_moves(rng, moves.caps[0], radius)
    values = walk(network, image, t)[:-1]
    signs = [rng.integers(-1, 2, size=z.shape[1]).astype(np.int8) * (rng.random() < 0.5)
             for z in values]  # fmt: skip
    inside = np.all([(z * s >= 0).all(axis=1) for z, s in zip(values, signs, strict=True)], axis=0)
    for layer, z in zip(hidden_layers(network, moves, signs), values, strict=True):
        assert_within(layer, z[inside], t[inside])


def assert_within(layer, z, t):
    """All bounds of a batch of one hold for values z (points, H) at the moves t."""
    slack = 1e-9 * (1.0 + np.abs(z))
    assert (z >= layer.low - slack).all()
    assert (z <= layer.high + slack).all()
    assert (z >= layer.value + t @ layer.under[0].T - slack).all()
    assert (z <= layer.value + t @ layer.over[0].T + slack).all()


def test_bounds_are_exact_at_the_input():
    network, image = random_network(3, (4, 5, 4, 3)), random_image(3, 4)
    moves = Moves.around(network, image[np.newaxis], 0.7)
    for layer, z in zip(
        hidden_layers(network, moves), walk(network, image, np.zeros((1, 8))), strict=False
    ):
        np.testing.assert_allclose(layer.value, z, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from([(1, 2, 1), (3, 3, 3), (2, 3, 2, 2), (3, 2)]),
    SEEDS,
    st.sampled_from([0.0, 0.2, 5.0]),
)
def test_no_margin_within_the_radius_is_smaller(sizes, seed, radius):
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])[np.newaxis]
    bounds = margin_bounds(network, Moves.around(network, image, radius), network.decide(image))
    exact = margin_by_brute_force(network, image[0], radius)
    assert bounds.low.min() <= exact + 1e-7


def test_knapsacks_go_on_where_the_leading_moves_leave_them_open(monkeypatch):
    rng = np.random.default_rng(0)
    slopes, caps = rng.normal(size=(7, 3, 12)), rng.random((7, 12))
    radius, needed = np.linspace(0.0, 7.0, 7), rng.random((7, 3)) * 3
    whole = largest_rise(slopes, caps, radius), largest_rise(slopes[:1], caps, radius)
    costs = least_cost(slopes, caps, needed)
    monkeypatch.setattr("cmpe.bounds.networks.neurons.SETTINGS", SETTINGS._replace(leading=2))
    np.testing.assert_allclose(largest_rise(slopes, caps, radius), whole[0])
    np.testing.assert_allclose(largest_rise(slopes[:1], caps, radius), whole[1])
    np.testing.assert_allclose(least_cost(slopes, caps, needed), costs)
