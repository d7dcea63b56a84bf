"""A few seconds of training: better than nothing on unseen masks and q, resumed, interrupted."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import cmpe
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.questions import Subject
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.stepping import QuestionLoss
from cmpe.learning.amortised.training import AmortisedTraining, fit_amortised
from cmpe.learning.runs import read_log
from cmpe.learning.training.fitting import Session
from cmpe.solvers.local import improve
from tests.learning.amortised.cases import config, posed, questions, solver
from tests.learning.cases import GRID
from tests.refusals import refused


@pytest.mark.parametrize("network", ["messages", "mlp"])
def test_training_beats_its_start_on_questions_it_has_not_seen(network):
    """The loss, and h of feasible rounded answers against the untrained network's."""
    settings = config(network=network, hidden=(32,))
    task = Subject.of(posed(), settings, "cpu", None)
    maker, asked = questions(posed(), 200, 99)
    losses = []
    for weights in (None, solver(network).run.parameters):
        here = network_of(settings, task.tables)
        if weights is not None:
            here.load_state_dict(weights)
        loss = QuestionLoss(here, settings, task.tables.device)
        losses.append(float(loss(task.tables, maker, asked, torch.zeros(())).detach()))
    assert losses[1] < 0.9 * losses[0]


def test_answers_to_unseen_masks_and_q_keep_limits_that_a_constant_start_breaks():
    """Before repair; after it every answer is feasible."""
    trained, problem = solver(), posed()
    _, asked = questions(problem, 40, 5)
    usual = (cmpe.sample(problem.objective, 200, 1).assignments.mean(axis=0) > 0.5).astype(np.int32)
    broken = {"network": 0, "constant": 0}
    for given, q in zip(asked.given.numpy(), asked.limits.numpy(), strict=True):
        limited = cmpe.Problem(problem.objective, [problem.constraints[0].function <= float(q[0])])
        seen = np.flatnonzero(given >= 0)
        rows = limited.observing(seen.tolist()).given(given[seen][None])
        constant = np.where(given < 0, usual, given)[None].astype(np.int32)
        said = trained.predict(given[None], q)[0]
        for name, start in (("network", said), ("constant", constant)):
            broken[name] += not limited.is_feasible(start)[0]
            assert limited.is_feasible(improve(rows, start, sweeps=0)).all()
    assert broken["network"] < 0.6 * broken["constant"]


def test_a_run_is_resumed_to_the_same_weights(tmp_path):
    settings = config(updates=6, rows=30, looks=3, fresh=True, refresh=1, chunk=2, reuse=2)
    whole = fit_amortised(posed(3), settings, Session(tmp_path / "whole"))
    out = tmp_path / "parts"
    task = Subject.of(posed(3), settings, "cpu", None)
    out.mkdir()
    steps = iter([False, False, True])
    work = AmortisedTraining([task], settings, Session(out))
    assert not work.train(stop=lambda: next(steps))
    assert work.updates == 2
    assert not AmortisedRun.read(out).finished
    again = fit_amortised(posed(3), settings, Session(out, resume=True))
    for name, value in whole.run.parameters.items():
        torch.testing.assert_close(again.run.parameters[name], value)
    assert [r["update"] for r in read_log(out)] == [2, 4, 6]
    other = config(updates=6, rows=30, learning_rate=1e-3)
    refused(lambda: fit_amortised(posed(3), other, Session(out, resume=True)), "of other settings")
    empty = Session(tmp_path / "none", resume=True)
    refused(lambda: fit_amortised(posed(3), settings, empty), "nothing to resume")


def test_ctrl_c_leaves_a_run_that_answers(tmp_path):
    def stop(record):
        os.kill(os.getpid(), signal.SIGINT)

    settings = config(updates=30, rows=30, looks=15)
    with pytest.raises(KeyboardInterrupt, match=r"2 updates; .*--resume continues"):
        fit_amortised(posed(3), settings, Session(tmp_path / "run", progress=stop))
    assert AmortisedRun.read(tmp_path / "run").updates == 2


def test_seconds_end_a_run_and_samples_may_be_given():
    rows = cmpe.sample(posed(3).objective, 20, 0).assignments
    settings = config(updates=10**9, seconds=0.3)
    found = fit_amortised(posed(3), settings, samples=rows)
    assert 0 < found.run.updates < 10**6
    assert found.run.finished


def test_many_models_are_trained_in_turns():
    settings = config(updates=4, rows=20)
    tasks = [Subject.of(posed(3, seed), settings, "cpu", None) for seed in (1, 2)]
    work = AmortisedTraining(tasks, settings, Session())
    assert work.train()
    assert work.run().digest == ""  # belongs to no model


def test_what_cannot_be_trained_is_refused():
    image = cmpe.Problem(posed().objective, continuous=[0])
    refused(lambda: fit_amortised(image), "log-linear models of discrete variables")
    refused(lambda: fit_amortised(GRID), "needs a Problem")  # type: ignore[arg-type]
    settings = config(updates=5, looks=5, learning_rate=1e30)
    refused(lambda: fit_amortised(posed(3), settings), "not a number")
    assert Path("log.jsonl").exists() is False
