"""Coordinates: values to numbers and back, ties, single values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cmpe.learning.networks.coordinates import Coordinates

cardinalities = st.lists(st.integers(1, 4), min_size=1, max_size=5)


@given(cardinalities, st.integers(0, 1000))
def test_values_survive_the_round_trip(cards, seed):
    rng = np.random.default_rng(seed)
    values = np.stack([rng.integers(0, k, 6) for k in cards], axis=1)
    places = Coordinates(cards)
    points = places.of(values)
    assert points.shape == (6, sum(k - 1 for k in cards))
    np.testing.assert_array_equal(places.assignments(torch.as_tensor(points)), values)
    torch.testing.assert_close(places.round(torch.as_tensor(points)), torch.as_tensor(points))


@given(cardinalities, st.integers(0, 1000))
def test_probabilities_are_softmax_with_a_zero_for_the_first_value(cards, seed):
    places = Coordinates(cards)
    generator = torch.Generator().manual_seed(seed)
    logits = 3.0 * torch.randn((4, places.count), generator=generator)
    points = places.probabilities(logits)
    target = places.of(np.zeros((4, len(cards)), dtype=int))
    entropy, surprise = torch.zeros(4), torch.zeros(4)
    for v, k in enumerate(cards):
        own = slice(int(places.first[v]), int(places.first[v]) + k - 1)
        whole = torch.softmax(torch.cat([torch.zeros((4, 1)), logits[:, own]], 1), 1)
        torch.testing.assert_close(points[:, own], whole[:, 1:])
        np.testing.assert_array_equal(places.assignments(points)[:, v], whole.argmax(1))
        entropy += torch.special.entr(whole).sum(1)
        surprise -= whole[:, 0].log()
    torch.testing.assert_close(places.entropy(logits), entropy, atol=1e-5, rtol=1e-4)
    found = places.cross_entropy(logits, torch.as_tensor(target))
    torch.testing.assert_close(found, surprise, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("cards", [[2, 2], [2, 4]])
def test_ties_take_the_lower_value(cards):
    places = Coordinates(cards)
    points = torch.full((1, places.count), 0.5)
    points[0, 1:] = 1.0 / cards[1]
    assert places.assignments(points).tolist() == [[0, 0]]
    assert places.round(points).sum() == 0


def test_large_logits_are_no_trouble():
    for cards in ([2, 2], [3, 2]):
        places = Coordinates(cards)
        logits = torch.full((1, places.count), 500.0, requires_grad=True)
        total = places.entropy(logits).sum() + places.probabilities(-logits).sum()
        total.backward()
        assert total.isfinite()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()


def test_variables_of_one_value_have_no_coordinate():
    places = Coordinates([1, 1])
    assert places.count == 0
    assert places.assignments(torch.zeros((3, 0))).tolist() == [[0, 0]] * 3
