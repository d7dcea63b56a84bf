"""The compiled pass says what the torch pass says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe import Problem
from cmpe.learning.amortised.compiled import CompiledMessages, untrained
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.tables import ModelTables
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


def test_no_rows_are_no_answers():
    found, prices = untrained(posed()).predict(np.zeros((0, 16), dtype=np.int32), np.zeros((0, 1)))
    assert found.shape == (0, 16)
    assert prices.shape == (0, 1)
