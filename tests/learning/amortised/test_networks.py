"""Both networks: any mask, any q, any arity; messages are those of max-product on a tree."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cmpe
from cmpe import Factor, LogLinearModel, Problem
from cmpe.generation import grid
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.tables import ModelTables
from tests.learning.amortised.cases import config, posed, questions
from tests.learning.cases import mixed_problem
from tests.refusals import refused


@pytest.mark.parametrize("network", ["messages", "mlp"])
@pytest.mark.parametrize("width", [0, 4])
def test_every_weight_is_trained_and_every_question_answered(network, width):
    problem = mixed_problem()
    maker, asked = questions(problem, 8, 0)
    net = network_of(config(network=network, hidden=(6,), width=width), maker.tables)
    reply = net(maker.tables, asked.given, asked.limits)
    points = maker.tables.points(reply.logits, maker.tables.allowed(asked.given))
    seen = asked.given >= 0
    assert (maker.tables.rounded(points)[seen] == asked.given[seen]).all()
    assert (points >= 0.0).all()
    torch.testing.assert_close(points.sum(1), torch.ones(points.shape[0], 8))
    total = points.square().sum() + (0.0 if reply.multipliers is None else reply.multipliers.sum())
    total.backward()
    used = [p for p in net.parameters() if p.numel()]
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in used)
    assert (reply.multipliers is None) == (network == "mlp")


def test_without_training_messages_find_the_mode_of_a_tree():
    chain = grid(1, 8, seed=4)
    problem = Problem(chain)
    tables = ModelTables(problem)
    net = network_of(config(steps=12, width=0), tables)
    with torch.no_grad():
        net.log_temperature.fill_(-3.0)
    given = torch.full((3, 8), -1)
    given[1, 2], given[2, 5] = 1, 0
    said = net(tables, given, torch.zeros((3, 0)))
    found = tables.rounded(tables.points(said.logits, tables.allowed(given))).numpy()
    best = cmpe.solve(problem.observing([]), given.numpy(), method="exhaustive")
    np.testing.assert_allclose(chain.value(found), best.objective, atol=1e-6)


def test_messages_serve_a_model_of_another_size():
    first, second = ModelTables(posed(3)), ModelTables(posed(5))
    net = network_of(config(), first)
    given, limits = torch.full((2, 25), -1), torch.zeros((2, 1))
    assert net(second, given, limits).logits.shape == (25, 2, 2)
    refused(lambda: _wide(net), "at most 4 variables; use mlp")


def _wide(net):
    tables = ModelTables(Problem(LogLinearModel((2,) * 5, (Factor(range(5), np.zeros((2,) * 5)),))))
    net(tables, torch.full((1, 5), -1), torch.zeros((1, 0)))


def test_an_mlp_of_a_large_model_has_no_linear_map(monkeypatch):
    monkeypatch.setattr("cmpe.learning.amortised.networks.LARGEST_SKIP", 10)
    tables = ModelTables(posed(3))
    net = network_of(config(network="mlp", hidden=(4,)), tables)
    assert net.skip is None
    assert net(tables, torch.full((2, 9), -1), torch.zeros((2, 1))).logits.shape == (9, 2, 2)
