"""The perturbed loss: its gradient, what it learns, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cmpe
from cmpe.errors import MethodError, ModelError
from tests.torch.test_layer import faults


def test_the_gradient_is_the_mean_answer_minus_y():
    problem = faults()
    loss = cmpe.torch.FenchelYoung(problem, samples=200, sigma=0.5, seed=3)
    scores = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    y = cmpe.torch.Layer(problem)(scores).argmax
    value = loss(scores, y)
    value.backward()
    assert value.item() > 0
    hot = torch.nn.functional.one_hot(y, 3).double()
    mean = 2 * scores.grad + hot  # of a mean over two rows
    assert torch.allclose(mean.sum(dim=2), torch.ones(2, 5, dtype=torch.float64))
    assert ((mean >= 0) & (mean <= 1)).all()


def test_it_equals_the_mean_of_best_values():
    problem = faults()
    scores = torch.randn(1, 5, 3, dtype=torch.float64)
    y = cmpe.torch.Layer(problem)(scores).argmax
    value = cmpe.torch.FenchelYoung(problem, samples=3, sigma=0.7, seed=9)(scores, y)
    noise = 0.7 * np.random.default_rng(9).standard_normal((3, 1, 5, 3))
    best = [
        cmpe.solve(problem, potentials=scores.numpy() + noise[s]).objective[0] for s in range(3)
    ]
    own = cmpe.solve(problem, potentials=scores.numpy()).objective[0]
    assert value.item() == pytest.approx(np.mean(best) - own)


def test_it_trains():
    problem = faults()
    loss = cmpe.torch.FenchelYoung(problem, samples=4, sigma=1.0, seed=0)
    y = torch.tensor([[1, 2, 1, 0, 1], [0, 1, 0, 1, 0]])
    scores = torch.zeros(2, 5, 3, requires_grad=True)
    optimizer = torch.optim.SGD([scores], lr=2.0)
    for _ in range(40):
        optimizer.zero_grad()
        loss(scores, y).backward()
        optimizer.step()
    assert torch.equal(loss.layer(scores).argmax, y)


def test_limits_of_rows():
    loss = cmpe.torch.FenchelYoung(faults(most=2), samples=2, seed=0)
    y = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 1, 1, 0]])
    assert loss(torch.zeros(2, 5, 3), y, [0, 2]).isfinite()
    with pytest.raises(ModelError, match=r"row 1: y must be allowed.*faults: 2 <= 1"):
        loss(torch.zeros(2, 5, 3), y, {"faults": torch.tensor([0.0, 1.0])})


def test_refusals():
    with pytest.raises(MethodError, match="sigma must be above 0"):
        cmpe.torch.FenchelYoung(faults(), sigma=0.0)
