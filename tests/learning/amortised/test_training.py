"""Tuning raises what repaired answers are worth, by a seed; it is resumed and interrupted."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import cmpe
from cmpe import Problem
from cmpe.learning.amortised.config import QuestionRange
from cmpe.learning.amortised.messages import LEAN
from cmpe.learning.amortised.questions import Subject
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.training import Tuner, fit_amortised
from cmpe.learning.runs import read_log
from cmpe.learning.training.fitting import Session
from tests.learning.amortised.cases import config, posed
from tests.learning.cases import GRID, mixed_problem
from tests.refusals import refused


def test_tuned_messages_answer_better_than_plain_ones(tmp_path):
    """After repair, on questions that were held out; and they lean over the limit."""
    fit_amortised(posed(6), config(generations=12, rows=200), Session(tmp_path / "run"))
    last = read_log(tmp_path / "run")[-1]
    assert last["gain"] > 0.1
    assert last["questions"] == 128
    assert 0.0 < last["violated"] <= 1.0


@pytest.mark.parametrize(
    "problem", [posed(3), mixed_problem(zeros=True), Problem(posed(3).objective)]
)
def test_a_resumed_run_ends_where_one_that_was_not_stopped_does(tmp_path, problem):
    settings = config()
    whole = fit_amortised(problem, settings, Session(tmp_path / "whole"))
    out = tmp_path / "parts"
    out.mkdir()
    work = Tuner(Subject.of(problem, settings, None), settings, Session(out))
    assert not work.train(stop=lambda: work.generation == 1)
    assert not AmortisedRun.read(out).finished
    again = fit_amortised(problem, settings, Session(out, resume=True))
    np.testing.assert_array_equal(again.run.schedules, whole.run.schedules)
    assert [r["update"] for r in read_log(out)] == [1, 2, 3]
    over = fit_amortised(problem, settings, Session(out, resume=True))  # nothing is left to do
    np.testing.assert_array_equal(over.run.schedules, whole.run.schedules)
    loaded = AmortisedSolver.load(out, problem)
    free = np.full((2, problem.variables), -1, dtype=np.int32)
    ours, theirs = (s.predict(free, problem.limits) for s in (loaded, again))
    np.testing.assert_array_equal(ours.values, theirs.values)


def test_other_settings_models_or_an_empty_folder_are_not_resumed(tmp_path):
    out, settings = tmp_path / "run", config(generations=1)
    resumed = Session(out, resume=True)
    refused(lambda: fit_amortised(posed(3), settings, resumed), "nothing to resume")
    fit_amortised(posed(3), settings, Session(out))
    refused(lambda: fit_amortised(posed(3), config(steps=5), resumed), "of other settings")
    refused(lambda: fit_amortised(posed(3, 5), settings, resumed), "of other models")


def test_ctrl_c_leaves_a_run_that_answers(tmp_path):
    def stop(record):
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match=r"1 generations; .*--resume continues"):
        fit_amortised(posed(3), config(), Session(tmp_path / "run", progress=stop))
    assert AmortisedRun.read(tmp_path / "run").generations == 1


def test_seconds_end_a_run_and_samples_may_be_given():
    rows = cmpe.sample(posed(3).objective, 20, 0).assignments
    found = fit_amortised(posed(3), config(generations=10**6, seconds=0.1), samples=rows)
    assert 0 < found.run.generations < 10**6
    assert found.run.finished


def test_one_mask_or_one_limit_may_be_asked_for():
    asked = QuestionRange(observed=(0, 4), limits=(1.0,))
    found = fit_amortised(posed(3), config(generations=1, questions=asked))
    assert found.run.config.questions == asked
    assert found.run.schedules[0, LEAN] != 0.0


def test_what_cannot_be_tuned_is_refused():
    image = Problem(posed().objective, continuous=[0])
    refused(lambda: fit_amortised(image), "log-linear models of discrete variables")
    refused(lambda: fit_amortised(GRID), "needs a Problem")  # type: ignore[arg-type]
    on_gpu = Session(device="cuda")
    refused(lambda: fit_amortised(posed(3), config(), on_gpu), "on the CPU, found device 'cuda'")
