"""The compiled pass says what the torch pass says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe import Problem, solve
from cmpe.core.lanes import LANES
from cmpe.learning.amortised.compiled import CompiledMessages, untrained
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.tables import ModelTables
from cmpe.models.loglinear import Factor, LogLinearModel
from tests.learning.amortised.cases import config, posed, questions
from tests.learning.cases import mixed_problem


@pytest.mark.parametrize("width", [0, 5])
@pytest.mark.parametrize(
    "problem",
    [posed(), mixed_problem(), Problem(posed().objective)],
    ids=["grid", "mixed", "no constraint"],
)
def test_rounded_answers_and_multipliers_are_those_of_torch(problem, width):
    settings = config(width=width, seed=1)
    tables = ModelTables(problem)
    network = network_of(settings, tables)
    random = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for weights in network.parameters():
            weights += 0.2 * torch.randn(weights.shape, generator=random)
    _, asked = questions(problem, 40, 2)
    with torch.inference_mode():
        said = network(tables, asked.given, asked.limits)
        points = tables.points(said.logits, tables.allowed(asked.given))
    wanted = tables.rounded(points).numpy()
    compiled = CompiledMessages(tables, dict(network.state_dict()))
    found, prices = compiled.predict(asked.given.numpy(), asked.limits.numpy())
    np.testing.assert_allclose(prices, said.multipliers, rtol=2e-2, atol=2e-3)
    sure = (points.topk(2, 1).values.diff(dim=1).abs()[:, 0] > 0.02).t().numpy()
    np.testing.assert_array_equal(found[sure], wanted[sure])
    assert sure.mean() > 0.9


def test_answers_lean_over_the_limit_as_far_as_they_are_told():
    problem = posed(6)
    tables = ModelTables(problem)
    weights = dict(network_of(config(steps=12, width=0), tables).state_dict())
    _, asked = questions(problem, 64, 2)
    given, limits = asked.given.numpy(), asked.limits.numpy()
    share = []
    for lean in (-3.0, 0.0, 3.0):
        weights["lean"] = torch.tensor([lean, 0.0, 0.0])
        found, _ = CompiledMessages(tables, weights, sure=True).predict(given, limits)
        t = problem.constraints[0].function.value(found)
        share.append(float((t > limits[:, 0]).mean()))
    assert share[0] < share[1] < share[2]


def test_no_rows_are_no_answers():
    found, prices = untrained(posed()).predict(np.zeros((0, 16), dtype=np.int32), np.zeros((0, 1)))
    assert found.shape == (0, 16)
    assert prices.shape == (0, 1)


def test_a_row_is_answered_alone_as_in_any_block():
    """What evidence fixes in all rows of a block is left out; it is not the same for each."""
    problem = mixed_problem()
    tables = ModelTables(problem)
    network = network_of(config(width=4, seed=2), tables)
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weights in network.parameters():
            weights += 0.2 * torch.randn(weights.shape, generator=random)
    compiled = CompiledMessages(tables, dict(network.state_dict()))
    _, asked = questions(problem, 2 * LANES + 3, 5)
    given, limits = asked.given.numpy(), asked.limits.numpy()
    together = compiled.predict(given, limits)
    alone = [compiled.predict(given[i : i + 1], limits[i : i + 1]) for i in range(len(given))]
    np.testing.assert_array_equal(together[0], np.concatenate([a for a, _ in alone]))
    np.testing.assert_allclose(together[1], np.concatenate([p for _, p in alone]), rtol=1e-4)
    seen = given >= 0
    np.testing.assert_array_equal(together[0][seen], given[seen])


def test_on_a_tree_messages_without_softness_or_damping_find_the_best_assignment():
    """As max-product does, also through tables of three variables."""
    random = np.random.default_rng(4)
    cards = (2, 3, 2, 4, 2, 3, 2)
    scopes = [(0,), (0, 1, 2), (2, 3), (3, 4), (3, 5, 6), (6,)]
    factors = [Factor(s, random.normal(0, 2, [cards[v] for v in s])) for s in scopes]
    problem = Problem(LogLinearModel(cards, tuple(factors)))
    tables = ModelTables(problem)
    network = network_of(config(steps=6, width=0), tables)
    with torch.no_grad():
        network.log_temperature.fill_(-7.0)
        network.damping.fill_(-30.0)
    compiled = CompiledMessages(tables, dict(network.state_dict()))
    given = np.full((40, len(cards)), -1)
    for row, mask in zip(given, random.random(given.shape) < 0.3, strict=True):
        row[mask] = random.integers(0, cards)[mask]
    found, _ = compiled.predict(given, np.zeros((40, 0)))
    for row, answer in zip(given, found, strict=True):
        seen = [v for v in range(len(cards)) if row[v] >= 0]
        best = solve(problem.observing(seen), row[seen][None], method="exact").objective[0]
        assert np.isclose(problem.objective.value(answer[None])[0], best)
