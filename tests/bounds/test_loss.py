"""Bounds for alpha_x against enumeration: tight, as printed, and by mini-buckets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

import cmpe
from cmpe import Problem
from cmpe.bounds.loss import loss_bounds, negated, printed_bounds
from cmpe.errors import MethodError, ModelError
from tests.problems import (
    Shape,
    all_assignments,
    completions,
    random_model,
    random_network_problem,
    random_problem,
    seeds,
)


@pytest.mark.parametrize("constraints", [1, 3])
@settings(max_examples=200)
@given(seeds)
def test_bounds_for_learning_hold_and_missing_is_missing(constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints))
    instances = problem.given(evidence)
    bounds = loss_bounds(instances)
    for row in range(len(instances)):
        rows = completions(instances, row)
        f, g = problem.minimisation(rows)
        feasible = problem.is_feasible(rows)
        if feasible.any():
            assert bounds.p_upper[row] >= f[feasible].min() - 1e-9
        elif constraints == 1:
            assert np.isnan(bounds.p_upper[row])
        violating = (g > 0).any(axis=1) & np.isfinite(f)
        if violating.any():
            least = (f + np.maximum(g, 0).sum(axis=1))[violating].min()
            assert 1.0 <= bounds.q_lower[row] <= least + 1e-9
        elif constraints == 1 and not (g >= 0).any():
            assert np.isnan(bounds.q_lower[row])


@pytest.mark.parametrize("narrow", [True, False])
@pytest.mark.parametrize("constraints", [0, 1, 3])
@settings(max_examples=150)
@given(seeds)
def test_printed_bounds_start_at_the_greatest_f(narrow, constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints))
    instances = problem.given(evidence)
    bounds = printed_bounds(instances, narrow=narrow)
    for row in range(len(instances)):
        rows = completions(instances, row)
        f, g = problem.minimisation(rows)
        allowed = np.isfinite(f)
        if not allowed.any():
            continue
        assert bounds.p_upper[row] >= f[allowed].max() - 1e-6
        if narrow:
            assert bounds.p_upper[row] == pytest.approx(f[allowed].max(), abs=1e-6)
        violating = (g > 0).any(axis=1) & allowed
        if violating.any():
            least = (f + np.maximum(g, 0).sum(axis=1))[violating].min()
            assert 1.0 <= bounds.q_lower[row] <= least + 1e-6


@settings(max_examples=40)
@given(seeds)
def test_printed_bounds_hold_branch_by_branch(seed):
    problem, evidence = random_network_problem(seed)
    instances = problem.given(evidence)
    everything = all_assignments(problem.objective.cardinalities)
    f, _ = problem.minimisation(everything)
    for row, p_upper in zip(instances.full(), printed_bounds(instances).p_upper, strict=True):
        allowed = ((row < 0) | (row == everything)).all(axis=1) & np.isfinite(f)
        if allowed.any():
            assert p_upper >= f[allowed].max() - 1e-6


def test_mini_buckets_need_tables():
    problem, evidence = next(
        made for made in map(random_network_problem, range(9)) if not made[0].is_log_linear
    )
    with pytest.raises(MethodError, match="mini-buckets need log-linear functions"):
        printed_bounds(problem.given(evidence), narrow=False)


@settings(max_examples=50)
@given(seeds)
def test_negated_keeps_what_is_forbidden(seed):
    model = random_model(np.random.default_rng(seed), [2, 3, 2], Shape())
    rows = completions(Problem(model).given(np.zeros((1, 0), dtype=int)), 0)
    value, other = model.value(rows), negated(model).value(rows)
    np.testing.assert_array_equal(np.isneginf(value), np.isneginf(other))
    finite = np.isfinite(value)
    np.testing.assert_allclose(other[finite], -value[finite])


def holds(problem, evidence, points):
    """Against the points (of row 0) that are feasible, and those that violate."""
    bounds = printed_bounds(problem.given(evidence[:1]), narrow=False)
    f, g = problem.minimisation(points)
    assert bounds.p_upper[0] >= f.max() - 1e-6
    violating = (g > 0).any(axis=1)
    if violating.any():
        least = (f + np.maximum(g, 0).sum(axis=1))[violating].min()
        assert 1.0 <= bounds.q_lower[0] <= least + 1e-6
    return bounds


@pytest.mark.parametrize("constraints", [1, 2])
@settings(max_examples=30)
@given(seeds)
def test_bounds_of_variables_in_the_unit_interval(constraints, seed):
    rng = np.random.default_rng(seed)
    n = 4
    shape = Shape(arity=2, factors=4, zeros=False)
    h, *t = (random_model(rng, [2] * n, shape) for _ in range(1 + constraints))
    limits = [cmpe.Constraint(each, float(rng.normal())) for each in t]
    problem = Problem(h, limits, (0,), "", range(n))
    points = np.concatenate([all_assignments([2] * n).astype(float), rng.random((200, n))])
    points[:, 0] = rng.random()
    holds(problem, points[:, :1], points)


@settings(max_examples=60)
@given(seeds)
def test_bounds_of_neural_functions_rules_and_distances(seed):
    rng = np.random.default_rng(seed)
    cards = (2, 2, 2, 2, *(int(k) for k in rng.integers(2, 4, 2)))
    inputs = sum(cards) - len(cards)
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(inputs, 5), nn.ReLU(), nn.Linear(5, 1))
    h = cmpe.NeuralFunction(net, cards)
    if rng.random() < 0.3:
        h = cmpe.Distance(cards, ((0, 1), (2, 3)), (1.0, 0.5))
    t = random_model(rng, cards, Shape(arity=3, zeros=False))
    rules = [cmpe.implies({1: 1}, {2: 1}), cmpe.exactly_one({3: 1, 4: 1})]
    problem = Problem(h, [t <= float(rng.normal()), *rules], (0, 4))
    z = all_assignments(cards)
    row = z[rng.integers(len(z))]
    points = z[(z[:, [0, 4]] == row[[0, 4]]).all(axis=1)]
    holds(problem, row[np.newaxis, [0, 4]], points)
    found = cmpe.bound(problem, row[np.newaxis, [0, 4]])
    feasible = points[problem.is_feasible(points)]
    assert not (found.infeasible[0] and len(feasible))
    if len(feasible):
        assert found.upper[0] >= h.value(feasible).max() - 1e-9
        keeps = (feasible[:, 1] == 0) | (feasible[:, 2] == 1)
        assert keeps.all()
        assert ((feasible[:, 3] == 1) != (feasible[:, 4] == 1)).all()


def test_what_has_no_bound_is_refused():
    h = cmpe.NeuralFunction(nn.Sequential(nn.Linear(3, 1), nn.GELU()), (2, 2, 2), largest=1.0)
    with pytest.raises(ModelError, match="there is no bound for a layer GELU"):
        printed_bounds(Problem(h, [cmpe.count({0: 1}) <= 1]).given(None))
