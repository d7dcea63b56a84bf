"""ReLU networks as arrays, against torch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

from cmpe.errors import ModelError
from cmpe.models.relu import ReluNetwork


def network(*sizes: int, seed: int = 0) -> ReluNetwork:
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    return ReluNetwork(
        tuple(rng.normal(size=(b, a)) for a, b in pairs),
        tuple(rng.normal(size=b) for _, b in pairs),
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_agrees_with_torch(outputs):
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Flatten(), nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(5, outputs, bias=False)
    ).double()
    images = torch.rand(7, 2, 3, dtype=torch.float64)
    found = ReluNetwork.of(module)
    assert (found.inputs, found.outputs, found.classes) == (6, outputs, max(2, outputs))
    expected = module(images).detach().numpy()
    np.testing.assert_allclose(found.logits(images.reshape(7, 6).numpy()), expected, atol=1e-12)


@pytest.mark.parametrize("outputs", [1, 4])
def test_a_margin_above_zero_is_a_decision(outputs):
    net = network(3, 4, outputs)
    points = np.random.default_rng(1).random((200, 3))
    decided = net.decide(points)
    for c in range(net.classes):
        margins = net.margins(points, np.full(200, c))
        assert ((margins > 0) == (decided == c))[margins != 0].all()


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 1)), "found Tanh"),
        (nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)), "found Linear"),
        (nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "ends with a Linear"),
        (nn.Sequential(), "ends with a Linear"),
        (nn.Conv2d(1, 1, 3), "found Conv2d"),
    ],
)
def test_other_modules_are_refused(module, message):
    with pytest.raises(ModelError, match=message):
        ReluNetwork.of(module)


def test_layers_must_fit():
    with pytest.raises(ModelError, match="reads 3 numbers of 2"):
        ReluNetwork((np.zeros((2, 4)), np.zeros((1, 3))), (np.zeros(2), np.zeros(1)))
    with pytest.raises(ModelError, match="must fit"):
        ReluNetwork((np.zeros((2, 4)),), (np.zeros(3),))
    with pytest.raises(ModelError, match="finite"):
        ReluNetwork((np.full((2, 4), np.nan),), (np.zeros(2),))
    with pytest.raises(ModelError, match="as many biases"):
        ReluNetwork((), ())
