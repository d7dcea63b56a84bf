"""`fit`: run directories, Ctrl-C and resume, records, and the warnings of a run gone flat."""

from __future__ import annotations

import json
import os
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

from cmpe.errors import InputError, MethodError
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training import fitting
from cmpe.learning.training.config import paper
from cmpe.learning.training.fitting import Session, TrainingWarning, fit
from cmpe.learning.training.optimizer import Adam
from tests.learning.cases import mixed_problem, quick, small_grid

ONE = small_grid()
CONFIG = quick(epochs=6, learning_rate=1e-2)
STEPS = 3  # 43 rows to train on, 16 a batch


def same_weights(one, other):
    a, b = one.trained.parameters, other.trained.parameters
    return set(a) == set(b) and all(torch.equal(a[name], b[name]) for name in a)


def records_of(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def interrupt_after(monkeypatch, steps, stop=signal.SIGINT):
    """A real Ctrl-C, or another signal, in the middle of the given step."""
    count = iter(range(1, 10**6))
    step = Adam.step

    def counted(self):
        if next(count) == steps:
            os.kill(os.getpid(), stop)
        step(self)

    monkeypatch.setattr(Adam, "step", counted)


def test_the_seed_decides_the_weights():
    first, again = (fit(ONE.problem, ONE.train, CONFIG) for _ in range(2))
    assert same_weights(first, again)
    assert not same_weights(first, fit(ONE.problem, ONE.train, replace(CONFIG, seed=1)))


def test_sigterm_loses_nothing(tmp_path, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    config = replace(CONFIG, epochs=4)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2 * STEPS + 2, signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt, match="stopped after 2 epochs; "):
            fit(ONE.problem, ONE.train, config, Session(out=tmp_path / "run"))
    assert signal.getsignal(signal.SIGTERM) == before
    resumed = fit(ONE.problem, ONE.train, config, Session(out=tmp_path / "run", resume=True))
    assert same_weights(resumed, fit(ONE.problem, ONE.train, config))


@pytest.mark.parametrize("loss", ["ss_cmpe", "ssl_pen", "pdl", "distill"])
@pytest.mark.parametrize("keep_best", [True, False])
def test_a_run_interrupted_mid_epoch_resumes_to_the_same_weights(
    loss, keep_best, tmp_path, monkeypatch
):
    config = replace(CONFIG, loss=loss, epochs=11, keep_best=keep_best, beta=5.0)
    whole = fit(ONE.problem, ONE.train, config)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 8 * STEPS + 2)
        with pytest.raises(KeyboardInterrupt) as caught:
            fit(ONE.problem, ONE.train, config, Session(out=tmp_path / "run"))
    assert str(caught.value).startswith("stopped after 8 epochs; ")
    assert str(tmp_path / "run") in str(caught.value)
    assert "\n" not in str(caught.value)
    partial = NeuralSolver.load(tmp_path / "run", ONE.problem)
    assert partial.trained.epochs == 8
    assert keep_best or not same_weights(partial, whole)
    assert len(partial.solve(ONE.problem, ONE.test)) == len(ONE.test)
    resumed = fit(ONE.problem, ONE.train, config, Session(out=tmp_path / "run", resume=True))
    assert same_weights(resumed, whole)
    assert same_weights(NeuralSolver.load(tmp_path / "run", ONE.problem), whole)
    records = records_of(tmp_path / "run")
    assert [r["epoch"] for r in records] == list(range(1, 12))


def test_ctrl_c_between_epochs_stops_there(tmp_path):
    def stop(record):
        if record["epoch"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped after 2 epochs"):
        fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path, progress=stop))
    resumed = fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path, resume=True))
    assert same_weights(resumed, fit(ONE.problem, ONE.train, CONFIG))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_without_a_directory_is_one_sentence(monkeypatch):
    interrupt_after(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt, match=r"^stopped after 0 epochs$"):
        fit(ONE.problem, ONE.train, CONFIG)


def test_a_second_ctrl_c_breaks_off(monkeypatch):
    def twice(self):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Adam, "step", twice)
    with pytest.raises(KeyboardInterrupt) as caught:
        fit(ONE.problem, ONE.train, CONFIG)
    assert str(caught.value) == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_finished_run_resumes_with_more_epochs(tmp_path):
    fit(ONE.problem, ONE.train, replace(CONFIG, epochs=3), Session(out=tmp_path))
    more = fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path, resume=True))
    assert same_weights(more, fit(ONE.problem, ONE.train, CONFIG))
    again = fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path, resume=True))
    assert same_weights(again, more)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    fit(ONE.problem, ONE.train, CONFIG, Session(out=folder))
    return folder


def test_a_checkpoint_of_something_else_is_refused(finished):
    other = small_grid(seed=2).problem
    shuffled = ONE.train[::-1]
    session = Session(out=finished, resume=True)
    cases = (
        ("config", ONE.problem, ONE.train, replace(CONFIG, learning_rate=2e-2)),
        ("config", ONE.problem, ONE.train, replace(CONFIG, seed=2)),
        ("problem", other, ONE.train[:, : len(other.evidence_variables)], CONFIG),
        ("rows", ONE.problem, ONE.train[:-1], CONFIG),
        ("rows", ONE.problem, shuffled, CONFIG),
    )
    for what, problem, rows, config in cases:
        with pytest.raises(InputError, match=f"the checkpoint is of another {what}") as caught:
            fit(problem, rows, config, session)
        assert "\n" not in str(caught.value)


def test_nothing_to_resume_is_refused(tmp_path):
    for out in (tmp_path, tmp_path / "nowhere", None):
        with pytest.raises(InputError, match="nothing to resume"):
            fit(ONE.problem, ONE.train, CONFIG, Session(out=out, resume=True))


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04 junk"])
def test_a_broken_checkpoint_is_refused(content, tmp_path):
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"checkpoint\.pt: the file: expected a checkpoint"):
        fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path, resume=True))


def test_a_checkpoint_by_other_programs_is_refused(tmp_path):
    for content in ({"state": {}, "about": {}}, {"other": 1}, [1, 2]):
        torch.save(content, tmp_path / "checkpoint.pt")
        with pytest.raises(InputError, match="checkpoint"):
            fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path, resume=True))


def test_a_place_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    (tmp_path / "file").write_text("here\n")
    with pytest.raises(InputError, match="cannot be written") as caught:
        fit(ONE.problem, ONE.train, CONFIG, Session(out=tmp_path / "file" / "run"))
    assert "\n" not in str(caught.value)


def test_checkpoints_are_written_on_the_way(tmp_path):
    seen = []

    def look(record):
        seen.append((tmp_path / "checkpoint.pt").exists())

    session = Session(out=tmp_path, checkpoint_minutes=0.0, progress=look)
    fit(ONE.problem, ONE.train, CONFIG, session)
    assert seen == [False, True, True, True, True, True]


def test_records_tell_how_training_goes(finished):
    records = records_of(finished)
    assert [r["epoch"] for r in records] == [1, 2, 3, 4, 5, 6]
    for r in records:
        assert {
            "loss", "objective", "relaxed_violation", "rounded_violation", "alpha", "saturated",
            "gradient_norm", "learning_rate", "validation_regret", "validation_violation",
            "validation_score", "dependence", "seconds", "seconds_left",
        } <= set(r)  # fmt: skip
        assert 0.0 <= r["saturated"] <= 1.0
        assert r["alpha"] > 0
    assert records[-1]["seconds_left"] == 0.0


def test_the_default_is_the_preset_tuned(monkeypatch):
    short = fitting.tuned(problem=ONE.problem, epochs=2)
    monkeypatch.setattr(fitting, "tuned", lambda problem: short)
    assert fit(ONE.problem, ONE.train).trained.config == short


def test_rows_that_are_all_infeasible_are_refused():
    problem = replace(
        ONE.problem, constraints=tuple(replace(c, at_most=-1e3) for c in ONE.problem.constraints)
    )
    with pytest.raises(InputError, match="infeasible"):
        fit(problem, ONE.train, CONFIG)


def test_one_row_is_enough():
    solver = fit(ONE.problem, ONE.train[:1], CONFIG)
    assert solver.solve(ONE.problem, ONE.train[:1]).labels[0] in ("optimal", "feasible")


# Warnings.


def saturating():
    return paper(learning_rate=0.3, epochs=20, evaluate_every=5, validation_share=0.2)


def test_saturated_outputs_are_warned_of_once():
    one = small_grid(4, samples=120)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(one.problem, one.train, saturating())
    mine = [w for w in caught if issubclass(w.category, TrainingWarning)]
    assert len(mine) == 1
    assert "outputs hardly depend on the evidence" in str(mine[0].message)
    assert "\n" not in str(mine[0].message)


def test_a_healthy_run_is_not_warned_of():
    one = small_grid(4, samples=120)
    config = quick("distill", hidden=(32,), skip=True, epochs=20, learning_rate=1e-2)
    records = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(one.problem, one.train, config, Session(progress=records.append))
    assert records[-1]["dependence"] > 0.05


def test_one_distinct_row_is_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = np.repeat(ONE.train[:1], 20, axis=0)
        solver = fit(ONE.problem, rows, replace(CONFIG, epochs=8))
    assert solver.trained.epochs == 8


def test_a_loss_that_is_no_number_stops_the_run(monkeypatch):
    config = replace(CONFIG, learning_rate=1e30, loss="ssl_pen")
    with pytest.raises(MethodError, match=r"the loss is not a number in epoch .*; lower"):
        fit(mixed_problem(), np.zeros((20, 2), dtype=int), replace(config, epochs=50))


FRESH = quick("distill", epochs=4, rows=40, fresh=True, margins=(0.0, 1.0))


def test_fresh_rows_change_what_is_learnt_and_the_seed_fixes_them():
    first, again = (fit(ONE.problem, ONE.train, FRESH) for _ in range(2))
    assert same_weights(first, again)
    assert not same_weights(first, fit(ONE.problem, ONE.train, replace(FRESH, fresh=False)))


def test_a_run_on_fresh_rows_resumes_to_the_same_weights(tmp_path, monkeypatch):
    whole = fit(ONE.problem, ONE.train, FRESH)
    with monkeypatch.context() as patch:
        interrupt_after(patch, 2 * STEPS + 2)
        with pytest.raises(KeyboardInterrupt):
            fit(ONE.problem, ONE.train, FRESH, Session(out=tmp_path / "run"))
    resumed = fit(ONE.problem, ONE.train, FRESH, Session(out=tmp_path / "run", resume=True))
    assert same_weights(resumed, whole)
    assert records_of(tmp_path / "run")[-1]["taught_seconds"] > 0.0
