"""The functions over all variables: values, slopes and ceilings for rows of any mask."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.learning.amortised.tables import ModelTables
from tests.learning.amortised.cases import completions, posed
from tests.learning.cases import mixed_problem
from tests.refusals import refused

PROBLEM = mixed_problem(zeros=False)  # arity 1 to 3, 2 to 4 values, two constraints
CARDS = PROBLEM.objective.cardinalities


def given_rows(count, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.stack([rng.integers(0, k, count) for k in CARDS], axis=1)
    rows[rng.random(rows.shape) < 0.5] = -1
    return torch.as_tensor(rows)


def random_points(tables, allowed, seed=1):
    logits = torch.randn(allowed.shape, generator=torch.Generator().manual_seed(seed))
    return tables.points(logits, allowed)


def test_values_of_assignments_are_the_functions():
    tables = ModelTables(PROBLEM)
    rows = given_rows(20).clamp(min=0)
    found = tables.values(tables.certain(rows)).numpy()
    wanted = np.stack([f.value(rows.numpy()) for f in PROBLEM.functions], axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-4)
    np.testing.assert_array_equal(tables.rounded(tables.certain(rows)), rows)


def test_values_of_distributions_are_means_over_the_completions():
    tables, given = ModelTables(PROBLEM), given_rows(4)
    points = random_points(tables, tables.allowed(given))
    for b, row in enumerate(given.numpy()):
        every = completions(row, CARDS)
        chance = np.prod([points[v, every[:, v], b].numpy() for v in range(len(CARDS))], axis=0)
        assert chance.sum() == pytest.approx(1.0, abs=1e-5)
        wanted = [chance @ f.value(every) for f in PROBLEM.functions]
        np.testing.assert_allclose(tables.values(points)[b], wanted, atol=1e-4)


def test_fields_are_slopes_of_the_weighted_sum():
    tables, given = ModelTables(PROBLEM), given_rows(5)
    points = random_points(tables, tables.allowed(given)).requires_grad_()
    weights = torch.tensor([[1.0, -0.5, -2.0]]).expand(5, -1)
    (slopes,) = torch.autograd.grad((tables.values(points) * weights).sum(), points)
    exists = tables.exists.unsqueeze(-1)
    found = tables.fields(tables.weighted(weights), points.detach())
    torch.testing.assert_close(found * exists, slopes * exists, atol=1e-4, rtol=1e-4)


def test_ceilings_are_above_every_completion():
    tables, given = ModelTables(PROBLEM), given_rows(6)
    weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, -1.0, 0.0], [0.0, 0.0, -1.0]])
    found = tables.ceilings(tables.allowed(given), weights).numpy()
    for b, row in enumerate(given.numpy()):
        every = completions(row, CARDS)
        values = np.stack([f.value(every) for f in PROBLEM.functions], axis=1)
        assert (found[b] >= (values @ weights.numpy().T).max(axis=0) - 1e-4).all()
    known = torch.zeros((1, len(CARDS)), dtype=torch.int64)  # nothing is free: it is the value
    at = PROBLEM.objective.value(known.numpy())
    assert tables.ceilings(tables.allowed(known), weights)[0, 0] == pytest.approx(at[0], abs=1e-4)


def test_diffusion_lowers_ceilings_and_keeps_them_above_every_completion():
    tables, given = ModelTables(PROBLEM), given_rows(12, seed=4)
    allowed, weights = tables.allowed(given), torch.tensor([[1.0, -0.7, 0.3]])
    found = [
        tables.ceilings(allowed, weights, tables.diffused(allowed, weights, rounds)).numpy()
        for rounds in (0, 1, 4, 16)
    ]
    for before, after in pairwise(found):
        assert (after <= before + 1e-4).all()
    assert found[-1].sum() < found[0].sum() - 0.1
    for b, row in enumerate(given.numpy()):
        every = completions(row, CARDS)
        values = np.stack([f.value(every) for f in PROBLEM.functions], axis=1)
        assert found[-1][b, 0] >= (values @ weights[0].numpy()).max() - 1e-4


def test_multipliers_balance_the_slopes():
    """With t = 2 h the slopes of h are those of t / 2."""
    h = posed().objective
    twice = LogLinearModel(h.cardinalities, [Factor(f.scope, 2.0 * f.log_table) for f in h.factors])
    tables = ModelTables(Problem(h, [Constraint(twice, 0.0)]))
    allowed = tables.allowed(torch.full((3, 16), -1))
    found = tables.multipliers(random_points(tables, allowed))
    np.testing.assert_allclose(found, np.full((3, 1), 0.5), atol=1e-4)
    assert tables.units.tolist() == pytest.approx([1.0])


def test_zeros_and_constants_are_numbers():
    h = LogLinearModel((2, 2), (Factor((1, 0), [[0.0, -np.inf], [1.0, 2.0]]), Factor((), 3.0)))
    tables = ModelTables(Problem(h), floor=20.0)
    rows = torch.tensor([[0, 0], [1, 0], [0, 1]])
    assert tables.values(tables.certain(rows))[:, 0].tolist() == [3.0, -15.0, 4.0]


def test_a_table_that_is_too_large_is_refused():
    h = LogLinearModel((2,) * 13, (Factor(tuple(range(13)), np.zeros((2,) * 13)),))
    assert "at most 4096 entries, found 8192" in refused(lambda: ModelTables(Problem(h)))
