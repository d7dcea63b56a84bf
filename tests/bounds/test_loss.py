"""Bounds for alpha_x against enumeration: tight, as printed, and by mini-buckets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import Problem
from cmpe.bounds.loss import loss_bounds, negated, printed_bounds
from cmpe.errors import MethodError
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
