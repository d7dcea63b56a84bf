"""Every bound, at every amount of work, against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.problems import Shape, random_problem, seeds

import cmpe
from cmpe.bounds import BOUNDS, Bounds, Work, bound, bounder
from cmpe.bounds.bounding import least_objective
from cmpe.bounds.descent import minimise
from cmpe.bounds.knapsack import Knapsack
from cmpe.bounds.minibucket import MiniBucket
from cmpe.bounds.splitting import Cut, Splitting
from cmpe.errors import MethodError, TooLarge
from cmpe.generation import grid

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


@pytest.mark.parametrize("kind", ["layers", "leaves"])
@settings(max_examples=150)
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 3, 60]))
def test_narrow_cuts_hold_and_more_work_is_never_worse(kind, seed, size, tied, steps):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    relaxation = Cut(kind, size, seed % 5, tied).relaxation(instances.conditioning)
    less = minimise(instances, relaxation, Work(steps=steps))
    more = minimise(instances, relaxation, Work(steps=steps + 20))
    check(less, truth)
    check(more, truth)
    assert (more.upper <= less.upper + 1e-9).all()


@settings(max_examples=150)
@given(seeds, st.integers(1, 2))
def test_cost_shifting_is_never_worse_than_plain_mini_buckets(seed, i_bound):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    plain = MiniBucket(i_bound, shift=False).upper_bound(instances, Work(steps=20))
    shifted = MiniBucket(i_bound).upper_bound(instances, Work(steps=60))
    check(plain, cmpe.solve(problem, evidence, method="exhaustive"))
    assert (shifted.upper <= plain.upper + 1e-9).all()


@settings(max_examples=60)
@given(seeds)
def test_an_i_bound_of_the_width_is_elimination(seed):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    exact = bound(instances, "lagrangian")
    reached = MiniBucket(problem.plan.width).upper_bound(instances, Work(steps=1))
    np.testing.assert_allclose(reached.upper, exact.upper, atol=1e-9)


def test_one_bucket_less_than_the_width_splits_something():
    problem = cmpe.Problem(grid(5, 5, seed=1))
    instances = problem.given()
    width = problem.plan.width
    assert MiniBucket(width - 3).relaxation(instances.conditioning).copies > 0
    optimum = bound(instances, "lagrangian").upper[0]
    plain = MiniBucket(1, shift=False).upper_bound(instances, Work(steps=5)).upper[0]
    shifted = MiniBucket(1).upper_bound(instances, Work(steps=300)).upper[0]
    assert optimum <= shifted < plain - 1e-3


def test_splitting_approaches_elimination_on_a_grid():
    model = grid(8, 8, seed=3)
    second = model.perturb(0.1, 4)
    problem = cmpe.Problem(model, (cmpe.Constraint(second, 0.9 * _most(second)),))
    instances = problem.given()
    exact = bound(instances, "lagrangian").upper[0]
    narrow, tied = (
        minimise(
            instances, Cut("layers", 3, 0, t).relaxation(instances.conditioning), Work(steps=400)
        ).upper[0]
        for t in (1, 2)
    )
    messages = bound(instances, "messages", Work(steps=200)).upper[0]
    assert exact <= tied + 1e-6
    assert tied <= narrow + 1e-3
    assert tied < messages


def _most(model: cmpe.LogLinearModel) -> float:
    return float(cmpe.solve(cmpe.Problem(model), None).objective[0])


@settings(max_examples=100)
@given(seeds)
def test_branching_tightens_the_knapsack(seed):
    problem, evidence = random_problem(seed, Shape(variables=5, factors=4, constraints=2))
    instances = problem.given(evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    one, many = (Knapsack(n).upper_bound(instances, Work(steps=10)) for n in (1, 64))
    check(many, truth)
    assert (many.upper <= one.upper + 1e-9).all()


def test_a_knapsack_of_single_variables_is_solved_exactly():
    h = cmpe.LogLinearModel.from_tables(
        [2, 2, 2], [((v,), [0, p]) for v, p in enumerate((6, 5, 4))]
    )
    t = cmpe.LogLinearModel.from_tables(
        [2, 2, 2], [((v,), [0, w]) for v, w in enumerate((5, 4, 3))]
    )
    instances = cmpe.Problem(h, (cmpe.Constraint(t, 7.0),)).given()
    work = Work(steps=50)
    assert bound(instances, "knapsack", work).upper[0] == pytest.approx(9, abs=1e-6)  # 5 + 4
    assert bound(instances, "messages", work).upper[0] > 9.1  # its relaxation mixes items


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


def test_the_split_is_chosen_on_training_rows():
    problem = cmpe.Problem(grid(7, 7, seed=2), evidence_variables=(0, 24))
    rows = problem.given([[0, 0], [1, 0], [0, 1], [1, 1]])
    work = Work(steps=60)
    fitted = Splitting(attempts=1).fitted([rows], work)
    assert fitted.relaxation is not None
    other = Cut("leaves", 4, 0).relaxation(rows.conditioning)
    chosen = fitted.upper_bound(rows, work).upper.mean()
    assert chosen <= minimise(rows, other, work).upper.mean() + 1e-9
    assert Splitting().fitted([], work).relaxation is None


def test_a_split_of_another_structure_is_not_used():
    wide = cmpe.Problem(grid(6, 6, seed=2)).given()
    fitted = Splitting(Cut("layers", 3, 0).relaxation(wide.conditioning))
    other = cmpe.Problem(grid(4, 4, seed=1)).given()
    assert fitted.upper_bound(other, Work(steps=5)).upper[0] >= _most(grid(4, 4, seed=1)) - 1e-9


def test_a_time_limit_stops_and_more_time_is_no_worse():
    instances = cmpe.Problem(grid(9, 9, seed=5)).given()
    split = Splitting(Cut("layers", 3, 0).relaxation(instances.conditioning))
    short, longer = (split.upper_bound(instances, Work(time_limit=s)) for s in (0.0, 0.05))
    assert short.steps[0] <= 1 < longer.steps[0]
    assert longer.upper[0] <= short.upper[0] + 1e-9


def test_what_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("cmpe.bounds.relaxation.MOST_PAIRS", 100)
    with pytest.raises(TooLarge, match=r"have \d+ entries; the limit is 100: try a smaller width"):
        MiniBucket(3).upper_bound(cmpe.Problem(grid(6, 6, seed=2)).given(), Work(steps=1))


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
    limit = 0.8 * _most(second)
    one, other = (
        cmpe.Problem(model, (cmpe.Constraint(second.scale(s), s * limit),)).given()
        for s in (1.0, scale)
    )
    split = Splitting(Cut("layers", 3, 0).relaxation(one.conditioning))
    chosen = split if method == "splitting" else bounder(method)
    work = Work(steps=100)
    values = [chosen.upper_bound(i, work).upper[0] for i in (one, other)]
    assert values[1] == pytest.approx(values[0], abs=0.02)
