"""Tuning raises what repaired answers are worth, by a seed, resumes, and is a run like others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cmpe import Problem
from cmpe.core.lanes import LANES
from cmpe.generation import grid
from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from cmpe.learning.amortised.consulting import Panel
from cmpe.learning.amortised.questions import Subject
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.training import fit_amortised
from cmpe.learning.amortised.tuning.schedules import scheduled
from cmpe.learning.amortised.tuning.tuner import Tuner
from cmpe.learning.training.fitting import Session
from cmpe.solvers.base import Limits
from tests.learning.amortised.cases import posed
from tests.learning.cases import mixed_problem
from tests.refusals import refused


def _config(**changes: object) -> AmortisedConfig:
    plain = {"steps": 4, "width": 0, "generations": 3, "rows": 60, "validation": 16, "looks": 3}
    return AmortisedConfig(**{**plain, **changes})  # type: ignore[arg-type]


def test_what_answers_are_worth_is_followed(monkeypatch):
    """Here the first price decides, and a question in four has no feasible answer at all."""

    def worth(self, block, schedules):
        price = scheduled(self.weights(), torch.as_tensor(schedules[0]))["first_price"]
        value = np.full(LANES, -float((price + 1.0) ** 2))
        value[::4] = -np.inf
        return value, 0.5

    monkeypatch.setattr(Tuner, "_worth", worth)
    config = _config(generations=25, schedules=1)
    work = Tuner([Subject.of(posed(3), config, "cpu", None)], config, Session())
    assert work.train()
    [tuned] = work.run().weights
    assert abs(float(tuned["first_price"]) + 1.0) < 0.3
    assert work.records[-1]["gain"] > 0.9
    assert work.records[-1]["violated"] == 0.5


@pytest.mark.parametrize("problem", [posed(3), mixed_problem(), Problem(posed(3).objective)])
def test_a_resumed_run_ends_where_one_that_was_not_stopped_does(tmp_path, problem):
    config = _config()
    whole = fit_amortised(problem, config, Session(tmp_path / "whole"))
    out = tmp_path / "parts"
    out.mkdir()
    work = Tuner([Subject.of(problem, config, "cpu", None)], config, Session(out))
    assert not work.train(stop=lambda: work.updates == 1)
    again = fit_amortised(problem, config, Session(out, resume=True))
    for name, value in whole.run.parameters.items():
        torch.testing.assert_close(again.run.parameters[name], value)
    assert whole.schedules == 16
    torch.testing.assert_close(again.run.schedules, whole.run.schedules)
    over = fit_amortised(problem, config, Session(out, resume=True))  # there is nothing left to do
    torch.testing.assert_close(over.run.schedules, whole.run.schedules)
    loaded = AmortisedSolver.load(out, problem)
    free = np.full((2, problem.variables), -1, dtype=np.int32)
    for number in range(whole.schedules):
        ours, theirs = (s.predict(free, problem.limits, schedule=number) for s in (loaded, again))
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_answers_on_a_core_are_those_of_torch():
    solver = fit_amortised(posed(3), _config())
    free, q = torch.full((2, 9), -1), torch.zeros((2, 1))
    for number in range(solver.schedules):
        tables, network = solver._loaded("cpu", number)
        with torch.inference_mode():
            said = network(tables, free, q)
        found = tables.rounded(tables.points(said.logits, tables.allowed(free)))
        answers, _ = solver.predict(free.numpy(), q.numpy(), schedule=number)
        np.testing.assert_array_equal(answers, found.numpy())


def test_another_run_or_another_network_is_refused(tmp_path):
    out, config = tmp_path / "run", _config(generations=1)
    refused(lambda: fit_amortised(posed(3), config, Session(out, resume=True)), "nothing to resume")
    fit_amortised(posed(3), config, Session(out))
    other = _config(generations=1, steps=5)
    refused(lambda: fit_amortised(posed(3), other, Session(out, resume=True)), "of other settings")


def test_what_has_hidden_units_or_learns_from_answers_is_not_tuned():
    assert _config().tuned
    others = ({"network": "mlp"}, {"width": 4}, {"annealed": 5}, {"taught": 5}, {"generations": 0})
    assert not any(_config(**change).tuned for change in others)


def test_one_network_is_tuned_on_several_models_and_for_one_mask():
    asked = QuestionRange(observed=(0, 4))
    config = _config(generations=1, questions=asked)
    problems = [posed(3), Problem(grid(3, 3, seed=9), posed(3).constraints)]
    work = Tuner([Subject.of(p, config, "cpu", None) for p in problems], config, Session())
    assert work.train()
    assert work.solver().run.digest == ""
    assert {block.subject for block in work._held} == {0, 1}
    assert all((b.given[:, [0, 4]] >= 0).all() for b in work._held)


@pytest.mark.filterwarnings("ignore::cmpe.learning.amortised.solver.QuestionWarning")
def test_all_schedules_are_asked_and_followed_where_time_does_not_press(monkeypatch):
    problem = posed(4)
    solver = fit_amortised(problem, _config(generations=1, schedules=3))
    assert solver.method == "network x 11 + search + optimal bound"
    assert solver.stages_run(problem, 1.0) == "network + search + optimal bound"
    assert solver.with_stages(repair=False, certificate="none").method == "network"
    assert solver.with_stages(annealing=2).stages_run(problem, None).startswith("network + ")
    block = problem.observing([0]).given(np.zeros((5, 1), dtype=np.int32))
    asked, told = [], AmortisedSolver.replies

    def replies(self, given, limits, *, device=None, schedule=0):
        asked.append((schedule, float(limits[0]), (given >= 0).sum()))
        return told(self, given, limits, device=device, schedule=schedule)

    monkeypatch.setattr(AmortisedSolver, "replies", replies)
    found, prices = solver.passes(block, Limits(seed=5))
    q = float(problem.limits[0])
    assert asked[:3] == [(0, q, 5), (1, q, 5), (2, q, 5)]
    assert [number for number, _, _ in asked[3:]] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert all(seen > 5 and seen % 5 == 0 for _, _, seen in asked[3:])
    np.testing.assert_array_equal(prices, told(solver, block.full(), problem.limits)[1])

    def ask(given, number):
        return told(solver, given, problem.limits, schedule=number)

    np.testing.assert_array_equal(found, Panel(block, ask, 3).answers(seed=5)[0])
    asked.clear()
    solver.passes(block, Limits(seconds=1.0))
    assert asked == [(0, q, 5)]
    asked.clear()
    solver.with_stages(margins=(0.0, 0.5)).passes(block, Limits())
    assert asked == [(0, q, 5), (0, q - 0.5, 5)]


def test_a_network_of_one_mask_does_not_ask_itself():
    asked = QuestionRange(observed=(0, 5))
    solver = fit_amortised(posed(3), _config(generations=1, schedules=2, questions=asked))
    assert solver.followed == 0
    assert solver.method == "network x 2 + search + optimal bound"


def test_a_run_without_schedules_is_refused(tmp_path):
    fit_amortised(posed(3), _config(generations=1, schedules=2), Session(tmp_path))
    run = AmortisedRun.read(tmp_path)
    assert run.schedules is not None
    replace(run, schedules=None).write(tmp_path)
    refused(lambda: AmortisedRun.read(tmp_path), "schedules of 18 numbers each")
