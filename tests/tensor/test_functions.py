from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import nn

from cmpe import Constraint, Problem
from cmpe.errors import MethodError
from cmpe.models.distance import Distance
from cmpe.models.function import FiniteFunction
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.tensor.functions import Evaluate, Functions, evaluator
from tests.problems import all_assignments, random_cutset, random_problem, seeds


def at(functions, rows):
    return functions.values(torch.as_tensor(functions.slots.of(rows))).numpy()


@given(seed=seeds)
def test_values_at_assignments_are_the_functions_own(seed):
    problem, _ = random_problem(seed)
    rows = all_assignments(problem.objective.cardinalities)
    found = at(Functions(problem, dtype=torch.float64), rows)
    for column, function in zip(found.T, problem.functions, strict=True):
        expected = function.value(rows)
        known = np.isfinite(expected)
        np.testing.assert_allclose(column[known], expected[known], atol=1e-9)
        assert np.isfinite(column).all()  # a potential of 0 has a floor


@given(seed=seeds)
def test_cutset_networks_are_read_as_tables(seed):
    network = random_cutset(seed)
    rows = all_assignments(network.cardinalities)
    expected = network.value(rows)
    known = np.isfinite(expected)
    found = at(Functions(Problem(network.to_model()), dtype=torch.float64), rows)[:, 0]
    mine = evaluator(network, Functions(Problem(network.to_model()), dtype=torch.float64))
    slots = Functions(Problem(network.to_model()), dtype=torch.float64).slots
    np.testing.assert_allclose(mine(torch.as_tensor(slots.of(rows))).numpy(), found)
    np.testing.assert_allclose(found[known], expected[known], atol=1e-9)


def mixed() -> Problem:
    """A distance, a module, a margin and tables over [0, 1]^4."""
    torch.manual_seed(0)
    cards = (2, 2, 2, 2)
    margin = ClassMargin(
        ReluNetwork((np.array([[1.0, -1.0], [0.5, 1.0]]),), (np.zeros(2),)), (0, 1), (2, 3), cards
    )
    module = NeuralFunction(nn.Linear(4, 1), cards)
    table = LogLinearModel(cards, (Factor((0, 2), [[0.0, 1.0], [2.0, -1.0]]),))
    constraints = tuple(Constraint(f, 0.0) for f in (margin, module, table))
    distance = Distance(cards, ((0, 2), (1, 3)))
    return Problem(distance, constraints, continuous=range(4))


def test_gradients_are_those_of_small_moves():
    functions = Functions(mixed(), dtype=torch.float64)
    points = torch.as_tensor(np.random.default_rng(1).random((5, 4)))
    values, gradients = functions.gradients(points)
    assert gradients.shape == (5, 4, 4)
    for d in range(2, 4):  # the margin's class comes from variables 0 and 1 and is held fixed
        moved = points.clone()
        moved[:, d] += 1e-6
        slope = (functions.values(moved) - values) / 1e-6
        np.testing.assert_allclose(gradients[..., d].numpy(), slope.numpy(), atol=1e-4)


def test_leading_axes_are_kept():
    functions = Functions(mixed())
    assert functions.values(torch.rand(3, 2, 4)).shape == (3, 2, 4)


@dataclass(frozen=True)
class Constant(FiniteFunction):
    cardinalities: tuple[int, ...]

    def value(self, assignments):
        return np.ones(len(assignments))

    def ceiling(self):
        return 1.0


def test_a_kind_without_a_gradient_is_named():
    with pytest.raises(MethodError, match="there is no gradient of a function of kind Constant"):
        Functions(Problem(Constant((2, 2))))


def test_a_heir_is_evaluated_like_its_kind():
    class Named(LogLinearModel):
        pass

    model = Named((2,), (Factor((0,), [1.0, 3.0]),))
    functions = Functions(Problem(LogLinearModel((2,))), dtype=torch.float64)
    evaluate: Evaluate = evaluator(model, functions)
    assert evaluate(torch.tensor([[0.5]], dtype=torch.float64)).item() == 2.0
