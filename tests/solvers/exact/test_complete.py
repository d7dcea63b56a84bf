"""What becomes of rows that elimination cannot prove: stages, starts, time, Ctrl-C."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import cmpe
from cmpe import Limits, Problem, Recipe, Running, Solutions, Status
from cmpe.core.settings import EXACT
from cmpe.generation import generate, grid
from cmpe.solvers import exact
from cmpe.solvers.exact import complete
from cmpe.solvers.exact.complete import Exact, prove_wide
from cmpe.solvers.wide import race
from tests.problems import Shape, ask, random_problem, seeds, worked_example
from tests.solvers.exact.wide import assert_true, on_wide_rows, wide_grid

few = settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_what_the_engine_cannot_prove_goes_to_milp(monkeypatch):
    """With room for a handful of states, rows are handed on with their incumbent and bound."""
    made = generate(grid(7, 7, seed=2), Recipe(percentile=10, samples=60))
    truth = cmpe.solve(made.problem, made.test, method="exact")
    monkeypatch.setattr(exact, "EXACT", exact.EXACT._replace(states=6))
    answers = cmpe.solve(made.problem, made.test, method="exact")
    assert "exact+milp" in set(answers.method.tolist())
    np.testing.assert_array_equal(answers.status, truth.status)
    np.testing.assert_allclose(answers.objective, truth.objective, rtol=1e-7)


def test_a_start_outlives_an_engine_that_proves_nothing(monkeypatch):
    made = generate(grid(7, 7, seed=2), Recipe(percentile=10, samples=60))
    truth = cmpe.solve(made.problem, made.test, method="exact")
    monkeypatch.setattr(exact, "EXACT", exact.EXACT._replace(states=1))
    monkeypatch.setattr(complete, "continue_with", lambda stage, instances, known, limits: known)
    alone = ask(Exact(), made.problem, made.test)
    assert (alone.status == Status.UNKNOWN).any()
    given = ask(Exact(), made.problem, made.test, running=Running(start=truth.assignments))
    np.testing.assert_allclose(given.objective, truth.objective)
    np.testing.assert_array_equal(given.bound, np.maximum(alone.bound, given.objective))


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
    assert all(name.startswith("presolve") for name in found.method.tolist())


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
        patch.setattr(complete, "EXACT", complete.EXACT._replace(reduction_nodes=1))
        problem, evidence = random_problem(seed, Shape(constraints=2, factors=8))
        truth = cmpe.solve(problem, evidence, method="exhaustive")
        found = cmpe.solve(problem, evidence, method="exact")
    np.testing.assert_array_equal(found.status, truth.status)
    assert_true(found, truth)
    assert all(name.startswith("presolve") for name in found.method.tolist())


def test_every_stage_of_a_wide_row_shows_in_its_method(monkeypatch):
    monkeypatch.setattr(exact, "MOST_BYTES", 10)
    problem = worked_example()
    answers = cmpe.solve(problem, [[1, 1], [0, 0]], method="exact")
    assert answers.labels == ["optimal", "infeasible"]
    assert answers.method[0] == "presolve"
    assert set(cmpe.solve(problem, [[1, 1]], method="exact", time_limit=9.0).method) == {"race"}
    monkeypatch.setattr(race.Race, "prove_at_once", lambda self: False)
    answers = cmpe.solve(problem, [[1, 1], [0, 0]], method="exact")
    assert answers.labels == ["optimal", "infeasible"]
    assert set(answers.method.tolist()) == {"presolve+search+reduction"}
    monkeypatch.setattr(complete, "EXACT", complete.EXACT._replace(reduction_nodes=0))
    answers = cmpe.solve(problem, [[1, 1], [0, 0]], method="exact")
    assert answers.labels == ["optimal", "infeasible"]
    assert set(answers.method.tolist()) == {"presolve+search+reduction+milp"}


def test_unconstrained_rows_are_eliminated_after_all(monkeypatch):
    monkeypatch.setattr(exact, "EXACT", exact.EXACT._replace(slow_bytes=0))
    monkeypatch.setattr(race.Race, "prove_at_once", lambda self: False)
    problem, evidence = wide_grid(2)
    free = Problem(problem.objective, (), problem.evidence_variables)
    assert set(ask(Exact(), problem, evidence).method) == {"presolve+search+reduction"}
    assert set(ask(Exact(), free, evidence).method) == {"presolve+exact"}


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
    assert kept.method.tolist() == ["presolve+search+reduction"] * 2 + ["presolve+search"] * 4
    assert (kept.status[:2] == Status.OPTIMAL).all()
    assert (kept.status[2:] == Status.FEASIBLE).all()


@on_wide_rows
def test_progress_on_wide_rows_counts_all_rows(monkeypatch):
    monkeypatch.setattr(complete, "EXACT", complete.EXACT._replace(reduction_nodes=0))
    problem, evidence = wide_grid(3)
    seen = []
    running = Running(progress=lambda done, total: seen.append((done, total)))
    assert (ask(Exact(), problem, evidence, running=running).status == Status.OPTIMAL).all()
    assert seen == [(1, 3), (2, 3), (3, 3)] * 2


@pytest.mark.parametrize(
    ("seconds", "nodes", "share"),
    [(None, EXACT.reduction_nodes, 0.75), (10.0, None, 0.75), (3.9, None, 1.0)],
)
def test_how_time_is_shared_between_reduction_and_milp(monkeypatch, seconds, nodes, share):
    """Without a limit nodes bound the work; with a short one reduction takes it all."""
    stages = []

    def record(stage, instances, known, limits):
        stages.append((stage.name, stage.share, getattr(stage.engine, "nodes", None)))
        return known

    monkeypatch.setattr(complete, "continue_with", record)
    instances = worked_example().given([[1, 1]])
    known = Solutions.of(instances.problem, [[1, 1, 0, 1]])
    assert prove_wide(instances, known, Limits(seconds=seconds)) is known
    assert stages == [("reduction", share, nodes), ("milp", 1.0, None)]
