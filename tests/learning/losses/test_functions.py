"""Training where functions are neural and variables continuous."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from cmpe.flip import adversarial, flip_of
from cmpe.learning.losses.functions import FunctionRelaxation
from cmpe.learning.losses.losses import LOSSES
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import Session, fit
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solving import solve


def small_network(outputs: int = 3, seed: int = 0, inputs: int = 5) -> ReluNetwork:
    """A network whose classes are about equally frequent in the box."""
    rng = np.random.default_rng(seed)
    weights = (rng.normal(size=(6, inputs)), rng.normal(size=(outputs, 6)))
    first = ReluNetwork(weights, (rng.normal(size=6) * 0.2, np.zeros(outputs)))
    shift = -first.logits(rng.random((200, inputs))).mean(axis=0)
    return ReluNetwork(weights, (first.biases[0], shift))


def images(count: int = 64, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 5))


@pytest.mark.parametrize("head", ["plain", "residual"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_values_are_the_problems_and_points_stay_in_the_box(head, outputs):
    problem = adversarial(small_network(outputs))
    relaxation = FunctionRelaxation(problem, head=head)
    rows = relaxation.rows(problem.given(images(7)).evidence)
    torch.manual_seed(0)
    logits = 3.0 * torch.randn(7, relaxation.coordinates.count)
    points = relaxation.head.points(rows, logits)
    assert points.shape == (7, 5)
    assert (points >= -1e-6).all()
    assert (points <= 1 + 1e-6).all()
    whole = np.concatenate([images(7), points.numpy()], 1)
    expected = np.column_stack([f.value(whole) for f in problem.functions])
    np.testing.assert_allclose(relaxation.values(rows, points).numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_every_loss_trains_on_flips(loss):
    problem = adversarial(small_network())
    config = TrainingConfig(loss=loss, hidden=(16,), epochs=3, batch_size=16)
    solver = fit(problem, images(), config)
    answers = solver.with_stages(repair=False, certificate="none").solve(problem, images(10, 3))
    assert answers.assignments.dtype == np.float64
    assert np.isfinite(answers.objective).all()


def test_a_residual_network_learns_to_flip_and_comes_back_from_disk(tmp_path):
    problem = adversarial(small_network())
    config = TrainingConfig(
        loss="ssl_pen", head="residual", hidden=(32,), skip=True, epochs=60, batch_size=32,
        learning_rate=1e-2, penalty_start=20.0, margins=(0.0, 0.2), keep_best=False,
    )  # fmt: skip
    x = images(256)
    solver = fit(problem, x, config, Session(out=tmp_path / "run"))
    test = images(200, seed=9)
    stages = {"repair": False, "certificate": "none", "margins": (0.2,)}
    alone = solver.with_stages(**stages).solve(problem, test)
    can = problem.is_feasible(solver.solve(problem, test).assignments)
    assert alone.feasible[can].mean() > 0.7
    assert -alone.objective[alone.feasible].mean() < 2.0
    again = NeuralSolver.load(tmp_path / "run", problem)
    same = again.with_stages(**stages).solve(problem, test)
    np.testing.assert_array_equal(alone.assignments, same.assignments)


def test_functions_travel_to_other_processes():
    problem = adversarial(small_network())
    module = NeuralFunction(nn.Sequential(nn.Linear(10, 3), nn.ReLU(), nn.Linear(3, 1)), (2,) * 10)
    rows = np.concatenate([images(4), images(4, seed=2)], 1)
    for function in (*problem.functions, module):
        before = function.value(rows)  # its copies travel, too
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(function)).value(rows), before)


def test_discrete_variables_with_a_network_as_constraint():
    torch.manual_seed(0)
    cards = (2, 3, 2, 2)
    module = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 1))
    rng = np.random.default_rng(0)
    h = LogLinearModel(
        cards, (Factor((0, 1), rng.normal(size=(2, 3))), Factor((2, 3), rng.normal(size=(2, 2))))
    )
    problem = Problem(h, (Constraint(NeuralFunction(module, cards), 0.1),), (0,))
    solver = fit(problem, np.array([[0], [1]] * 8), TrainingConfig(hidden=(8,), epochs=5))
    answers = solver.solve(problem, [[0], [1]])
    assert answers.assignments.dtype == np.int32
    best = solve(problem, [[0], [1]], method="exhaustive")
    assert (answers.feasible == best.feasible).all()
    assert (answers.objective[answers.feasible] <= best.objective[answers.feasible] + 1e-9).all()


def test_flips_are_recognised():
    net = small_network()
    flip = flip_of(adversarial(net))
    assert flip is not None
    assert flip.network is net
    np.testing.assert_array_equal(flip.original, np.arange(5))
    assert flip_of(Problem(LogLinearModel((2,)))) is None
