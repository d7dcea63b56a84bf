import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import cmpe
from cmpe import Recipe, Status
from cmpe.bounds.splitting import Cut
from cmpe.errors import MethodError, TooLarge
from cmpe.generation import generate, grid
from cmpe.solvers import auto, exact, reduction
from cmpe.solvers.exact import complete
from cmpe.solvers.wide import race, turns
from tests.problems import Shape, random_problem, seeds, worked_example


@settings(max_examples=100)
@given(seeds)
def test_auto_proves_what_enumeration_finds(seed):
    problem, evidence = random_problem(seed)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence)
    np.testing.assert_array_equal(found.status, truth.status)
    np.testing.assert_allclose(found.objective, truth.objective, atol=1e-9)


@settings(max_examples=100)
@given(seeds)
def test_lagrangian_is_certified_and_never_claims_too_much(seed):
    problem, evidence = random_problem(seed)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="lagrangian")
    answered = truth.feasible
    assert (found.bound[answered] >= truth.objective[answered]).all()
    assert (found.objective[found.feasible] <= truth.objective[found.feasible] + 1e-9).all()
    proved = found.status == Status.INFEASIBLE
    assert (truth.status[proved] == Status.INFEASIBLE).all()
    if len(problem.constraints) == 1:
        np.testing.assert_array_equal(found.feasible, truth.feasible)


def test_a_gap_is_enough_where_it_is_certified():
    made = generate(grid(7, 7, seed=5), Recipe(percentile=10, samples=400))
    exact = cmpe.solve(made.problem, made.test, method="exact")
    rough = cmpe.solve(made.problem, made.test, gap=0.5)
    assert (rough.gap <= 0.5).all()
    assert (rough.bound >= exact.objective - 1e-9).all()
    assert "lagrangian" in rough.method
    tight = cmpe.solve(made.problem, made.test, gap=1e-9)
    assert "exact" in tight.method
    np.testing.assert_allclose(tight.objective, exact.objective)


@pytest.fixture
def wide(monkeypatch):
    """Everything is too wide to eliminate, and every split is loose."""
    monkeypatch.setattr(exact, "MOST_BYTES", -1)
    monkeypatch.setattr(complete, "MOST_BYTES", -1)
    monkeypatch.setattr(turns, "MOST_BYTES", -1)
    monkeypatch.setattr(turns, "EXACT", turns.EXACT._replace(narrow_bytes=-1))
    monkeypatch.setattr(race.Race, "prove_at_once", lambda self: False)
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(narrow_bytes=0))
    loose = lambda s, work, tied=2: Cut("leaves", 1, work.seed).relaxation(s)  # noqa: E731
    monkeypatch.setattr(reduction, "by_size", loose)
    monkeypatch.setattr(auto, "by_size", loose)


on_wide_rows = pytest.mark.usefixtures("wide")


@on_wide_rows
@pytest.mark.parametrize("gap", [1e-9, 0.1, 2.0])
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds)
def test_a_gap_is_certified_on_wide_rows(gap, seed):
    problem, evidence = random_problem(seed, Shape(constraints=3, factors=8))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, gap=gap)
    np.testing.assert_array_equal(found.feasible, truth.feasible)
    np.testing.assert_array_equal(
        found.status == Status.INFEASIBLE, truth.status == Status.INFEASIBLE
    )
    answered = truth.feasible
    proved = found.status[answered] == Status.OPTIMAL
    assert (proved | (found.gap[answered] <= gap)).all()
    assert (found.bound[answered] >= truth.objective[answered] - 1e-9).all()
    assert (truth.objective[answered] - found.objective[answered] <= max(gap, 1e-5)).all()


@on_wide_rows
@pytest.mark.parametrize("time_limit", [1e-9, 0.01])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seeds)
def test_a_gap_in_too_little_time_is_still_true(time_limit, seed):
    problem, evidence = random_problem(seed, Shape(constraints=3, factors=8))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, gap=0.5, time_limit=time_limit)
    answered = truth.feasible
    assert (found.feasible <= answered).all()
    assert (found.bound[answered] >= truth.objective[answered] - 1e-9).all()
    assert not answered[found.status == Status.INFEASIBLE].any()


@on_wide_rows
def test_wide_rows_stop_at_the_cheapest_method_that_certifies_the_gap():
    made = generate(grid(6, 6, seed=3), Recipe(percentile=20, samples=200, evidence_fraction=0.3))
    rows = made.train[:5]
    found = [cmpe.solve(made.problem, rows, gap=gap) for gap in (1e3, 1e-6)]
    assert set(found[0].method.tolist()) == {"search+splitting"}
    assert set(found[1].method.tolist()) == {"search+splitting+reduction"}
    assert (found[1].status == Status.OPTIMAL).all()
    np.testing.assert_allclose(
        found[1].objective, cmpe.solve(made.problem, rows, method="milp").objective, rtol=1e-6
    )
    assert set(cmpe.solve(made.problem, rows).method.tolist()) == {"presolve+search+reduction"}


@on_wide_rows
def test_what_cannot_be_split_is_left_to_milp(monkeypatch):
    def refuse(structure, work, tied=2):
        raise TooLarge("no split is small enough")

    monkeypatch.setattr(reduction, "by_size", refuse)
    monkeypatch.setattr(auto, "by_size", refuse)
    problem, row = worked_example(), [[1, 1], [0, 0]]
    assert cmpe.solve(problem, row).labels == ["optimal", "infeasible"]
    found = cmpe.solve(problem, row, gap=0.1)
    assert found.labels == ["optimal", "infeasible"]
    assert set(found.method.tolist()) == {"search+reduction+milp"}


def test_gaps_that_make_no_sense_are_refused():
    with pytest.raises(MethodError, match="at least 0, found -1"):
        cmpe.solve(worked_example(), gap=-1)
    with pytest.raises(MethodError, match="only method auto takes a gap, found 'milp'"):
        cmpe.solve(worked_example(), method="milp", gap=0.1)
