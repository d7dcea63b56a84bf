"""Repair and search from a network's answers."""

from __future__ import annotations

import numpy as np

import cmpe
from cmpe.flip import adversarial
from cmpe.learning.improvement import Draft, searches, time_left
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.settings import TRAINING
from cmpe.solvers.base import Limits
from cmpe.solvers.local import improve
from cmpe.solvers.local.mixing import mixed
from tests.learning.cases import GRID, check_honest, mixed_problem, untrained
from tests.learning.losses.test_functions import images, small_network


def test_repair_mends_what_arbitrary_networks_say():
    problem = mixed_problem()
    evidence = np.array([[a, b] for a in range(2) for b in range(3)])
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert truth.feasible.all()
    broken = mended = 0
    for seed in range(10):
        solver = untrained(problem, seed)
        raw = solver.with_stages(repair=False).solve(problem, evidence)
        answers = solver.solve(problem, evidence)
        broken += int((~raw.feasible).sum())
        mended += int((~raw.feasible & answers.feasible).sum())
        assert (answers.objective[raw.feasible] >= raw.objective[raw.feasible] - 1e-9).all()
    assert broken > 10
    assert mended == broken


def test_search_follows_the_pass_where_passes_or_time_are_given(grid_solver):
    problem, rows = GRID.problem, GRID.test
    truth = cmpe.solve(problem, rows, method="exhaustive")
    searching = grid_solver.with_stages(search_passes=30)
    assert searching.method == "network + search + optimal bound"
    found = searching.solve(problem, rows, seed=3)
    check_honest(problem, rows, found)
    again = searching.solve(problem, rows, seed=3)
    np.testing.assert_array_equal(found.assignments, again.assignments)
    assert (truth.objective - found.objective)[truth.feasible].mean() < 0.05
    timed = grid_solver.with_stages(certificate="none").solve(problem, rows, time_limit=0.002)
    assert set(timed.method) == {"network + search"}
    assert (timed.feasible == truth.feasible).all()


def test_search_begins_at_the_predicted_multiplier(grid_solver, monkeypatch):
    from cmpe.learning import improvement as module

    given = {}
    monkeypatch.setattr(module, "search", lambda _, rows, **options: given.update(options) or rows)
    grid_solver.with_stages(search_passes=5).solve(GRID.problem, GRID.test)
    wanted = grid_solver.predictor.predict(
        GRID.problem.given(GRID.test), grid_solver.calibrated_margin()
    )[1]
    np.testing.assert_array_equal(given["multipliers"], wanted)


def test_search_begins_after_single_moves_unless_repair_is_off(grid_solver, monkeypatch):
    from cmpe.learning import improvement as module

    begun = []
    monkeypatch.setattr(module, "search", lambda _, rows, **options: begun.append(rows) or rows)
    rows = GRID.problem.given(GRID.test)
    answers = np.where(rows.full() < 0, 1, rows.full()).astype(np.int32)
    draft, seconds = Draft(rows, answers), Limits(seconds=1.0)
    draft.improved(Pipeline(search_passes=5), Limits())
    draft.improved(Pipeline(), seconds)
    draft.improved(Pipeline(repair=False), seconds)
    moved = mixed(rows, [improve(rows, answers, sweeps=0)], trades=1)
    assert (moved != answers).any()
    np.testing.assert_array_equal(begun[0], moved)
    np.testing.assert_array_equal(begun[1], moved)
    np.testing.assert_array_equal(begun[2], answers)


def test_what_a_stage_took_is_taken_from_the_time_of_a_row(monkeypatch):
    monkeypatch.setattr("cmpe.core.compiler.timing.now", lambda: 10.0)
    assert time_left(Limits(), 4.0, 3) == Limits()
    assert time_left(Limits(seconds=5.0), 4.0, 3).seconds == 3.0
    assert time_left(Limits(seconds=1.0), 4.0, 3).seconds == TRAINING.least_search


def test_fewer_sweeps_are_a_cheaper_repair(grid_solver):
    full, quick = (
        grid_solver.with_stages(sweeps=sweeps).solve(GRID.problem, GRID.test) for sweeps in (3, 0)
    )
    assert (quick.feasible == full.feasible).all()
    assert (quick.objective <= full.objective + 1e-9).all()
    assert quick.objective.mean() < full.objective.mean()


def test_workers_times_threads_reach_the_stages(grid_solver, monkeypatch):
    from cmpe.learning import improvement as module

    given = {}
    monkeypatch.setattr(module, "improve", lambda _, rows, **options: given.update(options) or rows)
    running = Limits(workers=3, threads=2)
    grid_solver.answer(GRID.problem.given(GRID.test), running)
    assert given["threads"] == 6


def test_only_the_chosen_rows_are_improved(grid_solver):
    rows = GRID.problem.given(GRID.test)
    answers, multipliers = grid_solver.predictor.predict(rows, 0.0)
    draft = Draft(rows, answers, multipliers)
    whole = draft.improved(Pipeline(), Limits())
    some = np.arange(0, len(answers), 2)
    found = draft.improved_where(some, Pipeline(), Limits())
    np.testing.assert_array_equal(found[some], whole[some])
    np.testing.assert_array_equal(found[1::2], answers[1::2])
    assert (whole != answers).any()
    none = draft.improved_where(some[:0], Pipeline(), Limits(seconds=0.01))
    np.testing.assert_array_equal(none, answers)


def test_time_or_passes_mean_search_where_there_are_tables():
    assert not searches(GRID.problem, Pipeline(), None)
    assert searches(GRID.problem, Pipeline(), 1.0)
    assert searches(GRID.problem, Pipeline(search_passes=2), None)
    assert not searches(adversarial(small_network()), Pipeline(), 1.0)


def test_problems_without_tables_are_repaired_from_the_networks_answer():
    problem = adversarial(small_network())
    rows = problem.given(images(12))
    far = np.hstack([rows.evidence, 1.0 - rows.evidence])
    found = Draft(rows, far).improved(Pipeline(), Limits())
    assert (problem.objective.value(found) >= problem.objective.value(far) - 1e-9)[
        problem.is_feasible(far)
    ].all()
    kept = Draft(rows, far).improved(Pipeline(repair=False), Limits())
    np.testing.assert_array_equal(kept, far)
