"""`NeuralSolver`: honest answers whatever the network says, and what it refuses."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Status
from cmpe.errors import EvidenceError, Interrupted, MethodError
from cmpe.formats.labels import problem_digest
from cmpe.learning.losses.relaxation import Relaxation
from cmpe.learning.networks.networks import Network, encode
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.runs import Calibration, Trained, worst_rate
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.fitting import fit
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from tests.learning.cases import mixed_problem, quick, small_grid
from tests.problems import random_problem, seeds

GRID = small_grid(4, samples=100)
MARGINS = (-1.0, 0.0, 0.5, 1.0)


@pytest.fixture(scope="module")
def grid_solver():
    config = quick("distill", hidden=(16,), skip=True, epochs=12, learning_rate=2e-2,
                   predict_multiplier=True, margins=MARGINS)  # fmt: skip
    return fit(GRID.problem, GRID.train, config)


def untrained(problem, seed=0, **changes):
    """A network straight from its start: its answers are arbitrary."""
    config = quick(**{"predict_multiplier": True, **changes})
    relaxation = Relaxation(problem, floor=config.floor)
    none = np.zeros((0, len(problem.evidence_variables)), dtype=int)
    network = Network.of(config, encode(problem, none).shape[1], relaxation)
    parameters = {k: 5.0 * v.unsqueeze(0) for k, v in network.initial(seed).items()}
    return NeuralSolver(problem, Trained(config, problem_digest(problem), parameters))


def check_honest(problem, evidence, answers):
    """Statuses, values and bounds against enumeration."""
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    exists = truth.feasible
    for k, status in enumerate(answers.status):
        row = answers.assignments[k : k + 1]
        np.testing.assert_array_equal(
            row[0, list(problem.evidence_variables)], np.atleast_2d(evidence)[k]
        )
        really = bool(problem.is_feasible(row)[0])
        assert really == (status in (Status.OPTIMAL, Status.FEASIBLE))
        if really:
            assert answers.objective[k] == problem.objective.value(row)[0]
        if status == Status.OPTIMAL:
            assert answers.objective[k] == pytest.approx(truth.objective[k], abs=1e-5)
        if status == Status.INFEASIBLE:
            assert not exists[k]
        if exists[k]:
            assert answers.bound[k] >= truth.objective[k] - 1e-9
    return truth


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


def test_the_optimal_bound_is_the_tighter_one(grid_solver):
    bounds = {
        kind: grid_solver.with_stages(certificate=kind).solve(GRID.problem, GRID.test).bound
        for kind in ("none", "predicted", "optimal")
    }
    assert (bounds["optimal"] <= bounds["predicted"] + 1e-6).all()
    assert (bounds["predicted"] < np.inf).all()
    assert (bounds["none"] == np.inf).all()


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


def test_infeasible_rows_are_proved_so():
    problem = replace(
        GRID.problem, constraints=(Constraint(GRID.problem.constraints[0].function, -1e3),)
    )
    answers = untrained(problem).solve(problem, GRID.test)
    assert (answers.status == Status.INFEASIBLE).all()
    assert (answers.bound == -np.inf).all()


def test_the_method_names_the_stages(grid_solver):
    names = {
        "network + repair + optimal bound": {},
        "network + repair": {"certificate": "none"},
        "network": {"repair": False, "certificate": "none"},
        "network x 3 + predicted bound": {
            "margins": (0, 1, 2), "repair": False, "certificate": "predicted"
        },
    }  # fmt: skip
    for name, stages in names.items():
        solver = grid_solver.with_stages(**stages)
        assert solver.method == name
        assert set(solver.solve(GRID.problem, GRID.test).method) == {name}


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


def test_a_larger_margin_violates_less(grid_solver):
    instances = GRID.problem.given(GRID.train)
    rates = [
        1.0 - GRID.problem.is_feasible(grid_solver.predictor.predict(instances, m)[0]).mean()
        for m in (-1.0, 1.0)
    ]
    assert rates[1] < rates[0]


def test_answers_do_not_depend_on_the_other_rows(grid_solver):
    whole = grid_solver.solve(GRID.problem, GRID.test)
    for k in range(len(GRID.test)):
        alone = grid_solver.solve(GRID.problem, GRID.test[k])
        np.testing.assert_array_equal(alone.assignments[0], whole.assignments[k])


def test_chunks_of_rows_give_the_same_answers(grid_solver, monkeypatch):
    whole = grid_solver.solve(GRID.problem, GRID.train)
    monkeypatch.setattr("cmpe.learning.prediction.PASS_ROWS", 7)
    again = grid_solver.solve(GRID.problem, GRID.train)
    np.testing.assert_array_equal(again.assignments, whole.assignments)
    assert len(grid_solver.solve(GRID.problem, GRID.train[:0])) == 0


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


def test_a_predicted_bound_needs_a_multiplier():
    solver = untrained(GRID.problem, predict_multiplier=False)
    with pytest.raises(MethodError, match="predicts no multiplier; ask for certificate 'optimal'"):
        solver.with_stages(certificate="predicted").solve(GRID.problem, GRID.test)


def test_without_constraints_the_predicted_bound_is_the_optimum():
    problem = replace(GRID.problem, constraints=())
    solver = untrained(problem).with_stages(certificate="predicted")
    truth = cmpe.solve(problem, GRID.test, method="exhaustive")
    np.testing.assert_allclose(solver.solve(problem, GRID.test).bound, truth.objective, atol=1e-6)


def test_stages_are_checked():
    with pytest.raises(MethodError, match="a certificate is one of none, predicted, optimal"):
        Pipeline(certificate="perfect")
    with pytest.raises(MethodError, match="margins must be None or at least one number"):
        Pipeline(margins=())


def test_what_is_too_wide_has_no_bound(grid_solver, monkeypatch):
    monkeypatch.setattr("cmpe.bounds.lagrangian.MOST_BYTES", 10)
    for certificate in ("predicted", "optimal"):
        solver = grid_solver.with_stages(certificate=certificate)
        answers = solver.solve(GRID.problem, GRID.test)
        assert (answers.bound == np.inf).all()
        assert (answers.status == Status.FEASIBLE).all()


def calibrated(*entries):
    solver = untrained(GRID.problem)
    known = tuple(Calibration(*entry) for entry in entries)
    return replace(solver, trained=replace(solver.trained, calibration=known))


def test_the_calibrated_margin_has_the_least_regret_of_the_safe_ones():
    solver = calibrated(  # margin, regret, violation on 1,000 validation and on 9,000 rows
        (0.0, 0.1, 1000, 0.20, 9000, 0.15),
        (1.0, 0.5, 1000, 0.005, 9000, 0.005),
        (2.0, 0.4, 1000, 0.0, 9000, 0.001),
        (3.0, 0.6, 1000, 0.0, 9000, 0.0),
        (4.0, 2.0, 1000, 0.0, 9000, 0.0),
    )
    assert solver.calibrated_margin() == 2.0
    assert solver.calibrated_margin(allowed=0.3) == 0.0
    assert solver.calibrated_margin(allowed=0.002) == 2.0  # only all rows can show it
    assert solver.calibrated_margin(allowed=0.001) == 3.0
    assert solver.calibrated_margin(allowed=1e-6) == 4.0  # not shown: least violations, largest
    assert calibrated().calibrated_margin() == 0.0
    assert calibrated((2.0, None, 5, 1.0), (1.0, 3.0, 5, 0.8)).calibrated_margin() == 1.0


def test_few_rows_show_little():
    assert worst_rate(0.0, 10) == pytest.approx(1 - 0.05 ** (1 / 10))
    assert worst_rate(0.0, 1000) < 0.003
    assert worst_rate(1.0, 10) == 1.0
    rates = [worst_rate(v / 100, 100) for v in range(0, 101, 10)]
    assert rates == sorted(rates)
    assert all(w > v / 100 for w, v in zip(rates[:-1], range(0, 100, 10), strict=True))


def test_unrolled_networks_read_the_tables():
    problem = mixed_problem()
    evidence = np.array([[0, 0], [1, 2]])
    solver = untrained(problem, network="unrolled", steps=3)
    check_honest(problem, evidence, solver.solve(problem, evidence))
    plain = untrained(problem, network="unrolled", steps=0)
    a, b = (s.predictor.relaxed(problem.given(evidence))[0] for s in (solver, plain))
    assert not np.allclose(a, b, atol=1e-3)


def test_relaxed_outputs_are_probabilities(grid_solver):
    points, multipliers = grid_solver.predictor.relaxed(GRID.problem.given(GRID.test))
    free = GRID.problem.variables - len(GRID.problem.evidence_variables)
    assert points.shape == (len(GRID.test), free)
    assert ((points >= 0) & (points <= 1)).all()
    assert multipliers.shape == (len(GRID.test), 1)
    assert (multipliers >= 0).all()


def test_weights_that_do_not_fit_are_refused():
    solver = untrained(GRID.problem)
    wrong = {**solver.trained.parameters, "weight0": torch.zeros((1, 3, 3))}
    for parameters in (wrong, dict(list(wrong.items())[1:])):
        broken = replace(solver, trained=replace(solver.trained, parameters=parameters))
        with pytest.raises(
            MethodError, match=r"the weights do not fit the network of config\.json"
        ):
            broken.solve(GRID.problem, GRID.test)


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


def test_fewer_sweeps_are_a_cheaper_repair(grid_solver):
    full, quick = (
        grid_solver.with_stages(sweeps=sweeps).solve(GRID.problem, GRID.test) for sweeps in (3, 0)
    )
    assert (quick.feasible == full.feasible).all()
    assert (quick.objective <= full.objective + 1e-9).all()
    assert quick.objective.mean() < full.objective.mean()


def test_wide_rows_are_bounded_by_splitting(grid_solver, monkeypatch):
    from cmpe.learning import certificates as module

    monkeypatch.setattr(module, "QUICK_BYTES", 0)
    problem, rows = GRID.problem, GRID.test
    truth = cmpe.solve(problem, rows, method="exhaustive")
    found = grid_solver.solve(problem, rows)
    assert np.isfinite(found.bound).all()
    assert (found.bound >= truth.objective)[truth.feasible].all()


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
    four = solver.answer(rows, Limits(running=Running(workers=2, threads=2)))
    np.testing.assert_array_equal(one.assignments, four.assignments)
    np.testing.assert_allclose(one.bound, four.bound)


def test_workers_times_threads_reach_the_stages(grid_solver, monkeypatch):
    from cmpe.learning import improvement as module

    given = {}
    monkeypatch.setattr(module, "improve", lambda _, rows, **options: given.update(options) or rows)
    running = Running(workers=3, threads=2)
    grid_solver.answer(GRID.problem.given(GRID.test), Limits(running=running))
    assert given["threads"] == 6


def test_progress_counts_rows(grid_solver, monkeypatch):
    monkeypatch.setattr("cmpe.learning.solver.PASS_ROWS", 12)
    seen = []
    running = Running(progress=lambda done, total: seen.append((done, total)))
    whole = grid_solver.answer(GRID.problem.given(GRID.train), Limits(running=running))
    count = len(GRID.train)
    assert seen == [(min(k + 12, count), count) for k in range(0, count, 12)]
    blocks = grid_solver.solve(GRID.problem, GRID.train)
    np.testing.assert_array_equal(whole.assignments, blocks.assignments)


def test_ctrl_c_leaves_what_is_finished(grid_solver, monkeypatch):
    monkeypatch.setattr("cmpe.learning.solver.PASS_ROWS", 10)
    progress, _ = interrupted_after(2)
    rows = GRID.problem.given(GRID.train)
    with pytest.raises(Interrupted) as stop:
        grid_solver.answer(rows, Limits(running=Running(progress=progress)))
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
    found = solver.answer(rows, Limits(running=Running(start=start)))
    np.testing.assert_allclose(found.objective[::2], best.objective[::2])
    alone = solver.answer(rows, Limits())
    np.testing.assert_array_equal(found.assignments[1::2], alone.assignments[1::2])
    poor = np.zeros_like(start)
    worse = solver.answer(rows, Limits(running=Running(start=poor)))
    assert (worse.objective[alone.feasible] >= alone.objective[alone.feasible] - 1e-9).all()


def test_a_start_of_another_shape_is_refused(grid_solver):
    running = Running(start=np.zeros((2, 3), dtype=int))
    with pytest.raises(MethodError, match="a start must have shape"):
        grid_solver.answer(GRID.problem.given(GRID.test), Limits(running=running))


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
    timed = grid_solver.answer(rows, Limits(0.01, gap=gap))
    np.testing.assert_array_equal(timed.assignments[close], raw.assignments[close])
    nothing = grid_solver.answer(rows, Limits(gap=1e6))
    np.testing.assert_array_equal(nothing.assignments[raw.feasible], raw.assignments[raw.feasible])


def test_a_gap_needs_a_certificate(grid_solver):
    bare = grid_solver.with_stages(certificate="none")
    with pytest.raises(MethodError, match="a gap needs a certificate"):
        bare.answer(GRID.problem.given(GRID.test), Limits(gap=0.1))


def test_levels_need_head_linear(grid_solver):
    with pytest.raises(MethodError, match="8-bit levels are for networks with head linear"):
        grid_solver.with_stages(levels=True).solve(GRID.problem, GRID.test)


def test_the_time_limit_holds_for_all_stages(grid_solver):
    rows = GRID.problem.given(GRID.test)
    grid_solver.answer(rows, Limits(0.01))  # loads compiled code
    begin = time.perf_counter()
    grid_solver.answer(rows, Limits(0.02))
    assert time.perf_counter() - begin <= 1.1 * 0.02 * len(rows) + 1.0


def test_the_network_runs_where_the_limits_say(grid_solver):
    rows = GRID.problem.given(GRID.test)
    limits = Limits(running=Running(device="meta"))  # a device of torch without numbers
    with pytest.raises((NotImplementedError, RuntimeError)):
        grid_solver.answer(rows, limits)
    assert "meta" in grid_solver._predictors


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_answers_the_same(grid_solver):
    rows = GRID.problem.given(GRID.test)
    here = grid_solver.answer(rows, Limits())
    there = grid_solver.answer(rows, Limits(running=Running(device="cuda")))
    np.testing.assert_allclose(here.objective, there.objective, atol=1e-6)


def test_it_shows_itself_in_a_line(grid_solver):
    said = repr(grid_solver)
    assert said.startswith("NeuralSolver(mlp trained with distill for grid4: network + repair")
    assert len(said) < 120
