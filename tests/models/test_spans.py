"""Bounds of neural functions against every assignment and many points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from cmpe.errors import ModelError
from cmpe.models.neural import NeuralFunction
from tests.problems import all_assignments, seeds

ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid, nn.Softplus, nn.Identity)


def random_function(rng, cards):
    scope = [0, *(1 + rng.permutation(len(cards) - 1)[: rng.integers(0, len(cards))])]
    inputs = sum(cards[v] - 1 for v in scope)
    torch.manual_seed(int(rng.integers(1 << 30)))
    layers, width = [nn.Flatten()], inputs
    for _ in range(int(rng.integers(0, 3))):
        wider = int(rng.integers(1, 7))
        layers += [nn.Linear(width, wider, bias=bool(rng.integers(2)))]
        layers += [ACTIVATIONS[rng.integers(len(ACTIVATIONS))](), nn.Dropout(0.5)]
        width = wider
    module = nn.Sequential(*layers, nn.Sequential(nn.Linear(width, 1)))
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(3.0)
    return NeuralFunction(module, cards, tuple(int(v) for v in scope))


@given(seeds)
@settings(max_examples=150)
def test_every_value_lies_in_the_span(seed):
    rng = np.random.default_rng(seed)
    cards = (2, *(int(k) for k in rng.integers(1, 4, int(rng.integers(0, 5)))))
    function = random_function(rng, cards)
    z = all_assignments(cards)
    seen = rng.random(len(cards)) < 0.4
    rows = np.where(seen, z[rng.integers(0, len(z), 3)], -1)
    low, high = function.span(rows)
    for row, least, most in zip(rows, low, high, strict=True):
        values = function.value(z[((row == -1) | (z == row)).all(axis=1)])
        assert least <= values.min() + 1e-12
        assert values.max() <= most + 1e-12
    assert function.value(z).max() <= function.ceiling()
    one = function.span(z[:1])
    assert one[0][0] == pytest.approx(function.value(z[:1])[0], abs=1e-6)
    assert one[1][0] == pytest.approx(one[0][0], abs=1e-6)


def test_one_layer_is_exact():
    function = NeuralFunction(nn.Linear(4, 1), (2, 3, 2))
    values = function.value(all_assignments((2, 3, 2)))
    low, high = function.span(np.full((1, 3), -1))
    assert low[0] == pytest.approx(values.min(), abs=1e-6)
    assert high[0] == pytest.approx(values.max(), abs=1e-6)


def test_fractions_lie_in_the_span():
    rng = np.random.default_rng(0)
    function = random_function(np.random.default_rng(3), (2,) * 5)
    low, high = function.span(np.full((1, 5), -1))
    values = function.value(rng.random((1000, 5)))
    assert low[0] <= values.min()
    assert values.max() <= high[0]


def test_other_layers_have_no_bound():
    function = NeuralFunction(nn.Sequential(nn.Linear(2, 2), nn.GELU(), nn.Linear(2, 1)), (2, 2))
    assert function.ceiling() == np.inf
    with pytest.raises(ModelError, match="there is no bound for a layer GELU"):
        function.span([[-1, -1]])
