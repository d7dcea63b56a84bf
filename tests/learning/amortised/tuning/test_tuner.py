"""Tuning raises what repaired answers are worth, by a seed, resumes, and is a run like others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe import Problem
from cmpe.compiling.vectors import LANES
from cmpe.generation import grid
from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.questions import Subject
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.tables import ModelTables
from cmpe.learning.amortised.training import fit_amortised
from cmpe.learning.amortised.tuning.tuner import NUMBERS, Tuner, scheduled
from cmpe.learning.training.fitting import Session
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.local import improve
from tests.learning.amortised.cases import posed
from tests.learning.cases import mixed_problem
from tests.refusals import refused


def _config(**changes: object) -> AmortisedConfig:
    plain = {"steps": 4, "width": 0, "generations": 3, "rows": 60, "validation": 16, "looks": 3}
    return AmortisedConfig(**{**plain, **changes})  # type: ignore[arg-type]


def test_no_change_of_the_schedule_is_the_network_as_it_was():
    tables = ModelTables(posed())
    start = dict(network_of(_config(), tables).state_dict())
    same = scheduled(start, np.zeros(NUMBERS))
    left = [name for name in start if not name.startswith("first_")]
    for name in left:
        torch.testing.assert_close(same[name], start[name])
    assert not same["first_out"].any()
    names = ("damping", "damping_by", "price_step", "price_step_by", "log_temperature",
             "log_temperature_by", "lean", "first_price", "first_out")  # fmt: skip
    changed: set[str] = set()
    for number in range(NUMBERS):
        one = np.zeros(NUMBERS)
        one[number] = 0.1
        other = scheduled(start, one)
        here = {name for name in names if (other[name] != same[name]).any()}
        assert len(here) == 1, f"number {number} changes {here}"
        changed |= here
    assert changed == set(names)


def test_what_answers_are_worth_is_followed(monkeypatch):
    """Here the first price decides, and a question in four has no feasible answer at all."""

    def worth(self, block, weights):
        value = np.full(LANES, -float((weights["first_price"] + 1.0) ** 2))
        value[::4] = -np.inf
        return value, 0.5

    monkeypatch.setattr(Tuner, "_worth", worth)
    config = _config(generations=25)
    work = Tuner([Subject.of(posed(3), config, "cpu", None)], config, Session())
    assert work.train()
    assert abs(float(work.weights()["first_price"]) + 1.0) < 0.3
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
    loaded = AmortisedSolver.load(out, problem)
    free = np.full((2, problem.variables), -1, dtype=np.int32)
    np.testing.assert_array_equal(
        loaded.predict(free, problem.limits)[0], again.predict(free, problem.limits)[0]
    )


def test_answers_on_a_core_are_those_of_torch():
    solver = fit_amortised(posed(3), _config())
    tables, network = solver._loaded("cpu")
    free, q = torch.full((2, 9), -1), torch.zeros((2, 1))
    with torch.inference_mode():
        said = network(tables, free, q)
    found = tables.rounded(tables.points(said.logits, tables.allowed(free)))
    np.testing.assert_array_equal(solver.predict(free.numpy(), q.numpy())[0], found.numpy())


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
def test_tuned_messages_are_asked_at_three_leans_where_time_does_not_press(monkeypatch):
    problem = posed(4)
    solver = fit_amortised(problem, _config(generations=1))
    assert solver.method == "network x 3 + search + optimal bound"
    assert solver.stages_run(problem, 1.0) == "network + search + optimal bound"
    assert solver.with_stages(repair=False, certificate="none").method == "network"
    free = Problem(problem.objective)
    assert solver.stages_run(free, None) == "network + search + optimal bound"
    block = problem.observing([0]).given(np.zeros((5, 1), dtype=np.int32))
    asked, told = [], AmortisedSolver.replies

    def replies(self, given, limits, *, device=None):
        asked.append(float(limits[0]))
        return told(self, given, limits, device=device)

    monkeypatch.setattr(AmortisedSolver, "replies", replies)
    found, prices = solver.passes(block, Limits())
    q = float(problem.limits[0])
    assert asked[1] < asked[0] == q < asked[2]
    np.testing.assert_allclose(asked[2] - q, q - asked[1])
    every = [told(solver, block.full(), np.array([limit])) for limit in asked]
    np.testing.assert_array_equal(prices, every[0][1])
    moved = [Solutions.of(problem, improve(block, rows, sweeps=0)) for rows, _ in every]
    best = np.max([np.where(s.feasible, s.objective, -np.inf) for s in moved], axis=0)
    np.testing.assert_allclose(Solutions.of(problem, found).objective, best)
    asked.clear()
    solver.passes(block, Limits(1.0))
    assert asked == [q]
