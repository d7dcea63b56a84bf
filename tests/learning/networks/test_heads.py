"""How last numbers become answers: the closed form of head linear, and what fits where."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe.errors import MethodError
from cmpe.flip import adversarial
from cmpe.learning.losses.functions import FunctionRelaxation
from cmpe.learning.networks.heads import nearest
from cmpe.learning.networks.networks import encode
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import fit
from cmpe.models.distance import Distance
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solving import solve
from tests.learning.losses.test_functions import images, small_network


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
    config = TrainingConfig(loss="distill", head="linear", hidden=(8,), epochs=2)
    answers = fit(wide, rows, config).solve(wide, rows)
    assert (answers.feasible == solve(wide, rows, method="local").feasible).all()


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


def test_small_logits_of_head_residual_move_nothing():
    problem = adversarial(small_network())
    relaxation = FunctionRelaxation(problem, head="residual")
    rows = relaxation.rows(problem.given(images(3)).evidence)
    still = torch.full((3, 5), 0.9 * TRAINING.still)
    x = torch.as_tensor(images(3), dtype=torch.float32)
    torch.testing.assert_close(relaxation.head.points(rows, still, torch.zeros(3)), x)
    towards = relaxation.head.points(rows, torch.full((3, 5), 9.0), torch.zeros(3))
    assert (towards > x).all()
    assert (towards <= 1.0).all()
    away = relaxation.head.points(rows, torch.full((3, 5), -9.0), torch.zeros(3))
    assert (away < x).all()
    assert (away >= 0.0).all()
