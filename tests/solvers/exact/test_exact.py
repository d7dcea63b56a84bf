"""`exact` against enumeration on thousands of rows, and against HiGHS on mid-size ones."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Limits, LogLinearModel, Problem, Recipe, Running, Status
from cmpe.core.settings import EXACT
from cmpe.generation import generate, grid
from cmpe.solvers.exact import (
    lane_bytes,
    rounds_within,
    seconds_of_elimination,
    too_wide,
)
from cmpe.solvers.exact.complete import Exact
from tests.problems import Shape, ask, random_problem, seeds, worked_example


def assert_proved(problem, evidence):
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="exact")
    np.testing.assert_array_equal(found.status, truth.status)
    np.testing.assert_allclose(found.objective, truth.objective, atol=1e-9, rtol=1e-9)
    answered = truth.feasible
    assert (found.bound[answered] >= truth.objective[answered]).all()
    return found


@pytest.mark.parametrize("constraints", [0, 1, 2, 3])
@settings(max_examples=400)
@given(seeds)
def test_small_problems_of_every_kind(constraints, seed):
    assert_proved(*random_problem(seed, Shape(constraints=constraints)))


@pytest.mark.parametrize("constraints", [1, 3])
@settings(max_examples=150)
@given(seeds)
def test_many_binary_variables(constraints, seed):
    shape = Shape(variables=13, values=2, arity=2, factors=35, constraints=constraints)
    assert_proved(*random_problem(seed, shape))


@settings(max_examples=60)
@given(seeds)
def test_tables_of_arity_four(seed):
    shape = Shape(variables=8, values=3, arity=4, factors=10, constraints=1)
    assert_proved(*random_problem(seed, shape))


def test_hundreds_of_rows_cross_lanes_and_chunks():
    shape = Shape(variables=9, values=3, arity=3, factors=14, constraints=1)
    checked = 0
    for seed in range(40):
        problem, _ = random_problem(seed, shape)
        observed = problem.evidence_variables
        if not observed:
            continue
        rng = np.random.default_rng(seed)
        cards = [problem.objective.cardinalities[v] for v in observed]
        rows = rng.integers(0, cards, (600, len(observed)))
        distinct, where = np.unique(rows, axis=0, return_inverse=True)
        few = cmpe.solve(problem, distinct, method="exhaustive")
        many = ask(Exact(), problem, rows, running=Running(threads=2))
        np.testing.assert_array_equal(many.status, few.status[where.ravel()])
        np.testing.assert_allclose(many.objective, few.objective[where.ravel()], atol=1e-9)
        checked += len(rows)
    assert checked > 5_000


@pytest.mark.parametrize(
    ("values", "percentile", "variance"),
    [(2, 10, 0.1), (2, 80, 0.1), (3, 30, 0.1), (5, 10, 0.1), (2, 1, 0.001)],
)
def test_mid_size_grids_agree_with_highs(values, percentile, variance):
    recipe = Recipe(percentile=percentile, samples=100, noise_variance=variance)
    made = generate(grid(7, 7, values=values, seed=values), recipe)
    ours = cmpe.solve(made.problem, made.test, method="exact")
    theirs = cmpe.solve(made.problem, made.test, method="milp:highs")
    assert set(ours.method.tolist()) == {"exact"}
    np.testing.assert_array_equal(ours.status, theirs.status)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-7)


def test_two_constraints_on_a_grid_agree_with_highs():
    made = generate(grid(7, 7, seed=3), Recipe(percentile=30, samples=100))
    second = made.problem.objective.perturb(0.1, 99)
    value = np.quantile(second.value(cmpe.sample(second, 100, 5).assignments), 0.3)
    constraints = (*made.problem.constraints, Constraint(second, float(value)))
    problem = Problem(made.problem.objective, constraints, made.problem.evidence_variables)
    ours = cmpe.solve(problem, made.test, method="exact")
    theirs = cmpe.solve(problem, made.test, method="milp:highs")
    np.testing.assert_array_equal(ours.status, theirs.status)
    np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-7)


def test_threads_and_repeats_change_nothing():
    made = generate(grid(6, 6, seed=1), Recipe(percentile=20, samples=8000))
    first, again, threaded = (
        ask(Exact(), made.problem, made.train[:1200], running=Running(threads=t)) for t in (1, 1, 3)
    )
    np.testing.assert_array_equal(first.assignments, again.assignments)
    np.testing.assert_array_equal(first.assignments, threaded.assignments)
    np.testing.assert_array_equal(first.bound, threaded.bound)


@pytest.mark.parametrize("excess", [0.0, 0.99e-6, 1.0000001e-6, 1.02e-6, 2e-6])
def test_one_tolerance_decides_ties(excess):
    h = LogLinearModel.from_tables([2, 2], [((0,), [0.0, 1.0]), ((1,), [0.0, 0.1])])
    t = LogLinearModel.from_tables([2, 2], [((0,), [0.0, excess])])
    answer = cmpe.solve(Problem(h, (Constraint(t, 0.0),)), method="exact")
    assert Status(answer.status[0]) is Status.OPTIMAL
    assert answer.assignments[0, 0] == int(excess <= 1e-6)


def test_a_tiny_time_limit_still_gives_true_statuses():
    made = generate(grid(7, 7, seed=2), Recipe(percentile=10, samples=60))
    truth = cmpe.solve(made.problem, made.test, method="exact")
    limited = cmpe.solve(made.problem, made.test, method="exact", time_limit=1e-3)
    assert (limited.bound >= truth.objective - 1e-9).all()
    assert made.problem.is_feasible(limited.assignments[limited.feasible]).all()


def test_ctrl_c_keeps_finished_chunks():
    made = generate(grid(4, 4, seed=1), Recipe(samples=2000))

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(cmpe.Interrupted, match="after 512 of 1800 rows") as caught:
        ask(Exact(), made.problem, made.train, running=Running(progress=stop))
    status = caught.value.solutions.status
    assert (status[:512] == Status.OPTIMAL).all()
    assert (status[512:] == Status.UNKNOWN).all()


def test_no_free_variable_and_no_row():
    problem = worked_example().observing((0, 1, 2, 3))
    answers = ask(Exact(), problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert answers.labels == ["optimal", "infeasible"]
    assert len(ask(Exact(), problem, np.zeros((0, 4), dtype=int))) == 0


def test_several_constraints_beyond_the_cache_are_known_to_be_slow():
    """Sixty steps through memory each: what began within 6 s ran for minutes."""
    h = grid(13, 13, seed=0)
    one, two = (Problem(h, [grid(13, 13, seed=j) <= 0.0 for j in range(1, m + 1)]) for m in (1, 2))
    assert lane_bytes(one) > EXACT.cached_bytes
    assert seconds_of_elimination(two) > 20 * seconds_of_elimination(one)
    assert rounds_within(one, Limits(seconds=6.0)) >= 1 > rounds_within(two, Limits(seconds=6.0))


def test_slow_rows_are_presolved_first_whatever_the_limit():
    """Consistency proves in 0.03 s what the pass would take seconds for, or the race eliminates."""
    problem = Problem(grid(16, 16, seed=0))
    assert lane_bytes(problem) > EXACT.slow_bytes
    assert too_wide(problem, Limits(seconds=1000 * seconds_of_elimination(problem)))
    assert too_wide(problem, Limits())
