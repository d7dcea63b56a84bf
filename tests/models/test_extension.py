"""The multilinear extension of tables, against its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.errors import ModelError
from cmpe.models.extension import extended_value, fixed, is_fractional
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.tensor.functions import Functions


def extension_by_definition(model: LogLinearModel, point: np.ndarray) -> float:
    """The mean of h when each variable is drawn on its own: 1 with probability z."""
    total = 0.0
    for corner in itertools.product(*(range(k) for k in model.cardinalities)):
        weight = 1.0
        for z, a, k in zip(point, corner, model.cardinalities, strict=True):
            weight *= (z if a else 1 - z) if k == 2 else float(z == a)
        if weight:
            total += weight * model.value(np.array(corner))[0]
    return total


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_fractions_are_the_multilinear_extension(seed):
    rng = np.random.default_rng(seed)
    cards = tuple(rng.integers(1, 4, size=rng.integers(1, 5)).tolist())
    factors = []
    for _ in range(4):
        scope = tuple(rng.permutation(len(cards))[: rng.integers(0, len(cards) + 1)].tolist())
        factors.append(Factor(scope, rng.normal(size=[cards[v] for v in scope])))
    model = LogLinearModel(cards, tuple(factors))
    points = np.array(
        [[rng.random() if k == 2 else rng.integers(k) for k in cards] for _ in range(3)]
    )
    expected = [extension_by_definition(model, p) for p in points]
    np.testing.assert_allclose(model.value(points), expected, atol=1e-9)
    functions = Functions(Problem(model), dtype=torch.float64)
    coordinates = torch.as_tensor(functions.slots.of(points))
    np.testing.assert_allclose(functions.values(coordinates)[:, 0].numpy(), expected, atol=1e-9)


def test_a_zero_potential_counts_as_soon_as_it_has_weight():
    model = LogLinearModel((2, 2), (Factor((0, 1), [[0.0, -np.inf], [1.0, 2.0]]),))
    assert model.value([[0.5, 0.0]])[0] == 0.5
    assert model.value([[0.5, 0.5]])[0] == -np.inf


def test_a_table_with_known_values_is_the_same_extension():
    rng = np.random.default_rng(0)
    cards, scope = (2, 3, 2), (2, 0, 1)
    table = rng.normal(size=[cards[v] for v in scope])
    left = fixed(scope, table, {2: 0.3, 1: 2.0})
    assert left.shape == (2,)
    for z in (0.0, 0.6, 1.0):
        whole = extended_value([(scope, table)], cards, [[z, 2.0, 0.3]])
        part = extended_value([((0,), left)], (2,), [[z]])
        np.testing.assert_allclose(whole, part, atol=1e-12)


def test_an_end_with_a_zero_potential_has_no_weight_inside_the_table():
    assert fixed((0,), np.array([-np.inf, 4.0]), {0: 1.0}) == 4.0
    assert fixed((0,), np.array([-np.inf, 4.0]), {0: 0.5}) == -np.inf


def test_whole_numbers_are_no_fractions():
    assert not is_fractional(np.array([[0, 1]]))
    assert not is_fractional(np.array([[0.0, 1.0]]))
    assert is_fractional(np.array([[0.0, 0.5]]))


@pytest.mark.parametrize(
    ("row", "message"), [([1.5, 0], "from 0 to 1"), ([0.5, 1.5], "a whole number below 3")]
)
def test_values_that_do_not_exist(row, message):
    with pytest.raises(ModelError, match=message):
        extended_value([((0, 1), np.zeros((2, 3)))], (2, 3), [row])
