"""Exact answers of wide rows: fixing, eliminating and branching against brute force."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cmpe
from cmpe.bounds.splitting import Cut
from cmpe.generation import grid
from cmpe.solvers import reduction
from cmpe.solvers.reduction import Reduction
from tests.problems import Shape, ask, random_problem, seeds

AWKWARD = Shape(variables=5, factors=8, constraints=3)


@pytest.fixture
def everything_is_wide(monkeypatch):
    """Nothing but complete assignments is narrow, and every split is loose."""
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(narrow_bytes=0))
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(split_steps=10))
    monkeypatch.setattr(
        reduction, "by_size", lambda s, work, tied=2: Cut("leaves", 1, work.seed).relaxation(s)
    )


def same(answers: cmpe.Solutions, truth: cmpe.Solutions) -> None:
    np.testing.assert_array_equal(answers.status, truth.status)
    np.testing.assert_allclose(answers.objective, truth.objective, rtol=1e-6, atol=1e-6)
    feasible = truth.feasible
    assert (answers.bound[feasible] >= truth.objective[feasible]).all()


@pytest.mark.usefixtures("everything_is_wide")
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.booleans())
def test_branching_proves_what_enumeration_finds(seed, with_start):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    start = np.full((len(truth), problem.variables), -1, dtype=np.int32)
    if with_start:  # any assignment: bad ones and infeasible ones too
        generator = np.random.default_rng(seed)
        cards = problem.objective.cardinalities
        start = np.stack([generator.integers(0, k, len(truth)) for k in cards], axis=1)
        start[:, list(problem.evidence_variables)] = evidence
    running = cmpe.Running(start=start.astype(np.int32))
    same(ask(Reduction(), problem, evidence, running=running), truth)


def test_a_grid_is_proved_by_fixing_and_elimination(monkeypatch):
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(narrow_bytes=1 << 15))
    model = grid(9, 9, seed=1)
    second = model.perturb(0.1, 2)
    best = float(cmpe.solve(cmpe.Problem(second), None).objective[0])
    problem = cmpe.Problem(model, (cmpe.Constraint(second, 0.95 * best),), (0, 40))
    evidence = [[0, 0], [1, 0], [0, 1], [1, 1]]
    truth = cmpe.solve(problem, evidence, method="exact")
    start = cmpe.solve(problem, evidence, method="local").assignments
    answers = ask(Reduction(), problem, evidence, running=cmpe.Running(start=start))
    same(answers, truth)
    assert (answers.status == cmpe.Status.OPTIMAL).all()


def test_a_time_limit_leaves_a_valid_bound(monkeypatch):
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(narrow_bytes=0))
    problem = cmpe.Problem(grid(6, 6, seed=3))
    optimum = cmpe.solve(problem, None, method="exact").objective[0]
    nothing = np.full((1, 36), -1, dtype=np.int32)
    answer = ask(Reduction(), problem, time_limit=1e-9, running=cmpe.Running(start=nothing))
    assert answer.status[0] == cmpe.Status.UNKNOWN
    assert answer.bound[0] >= optimum


def test_without_a_start_it_searches_first():
    problem = cmpe.Problem(grid(5, 5, seed=4))
    answer = ask(Reduction(), problem, time_limit=5)
    assert answer.objective[0] == pytest.approx(
        cmpe.solve(problem, None, method="exact").objective[0], rel=1e-6
    )


@pytest.mark.usefixtures("everything_is_wide")
def test_a_start_that_contradicts_the_evidence_proves_nothing():
    """Its evidence is put right before it counts as an answer."""
    h = cmpe.LogLinearModel.from_tables([2, 2], [((0,), [0.0, 5.0]), ((1,), [0.0, 1.0])])
    start = np.array([[1, 0]], dtype=np.int32)
    answer = ask(Reduction(), cmpe.Problem(h, (), (0,)), [[0]], running=cmpe.Running(start=start))
    assert answer.assignments.tolist() == [[0, 1]]
    assert answer.bound[0] < 1.1


@pytest.mark.usefixtures("everything_is_wide")
@pytest.mark.parametrize("gap", [0.3, 3.0])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds)
def test_it_stops_within_the_gap(gap, seed):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    answers = ask(Reduction(), problem, evidence, gap=gap)
    feasible = truth.feasible
    np.testing.assert_array_equal(answers.feasible, feasible)
    assert (answers.gap[feasible] <= gap).all()
    assert (answers.bound[feasible] >= truth.objective[feasible] - 1e-9).all()


@pytest.mark.usefixtures("everything_is_wide")
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds, st.integers(0, 3))
def test_nodes_left_open_count_with_their_bounds(seed, nodes):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    answers = ask(Reduction(nodes=nodes), problem, evidence)
    feasible = truth.feasible
    assert (answers.feasible <= feasible).all()
    assert (answers.bound[feasible] >= truth.objective[feasible] - 1e-9).all()
    assert not feasible[answers.status == cmpe.Status.INFEASIBLE].any()
