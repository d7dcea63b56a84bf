"""Functions without tables: values at fractions, distances, modules, margins; and in torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from cmpe.errors import EvidenceError, MethodError, ModelError
from cmpe.models.distance import Distance
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction, Slots
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solution import Solutions, Status
from cmpe.tensor.functions import Functions


def test_slots_and_modules():
    slots = Slots((2, 3, 1, 2))
    np.testing.assert_array_equal(slots.of([[0.5, 2, 0, 1]]), [[0.5, 0, 1, 1]])
    np.testing.assert_array_equal(slots.columns((3, 1)), [3, 1, 2])
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 1))
    f = NeuralFunction(module, (2, 3, 1, 2), (1, 3))
    rows = np.array([[0, 2, 0, 1], [1, 0, 0, 0]])
    with torch.no_grad():
        expected = module(torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0]]))[:, 0]
    np.testing.assert_allclose(f.value(rows), expected, atol=1e-6)
    with pytest.raises(ModelError, match="one number a row"):
        NeuralFunction(nn.Linear(3, 2), (2, 3, 1, 2), (1, 3)).value(rows)
    with pytest.raises(ModelError, match="scope"):
        NeuralFunction(module, (2,), (1,))
    with pytest.raises(ModelError, match="upper bound"):
        _ = Problem(f).shift
    assert Problem(NeuralFunction(module, (2, 3, 1, 2), (1, 3), largest=4.0)).shift == 5.0


def test_all_kinds_in_torch_with_gradients():
    rng = np.random.default_rng(0)
    cards = (2,) * 6
    for outputs in (1, 3):
        net = ReluNetwork(
            (rng.normal(size=(5, 3)), rng.normal(size=(outputs, 5))),
            (rng.normal(size=5), rng.normal(size=outputs)),
        )
        margin = ClassMargin(net, (0, 1, 2), (3, 4, 5), cards)
        tables = LogLinearModel(cards, (Factor((0, 4), rng.normal(size=(2, 2))),))
        torch.manual_seed(1)
        module = NeuralFunction(
            nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), cards, (2, 5)
        )
        constraints = tuple(Constraint(f, 0.0) for f in (margin, tables, module))
        problem = Problem(
            Distance.between((0, 1, 2), (3, 4, 5), 6), constraints, (0, 1, 2), "", range(6)
        )
        functions = Functions(problem, dtype=torch.float64)
        points = rng.random((7, 6))
        values, slopes = functions.gradients(torch.as_tensor(points))
        expected = np.column_stack([f.value(points) for f in problem.functions])
        np.testing.assert_allclose(values.numpy(), expected, atol=1e-9)
        for d in range(3, 6):
            nudge = np.zeros(6)
            nudge[d] = 1e-6
            up, down = (
                np.column_stack([f.value(points + s * nudge) for f in problem.functions])
                for s in (1, -1)
            )
            np.testing.assert_allclose(slopes[..., d].numpy(), (up - down) / 2e-6, atol=1e-5)


def test_continuous_problems():
    h = LogLinearModel((2, 2, 3), (Factor((0, 1), [[0.0, 1.0], [2.0, 3.0]]),))
    problem = Problem(h, (), (0, 2), "", (0, 1))
    instances = problem.given([[0.25, 2]])
    assert instances.evidence.dtype == np.float64
    assert instances.complete([[0.5]]).tolist() == [[0.25, 0.5, 2.0]]
    with pytest.raises(EvidenceError, match=r"variable 0: evidence must be in \[0, 1\], found 1.5"):
        problem.given([[1.5, 2]])
    with pytest.raises(
        EvidenceError, match=r"variable 2: evidence must be from 0 to 2, found 0\.5"
    ):
        problem.given([[0.5, 0.5]])
    with pytest.raises(EvidenceError, match="variable 0"):
        problem.given([[np.nan, 1]])
    with pytest.raises(MethodError, match=r"needs tables.*continuous variables"):
        _ = problem.plan
    with pytest.raises(ModelError, match="cardinality 2"):
        Problem(h, (), (), "", (2,))
    with pytest.raises(ModelError, match="continuous must be distinct"):
        Problem(h, (), (), "", (0, 0))
    answers = Solutions.of(problem, [[0.25, 0.5, 2.0], [-1, -1, -1]])
    assert answers.objective[0] == pytest.approx(h.value([[0.25, 0.5, 2.0]])[0])
    assert answers.status.tolist() == [Status.FEASIBLE, Status.UNKNOWN]


def test_margins_need_variables_that_fit():
    net = ReluNetwork((np.ones((1, 2)),), (np.zeros(1),))
    with pytest.raises(ModelError, match="original: the network reads 2 variables, found 1"):
        ClassMargin(net, (0,), (1, 2), (2, 2, 2))
    with pytest.raises(ModelError, match="changed must be variables from 0 to 2"):
        ClassMargin(net, (0, 1), (2, 3), (2, 2, 2))
    with pytest.raises(ModelError, match="two values"):
        ClassMargin(net, (0, 1), (1, 2), (2, 2, 3))
