"""`exact` against enumeration on thousands of rows, and against HiGHS on mid-size ones."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import cmpe
from cmpe import Constraint, LogLinearModel, Problem, Recipe, Running, Status
from cmpe.bounds.splitting import Cut
from cmpe.generation import generate, grid
from cmpe.solvers import exact, reduction
from cmpe.solvers.exact import complete
from cmpe.solvers.exact.complete import Exact
from cmpe.solvers.exact.trace import trace
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


def test_what_the_engine_cannot_prove_goes_to_milp(monkeypatch):
    """With room for a handful of states, rows are handed on with their incumbent and bound."""
    made = generate(grid(7, 7, seed=2), Recipe(percentile=10, samples=60))
    truth = cmpe.solve(made.problem, made.test, method="exact")
    monkeypatch.setattr(exact, "MOST_STATES", 6)
    answers = cmpe.solve(made.problem, made.test, method="exact")
    assert "exact+milp" in set(answers.method.tolist())
    np.testing.assert_array_equal(answers.status, truth.status)
    np.testing.assert_allclose(answers.objective, truth.objective, rtol=1e-7)


def test_a_start_outlives_an_engine_that_proves_nothing(monkeypatch):
    made = generate(grid(7, 7, seed=2), Recipe(percentile=10, samples=60))
    truth = cmpe.solve(made.problem, made.test, method="exact")
    monkeypatch.setattr(exact, "MOST_STATES", 1)
    monkeypatch.setattr(complete, "continue_with", lambda stage, instances, known, limits: known)
    alone = ask(Exact(), made.problem, made.test)
    assert (alone.status == Status.UNKNOWN).all()
    given = ask(Exact(), made.problem, made.test, running=Running(start=truth.assignments))
    np.testing.assert_allclose(given.objective, truth.objective)
    np.testing.assert_array_equal(given.bound, np.maximum(alone.bound, given.objective))


@pytest.fixture
def wide(monkeypatch):
    """Everything is too wide to eliminate, and reduction has to split and branch."""
    monkeypatch.setattr(exact, "MOST_BYTES", -1)
    monkeypatch.setattr(reduction, "NARROW_BYTES", 0)
    monkeypatch.setattr(reduction, "STEPS", 10)
    monkeypatch.setattr(
        reduction, "by_size", lambda s, work: Cut("leaves", 1, work.seed).relaxation(s)
    )


on_wide_rows = pytest.mark.usefixtures("wide")
few = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def wide_grid(rows=6):
    made = generate(grid(6, 6, seed=3), Recipe(percentile=20, samples=200, evidence_fraction=0.3))
    return made.problem, made.train[:rows]


def assert_true(found, truth):
    """What is said of a row holds, proved or not."""
    answered = truth.feasible
    assert (found.feasible <= answered).all()
    assert (found.objective[found.feasible] <= truth.objective[found.feasible] + 1e-9).all()
    assert (found.bound[answered] >= truth.objective[answered] - 1e-9).all()
    proved = found.status == Status.OPTIMAL
    np.testing.assert_allclose(found.objective[proved], truth.objective[proved], rtol=1e-6)
    assert not answered[found.status == Status.INFEASIBLE].any()


@on_wide_rows
@pytest.mark.parametrize("constraints", [0, 1, 2, 3])
@few
@given(seeds)
def test_wide_rows_are_proved(constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints, factors=8))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="exact")
    np.testing.assert_array_equal(found.status, truth.status)
    np.testing.assert_allclose(found.objective, truth.objective, rtol=1e-6, atol=1e-6)
    assert_true(found, truth)
    assert set(found.method.tolist()) == {"search+reduction"}


@on_wide_rows
@pytest.mark.parametrize("time_limit", [1e-9, 1e-3, 0.02])
@few
@given(seeds)
def test_wide_rows_say_nothing_false_when_time_is_short(time_limit, seed):
    problem, evidence = random_problem(seed, Shape(constraints=3, factors=8))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert_true(cmpe.solve(problem, evidence, method="exact", time_limit=time_limit), truth)


@on_wide_rows
@few
@given(seeds)
def test_what_reduction_leaves_open_goes_to_milp(seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(complete, "MOST_NODES", 1)
        problem, evidence = random_problem(seed, Shape(constraints=2, factors=8))
        truth = cmpe.solve(problem, evidence, method="exhaustive")
        found = cmpe.solve(problem, evidence, method="exact")
    np.testing.assert_array_equal(found.status, truth.status)
    assert_true(found, truth)
    assert set(found.method.tolist()) <= {"search+reduction", "search+reduction+milp"}


def test_every_stage_of_a_wide_row_shows_in_its_method(monkeypatch):
    monkeypatch.setattr(exact, "MOST_BYTES", 10)
    problem = worked_example()
    answers = cmpe.solve(problem, [[1, 1], [0, 0]], method="exact")
    assert answers.labels == ["optimal", "infeasible"]
    assert set(answers.method.tolist()) == {"search+reduction"}
    monkeypatch.setattr(complete, "MOST_NODES", 0)
    answers = cmpe.solve(problem, [[1, 1], [0, 0]], method="exact")
    assert answers.labels == ["optimal", "infeasible"]
    assert set(answers.method.tolist()) == {"search+reduction+milp"}


def test_only_constrained_rows_are_slow(monkeypatch):
    monkeypatch.setattr(exact, "SLOW_BYTES", 0)
    problem, evidence = wide_grid(2)
    free = Problem(problem.objective, (), problem.evidence_variables)
    assert set(ask(Exact(), problem, evidence).method) == {"search+reduction"}
    assert set(ask(Exact(), free, evidence).method) == {"exact"}


@on_wide_rows
def test_a_start_is_used_on_wide_rows():
    problem, evidence = wide_grid()
    truth = cmpe.solve(problem, evidence, method="milp")
    running = Running(start=truth.assignments)
    found = ask(Exact(), problem, evidence, time_limit=1e-9, running=running)
    np.testing.assert_allclose(found.objective, truth.objective)


@on_wide_rows
def test_ctrl_c_on_wide_rows_keeps_what_is_finished():
    problem, evidence = wide_grid()

    def stop(done, total):
        assert total == len(evidence)
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(cmpe.Interrupted, match="after 2 of 6 rows") as caught:
        ask(Exact(), problem, evidence, running=Running(progress=stop))
    kept = caught.value.solutions
    assert kept.method.tolist() == ["search+reduction"] * 2 + ["search"] * 4
    assert (kept.status[:2] == Status.OPTIMAL).all()
    assert (kept.status[2:] == Status.FEASIBLE).all()


@on_wide_rows
def test_progress_on_wide_rows_counts_all_rows(monkeypatch):
    monkeypatch.setattr(complete, "MOST_NODES", 0)
    problem, evidence = wide_grid(3)
    seen = []
    running = Running(progress=lambda done, total: seen.append((done, total)))
    assert (ask(Exact(), problem, evidence, running=running).status == Status.OPTIMAL).all()
    assert seen == [(1, 3), (2, 3), (3, 3)] * 2


@on_wide_rows
def test_a_trace_of_a_wide_row_closes_in_on_the_optimum():
    problem, evidence = wide_grid()
    optimum = cmpe.solve(problem, evidence[:1], method="milp").objective[0]
    events = trace(problem, evidence)
    assert [e.states for e in events] == list(range(len(events)))
    assert len(events) > 2
    for now, then in pairwise(events):
        assert now.seconds <= then.seconds
        assert now.bound >= then.bound
        assert now.incumbent <= then.incumbent
    assert all(e.bound >= optimum - 1e-9 for e in events)
    assert events[-1].incumbent == pytest.approx(optimum)
    assert events[-1].bound == pytest.approx(optimum, rel=1e-6)
    assert len(trace(problem, evidence, time_limit=1e-9)) <= 2


@on_wide_rows
def test_a_trace_of_a_wide_infeasible_row_ends_with_its_proof():
    events = trace(worked_example(), [[0, 0]])
    assert np.isnan([e.incumbent for e in events]).all()
    assert events[-1].bound == -np.inf


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


def test_a_trace_closes_in_on_the_optimum():
    made = generate(grid(9, 9, seed=4), Recipe(percentile=5, samples=200, evidence_fraction=0.3))
    optimum = cmpe.solve(made.problem, made.test[:1], method="exact").objective[0]
    events = trace(made.problem, made.test)
    bounds = [e.bound for e in events]
    assert bounds == sorted(bounds, reverse=True)
    assert all(e.bound >= optimum - 1e-9 for e in events)
    assert events[-1].incumbent == pytest.approx(optimum)
    assert all(e.seconds > 0 for e in events)


def test_no_free_variable_and_no_row():
    problem = worked_example().observing((0, 1, 2, 3))
    answers = ask(Exact(), problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert answers.labels == ["optimal", "infeasible"]
    assert len(ask(Exact(), problem, np.zeros((0, 4), dtype=int))) == 0
