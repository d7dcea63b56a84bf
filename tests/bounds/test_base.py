"""Every bound, at every amount of work, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cmpe
from cmpe.bounds import BOUNDS, Bounds, Work, bound, bounder
from cmpe.bounds.base import least_objective
from cmpe.bounds.splitting import Cut, Splitting
from cmpe.errors import MethodError
from cmpe.generation import grid
from tests.problems import Shape, random_problem, seeds

AWKWARD = Shape(variables=6, factors=9, constraints=3)


def check(bounds: Bounds, truth: cmpe.Solutions) -> None:
    """No bound lies below a feasible objective, and infeasible means infeasible."""
    feasible = truth.feasible
    assert (bounds.upper[feasible] >= truth.objective[feasible]).all()
    assert not bounds.infeasible[feasible].any()
    assert not np.isnan(bounds.upper).any()
    np.testing.assert_array_equal(bounds.infeasible, bounds.upper == -np.inf)
    assert (bounds.multipliers >= 0).all()


@pytest.mark.parametrize("method", BOUNDS)
@settings(max_examples=120)
@given(seeds, st.sampled_from([0, 1, 5, 40]))
def test_no_bound_lies_below_the_optimum(method, seed, steps):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    check(bound(problem.given(evidence), method, Work(steps=steps, seed=seed % 7)), truth)


def most(model: cmpe.LogLinearModel) -> float:
    return float(cmpe.solve(cmpe.Problem(model), None).objective[0])


def test_rows_do_not_depend_on_threads_or_on_each_other():
    problem, _ = random_problem(7, Shape(variables=6, factors=9, constraints=1))
    problem = problem.observing([0])
    evidence = np.zeros((150, 1), dtype=int)
    evidence[::2] = problem.objective.cardinalities[0] - 1
    for method in BOUNDS:
        work = Work(steps=15)
        alone = bound(problem.given(evidence[:2]), method, work).upper
        together = bound(problem.given(evidence), method, Work(steps=15, threads=2)).upper
        np.testing.assert_allclose(together, np.tile(alone, 75), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", BOUNDS)
def test_infeasible_rows_are_proved_where_the_relaxation_can(method):
    h = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 1], [2, 3]])])
    t = cmpe.LogLinearModel.from_tables([2, 2], [((0,), [5, 6]), ((1,), [1, 2])])
    found = bound(cmpe.Problem(h, (cmpe.Constraint(t, 1.0),)).given(), method, Work(steps=300))
    assert found.infeasible[0]
    assert found.upper[0] == -np.inf


def test_no_rows_are_no_bounds():
    problem = cmpe.Problem(grid(4, 4, seed=2), evidence_variables=(0,))
    none = problem.given(np.zeros((0, 1), dtype=int))
    for method in BOUNDS:
        assert bound(none, method, Work(steps=3)).upper.shape == (0,)


def test_unknown_methods_are_refused():
    with pytest.raises(MethodError, match=r"one of lagrangian, minibucket, .*; found 'best'"):
        bounder("best")


def test_the_least_objective_ignores_zeros_and_missing_tables():
    offsets = np.array([0, 1, 3])
    rows = np.array([[2.0, -np.inf, -1.0], [2.0, -np.inf, -np.inf]])
    np.testing.assert_allclose(least_objective(rows, offsets), [1, -np.inf], atol=1e-5)


@pytest.mark.parametrize("method", ["splitting", "minibucket", "messages", "knapsack"])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_scale_of_the_constraint_hardly_matters(method, scale):
    model = grid(8, 8, seed=6)
    second = model.perturb(0.3, 7)
    limit = 0.8 * most(second)
    one, other = (
        cmpe.Problem(model, (cmpe.Constraint(second.scale(s), s * limit),)).given()
        for s in (1.0, scale)
    )
    split = Splitting(Cut("layers", 3, 0).relaxation(one.conditioning))
    chosen = split if method == "splitting" else bounder(method)
    work = Work(steps=100)
    values = [chosen.upper_bound(i, work).upper[0] for i in (one, other)]
    assert values[1] == pytest.approx(values[0], abs=0.02)
