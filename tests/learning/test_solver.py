"""`NeuralSolver`: honest answers whatever the network says, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Status
from cmpe.errors import EvidenceError, Interrupted, MethodError
from cmpe.learning.settings import TRAINING
from cmpe.learning.solver import NeuralSolver
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from tests.learning.cases import GRID, MARGINS, check_honest, small_grid, untrained
from tests.problems import random_problem, seeds


@pytest.mark.parametrize("certificate", ["none", "predicted", "optimal"])
@pytest.mark.parametrize("repair", [True, False])
@settings(max_examples=40)
@given(seeds)
def test_any_network_answers_honestly(certificate, repair, seed):
    problem, evidence = random_problem(seed)
    if certificate == "predicted" and not problem.constraints:
        return
    solver = untrained(problem, seed % 1000).with_stages(repair=repair, certificate=certificate)
    check_honest(problem, evidence, solver.solve(problem, evidence))


@pytest.mark.parametrize("certificate", ["predicted", "optimal"])
def test_a_trained_network_with_repair_leaves_nothing_violated(grid_solver, certificate):
    solver = grid_solver.with_stages(certificate=certificate)
    rows = np.concatenate([GRID.train, GRID.test])
    answers = solver.solve(GRID.problem, rows)
    truth = check_honest(GRID.problem, rows, answers)
    assert truth.feasible.all()
    assert answers.feasible.sum() == len(rows)
    assert np.isfinite(answers.bound).all()
    assert certificate == "predicted" or (answers.status == Status.OPTIMAL).any()
    raw = grid_solver.with_stages(repair=False, margins=[-1.0]).solve(GRID.problem, rows)
    assert (raw.status == Status.VIOLATED).any()  # so that repair had something to do


def test_infeasible_rows_are_proved_so():
    problem = replace(
        GRID.problem, constraints=(Constraint(GRID.problem.constraints[0].function, -1e3),)
    )
    answers = untrained(problem).solve(problem, GRID.test)
    assert (answers.status == Status.INFEASIBLE).all()
    assert (answers.bound == -np.inf).all()


def test_several_margins_keep_the_best_feasible_answer(grid_solver):
    instances = GRID.problem.given(GRID.train)
    each = [
        Solutions.of(GRID.problem, grid_solver.predictor.predict(instances, margin)[0])
        for margin in MARGINS
    ]
    objective = np.stack([np.where(s.feasible, s.objective, -np.inf) for s in each])
    best = objective.max(axis=0)
    for order in (MARGINS, MARGINS[::-1]):
        solver = grid_solver.with_stages(margins=order, repair=False, certificate="none")
        found = solver.solve(GRID.problem, GRID.train)
        np.testing.assert_array_equal(found.feasible, np.isfinite(best))
        np.testing.assert_array_equal(found.objective[found.feasible], best[np.isfinite(best)])
    assert (objective[0] < best).any()  # so that keeping the first one would be wrong
    assert (objective[-1] < best).any()


def test_answers_do_not_depend_on_the_other_rows(grid_solver):
    whole = grid_solver.solve(GRID.problem, GRID.test)
    for k in range(len(GRID.test)):
        alone = grid_solver.solve(GRID.problem, GRID.test[k])
        np.testing.assert_array_equal(alone.assignments[0], whole.assignments[k])


def test_saved_and_loaded_it_answers_the_same(grid_solver, tmp_path):
    grid_solver.save(tmp_path / "run")
    loaded = NeuralSolver.load(tmp_path / "run", GRID.problem)
    assert loaded.trained.config == grid_solver.trained.config
    assert loaded.trained.calibration == grid_solver.trained.calibration
    for stages in ({}, {"margins": MARGINS, "certificate": "predicted"}, {"repair": False}):
        a, b = (
            s.with_stages(**stages).solve(GRID.problem, GRID.test) for s in (grid_solver, loaded)
        )
        np.testing.assert_array_equal(a.assignments, b.assignments)
        np.testing.assert_array_equal(a.bound, b.bound)
    one, _ = grid_solver.predictor.relaxed(GRID.problem.given(GRID.test))
    other, _ = loaded.predictor.relaxed(GRID.problem.given(GRID.test))
    np.testing.assert_array_equal(one, other)


def test_another_problem_is_refused_by_name(grid_solver, tmp_path):
    grid_solver.save(tmp_path / "run")
    limit = GRID.problem.constraints[0]
    others = {
        "q": replace(GRID.problem, constraints=(replace(limit, at_most=limit.at_most + 1e-9),)),
        "models": small_grid(4, samples=100, seed=2).problem,
        "evidence": GRID.problem.observing(GRID.problem.evidence_variables[:-1]),
        "constraints": replace(GRID.problem, constraints=()),
    }
    for problem in others.values():
        with pytest.raises(EvidenceError, match=r"trained for another problem \(grid4\)") as caught:
            NeuralSolver.load(tmp_path / "run", problem)
        assert str(tmp_path / "run") in str(caught.value)
        assert "\n" not in str(caught.value)
        rows = GRID.test[:, : len(problem.evidence_variables)]
        with pytest.raises(EvidenceError, match=r"trained for another problem \(grid4\)"):
            grid_solver.solve(problem, rows)


def test_an_equal_problem_is_accepted(grid_solver):
    twin = replace(GRID.problem, name="other name")
    assert len(grid_solver.solve(twin, GRID.test)) == len(GRID.test)


def test_rows_that_do_not_fit_are_refused(grid_solver):
    with pytest.raises(EvidenceError, match="columns"):
        grid_solver.solve(GRID.problem, GRID.test[:, :-1])
    with pytest.raises(EvidenceError, match="evidence must be from 0 to 1"):
        grid_solver.solve(GRID.problem, GRID.test + 2)


# Options: what `Limits` says reaches every stage.


def interrupted_after(count):
    """A progress callback that presses Ctrl-C after `count` calls."""
    seen = []

    def progress(done, total):
        seen.append((done, total))
        if len(seen) == count:
            raise KeyboardInterrupt

    return progress, seen


def test_solve_is_answer_with_the_solvers_own_running(grid_solver):
    rows = GRID.problem.given(GRID.test)
    whole = grid_solver.solve(GRID.problem, GRID.test, seed=1)
    again = grid_solver.answer(rows, Limits(seed=1))
    np.testing.assert_array_equal(whole.assignments, again.assignments)
    np.testing.assert_array_equal(whole.bound, again.bound)


@pytest.mark.parametrize("stages", [{}, {"search_passes": 3}, {"certificate": "predicted"}])
def test_cores_change_no_answer(grid_solver, stages):
    solver, rows = grid_solver.with_stages(**stages), GRID.problem.given(GRID.train)
    one = solver.answer(rows, Limits())
    four = solver.answer(rows, Limits(workers=2, threads=2))
    np.testing.assert_array_equal(one.assignments, four.assignments)
    np.testing.assert_allclose(one.bound, four.bound)


def test_progress_counts_rows(grid_solver, monkeypatch):
    monkeypatch.setattr("cmpe.learning.staging.TRAINING", TRAINING._replace(pass_rows=12))
    seen = []
    running = Limits(progress=lambda done, total: seen.append((done, total)))
    whole = grid_solver.answer(GRID.problem.given(GRID.train), running)
    count = len(GRID.train)
    assert seen == [(min(k + 12, count), count) for k in range(0, count, 12)]
    blocks = grid_solver.solve(GRID.problem, GRID.train)
    np.testing.assert_array_equal(whole.assignments, blocks.assignments)


def test_ctrl_c_leaves_what_is_finished(grid_solver, monkeypatch):
    monkeypatch.setattr("cmpe.learning.staging.TRAINING", TRAINING._replace(pass_rows=10))
    progress, _ = interrupted_after(2)
    rows = GRID.problem.given(GRID.train)
    with pytest.raises(Interrupted) as stop:
        grid_solver.answer(rows, Limits(progress=progress))
    assert stop.value.finished == 20
    found = stop.value.solutions
    assert len(found) == len(rows)
    whole = grid_solver.answer(rows, Limits())
    np.testing.assert_array_equal(found.assignments[:20], whole.assignments[:20])
    assert (found.status[20:] == Status.UNKNOWN).all()


@pytest.mark.parametrize("stages", [{}, {"repair": False}, {"search_passes": 2}])
def test_an_answer_is_never_worse_than_its_start(grid_solver, stages):
    problem, rows = GRID.problem, GRID.problem.given(GRID.test)
    best = cmpe.solve(problem, GRID.test, method="exhaustive")
    assert best.feasible.all()
    start = best.assignments.copy()
    start[1::2] = -1  # every other row has none
    solver = grid_solver.with_stages(**stages)
    found = solver.answer(rows, Limits(start=start))
    np.testing.assert_allclose(found.objective[::2], best.objective[::2])
    alone = solver.answer(rows, Limits())
    np.testing.assert_array_equal(found.assignments[1::2], alone.assignments[1::2])
    poor = np.zeros_like(start)
    worse = solver.answer(rows, Limits(start=poor))
    assert (worse.objective[alone.feasible] >= alone.objective[alone.feasible] - 1e-9).all()


def test_a_start_of_another_shape_is_refused(grid_solver):
    running = Limits(start=np.zeros((2, 3), dtype=int))
    with pytest.raises(MethodError, match="a start must have shape"):
        grid_solver.answer(GRID.problem.given(GRID.test), running)


def test_rows_within_the_gap_are_left_as_the_network_said(grid_solver):
    rows = GRID.problem.given(GRID.test)
    raw = grid_solver.with_stages(repair=False).answer(rows, Limits())
    whole = grid_solver.answer(rows, Limits())
    gap = float(np.nanmedian(raw.gap))
    some = grid_solver.answer(rows, Limits(gap=gap))
    close = raw.gap <= gap
    assert 0 < close.sum() < len(close)
    np.testing.assert_array_equal(some.assignments[close], raw.assignments[close])
    np.testing.assert_array_equal(some.assignments[~close], whole.assignments[~close])
    timed = grid_solver.answer(rows, Limits(seconds=0.01, gap=gap))
    np.testing.assert_array_equal(timed.assignments[close], raw.assignments[close])
    nothing = grid_solver.answer(rows, Limits(gap=1e6))
    np.testing.assert_array_equal(nothing.assignments[raw.feasible], raw.assignments[raw.feasible])


def test_a_gap_needs_a_certificate(grid_solver):
    bare = grid_solver.with_stages(certificate="none")
    with pytest.raises(MethodError, match="a gap needs a certificate"):
        bare.answer(GRID.problem.given(GRID.test), Limits(gap=0.1))


def test_the_network_runs_where_the_limits_say(grid_solver):
    rows = GRID.problem.given(GRID.test)
    limits = Limits(device="meta")  # a device of torch without numbers
    with pytest.raises((NotImplementedError, RuntimeError)):
        grid_solver.answer(rows, limits)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_answers_the_same(grid_solver):
    rows = GRID.problem.given(GRID.test)
    here = grid_solver.answer(rows, Limits())
    there = grid_solver.answer(rows, Limits(device="cuda"))
    np.testing.assert_allclose(here.objective, there.objective, atol=1e-6)


def test_it_shows_itself_in_a_line(grid_solver):
    said = repr(grid_solver)
    assert said.startswith("NeuralSolver(mlp trained with distill for grid4: network + repair")
    assert len(said) < 120
    page = grid_solver._repr_html_()
    assert "<td>problem</td><td>grid4</td>" in page
    assert "<td>loss</td><td>distill</td>" in page
