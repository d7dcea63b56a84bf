"""Training where functions are neural and variables continuous."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch import nn

from cmpe.errors import MethodError
from cmpe.learning.losses.functions import FunctionRelaxation
from cmpe.learning.losses.losses import LOSSES
from cmpe.learning.networks.heads import nearest
from cmpe.learning.networks.networks import encode
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import Session, fit
from cmpe.models.distance import Distance
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.queries import adversarial, flip_of
from cmpe.solvers.dispatch import solve


def small_network(outputs: int = 3, seed: int = 0, inputs: int = 5) -> ReluNetwork:
    """A network whose classes are about equally frequent in the box."""
    rng = np.random.default_rng(seed)
    weights = (rng.normal(size=(6, inputs)), rng.normal(size=(outputs, 6)))
    first = ReluNetwork(weights, (rng.normal(size=6) * 0.2, np.zeros(outputs)))
    shift = -first.logits(rng.random((200, inputs))).mean(axis=0)
    return ReluNetwork(weights, (first.biases[0], shift))


def images(count: int = 64, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((count, 5))


@pytest.mark.parametrize("head", ["plain", "residual", "linear"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_values_are_the_problems_and_points_stay_in_the_box(head, outputs):
    problem = adversarial(small_network(outputs))
    relaxation = FunctionRelaxation(problem, head=head)
    rows = relaxation.rows(problem.given(images(7)).evidence)
    torch.manual_seed(0)
    logits = 3.0 * torch.randn(7, relaxation.head.code.count)
    points = relaxation.head.points(rows, logits, torch.zeros(7))
    assert points.shape == (7, 5)
    assert (points >= -1e-6).all()
    assert (points <= 1 + 1e-6).all()
    whole = np.concatenate([images(7), points.numpy()], 1)
    expected = np.column_stack([f.value(whole) for f in problem.functions])
    np.testing.assert_allclose(relaxation.values(rows, points).numpy(), expected, atol=1e-4)


def test_the_nearest_point_is_the_linear_programs():
    from scipy.optimize import linprog

    rng = np.random.default_rng(0)
    for _ in range(30):
        x, gradient, need = rng.random(4), rng.normal(size=4), float(rng.uniform(-0.2, 1.5))
        y = nearest(*(torch.as_tensor(a) for a in (x, gradient)), torch.tensor(need)).numpy()
        # y = x + p - m, minimise sum(p + m)
        found = linprog(
            np.ones(8), A_ub=[np.concatenate([gradient, -gradient])], b_ub=[-need],
            bounds=[(0, 1 - v) for v in x] + [(0, v) for v in x],
        )  # fmt: skip
        if found.status == 0:
            assert np.abs(y - x).sum() == pytest.approx(found.fun, abs=1e-6)
            assert gradient @ (y - x) <= -need + 1e-6
        else:  # nothing reaches it: as far as it goes
            np.testing.assert_allclose(y, gradient < 0, atol=1e-9)


def test_labels_make_the_linear_head_exact():
    net = small_network()
    problem = adversarial(net)
    x, y = images(9), images(9, seed=5)
    moved = net.decide(x) != net.decide(y)
    relaxation = FunctionRelaxation(problem, head="linear")
    code = relaxation.head.labels(x, y)
    assert code.shape == (9, 2 + 6)
    slopes = code[:, 2:]
    a, b = (z @ net.weights[0].T + net.biases[0] for z in (x, y))
    np.testing.assert_allclose(slopes * (b - a), np.maximum(b, 0) - np.maximum(a, 0), atol=1e-5)
    target = np.where(code[:, 0] == 1, 1, np.where(code[:, 1] == 1, 2, 0))
    assert (target == net.decide(y))[moved].all()


@pytest.mark.parametrize("loss", list(LOSSES))
def test_every_loss_trains_on_flips(loss):
    problem = adversarial(small_network())
    head = "linear" if loss == "distill" else "plain"
    config = TrainingConfig(loss=loss, head=head, hidden=(16,), epochs=3, batch_size=16)
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


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_predicted_linearisation_flips_and_repair_leaves_nothing_violated(outputs):
    network = small_network(outputs)
    problem = adversarial(network)
    config = TrainingConfig(
        loss="distill", head="linear", hidden=(32,), epochs=80, batch_size=32, learning_rate=5e-3,
        margins=(0.0, 0.1), keep_best=False,
    )  # fmt: skip
    solver = fit(problem, images(256), config)
    test = images(100, seed=9)
    best = solve(problem, test, method="local")
    alone = solver.with_stages(repair=False, certificate="none", margins=(0.1,)).solve(
        problem, test
    )
    whole = solver.solve(problem, test)
    assert alone.feasible[best.feasible].mean() > 0.7
    assert (whole.feasible == best.feasible).all()
    some = best.feasible
    assert -whole.objective[some].mean() <= 1.1 * -best.objective[some].mean()
    assert (whole.bound[some] >= best.objective[some] - 1e-9).all()
    torch_points = solver.relaxed(problem.given(test), 0.1)[0]
    both = alone.feasible & best.feasible
    kernel = alone.assignments[both, 5:]
    assert np.abs(torch_points[both] - kernel).max() < 0.02


def beside(network: ReluNetwork) -> Problem:
    """The same flips, with an observed variable of three values before everything else."""
    count = network.inputs
    cards = (3, *[2] * (2 * count))
    original, changed = tuple(range(1, 1 + count)), tuple(range(1 + count, 1 + 2 * count))
    plain = adversarial(network)
    margin = ClassMargin(network, original, changed, cards)
    return Problem(
        Distance(cards, tuple(zip(original, changed, strict=True))),
        (Constraint(margin, plain.constraints[0].at_most),),
        (0, *original),
        "",
        original + changed,
    )


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_linear_head_finds_its_inputs_beside_others(outputs):
    """Coordinates are not columns where an observed variable has three values."""
    network = small_network(outputs)
    rows = np.column_stack([np.arange(12) % 3, images(12)])
    plain, wide = adversarial(network), beside(network)
    torch.manual_seed(0)
    found = []
    for problem, evidence in ((plain, rows[:, 1:]), (wide, rows)):
        relaxation = FunctionRelaxation(problem, head="linear")
        given = relaxation.rows(problem.given(evidence).evidence)
        logits = torch.linspace(-2, 2, 12 * relaxation.head.code.count).reshape(12, -1)
        points = relaxation.head.points(given, logits, torch.zeros(12))
        read = relaxation.head.inputs(encode(problem, evidence))
        found.append((points.numpy(), read.numpy()))
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)
    config = TrainingConfig(loss="distill", head="linear", hidden=(8,), epochs=2, mask_inputs=True)
    answers = fit(wide, rows, config).solve(wide, rows)
    assert (answers.feasible == solve(wide, rows, method="local").feasible).all()


def test_of_several_margins_the_best_feasible_flip_is_kept():
    problem = adversarial(small_network())
    config = TrainingConfig(
        loss="distill", head="linear", hidden=(16,), epochs=10, batch_size=32, margins=(0.0, 0.5),
        keep_best=False,
    )  # fmt: skip
    solver, test = fit(problem, images(128), config), images(60, seed=3)
    alone = [
        solver.with_stages(repair=False, certificate="none", margins=margins).solve(problem, test)
        for margins in ((0.0,), (0.1,), (0.5,), (0.0, 0.1, 0.5))
    ]
    *single, every = alone
    assert not any((one.feasible == every.feasible).all() for one in single[:1])
    best = np.max([np.where(one.feasible, one.objective, -np.inf) for one in single], axis=0)
    np.testing.assert_allclose(np.where(every.feasible, every.objective, -np.inf), best)


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


def test_heads_that_do_not_fit_are_refused():
    h = LogLinearModel((2, 2), (Factor((0, 1), np.zeros((2, 2))),))
    with pytest.raises(MethodError, match="Distance objective"):
        fit(Problem(h, (), (0,)), [[0], [1]], TrainingConfig(head="residual", epochs=1))
    problem = Problem(h, (), (0,), "", (0, 1))
    with pytest.raises(MethodError, match="pairs every free variable"):
        FunctionRelaxation(problem, head="residual")
    with pytest.raises(MethodError, match="adversarial problem"):
        FunctionRelaxation(problem, head="linear")
    deep = ReluNetwork(
        (np.ones((2, 2)), np.ones((2, 2)), np.ones((1, 2))), (np.zeros(2), np.zeros(2), np.zeros(1))
    )
    with pytest.raises(MethodError, match="one hidden layer; found 2"):
        FunctionRelaxation(adversarial(deep), head="linear")
    with pytest.raises(MethodError, match="a head is one of"):
        TrainingConfig(head="tail")


def test_flips_are_recognised():
    net = small_network()
    flip = flip_of(adversarial(net))
    assert flip is not None
    assert flip.network is net
    np.testing.assert_array_equal(flip.original, np.arange(5))
    assert flip_of(Problem(LogLinearModel((2,)))) is None
