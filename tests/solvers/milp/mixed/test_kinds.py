"""What a linear program can say of each kind of function, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from cmpe.errors import MethodError
from cmpe.models.distance import Distance
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solvers.milp.mixed.kinds import (
    ReadableDistance,
    ReadableMargin,
    ReadableNetwork,
    ReadableTables,
    readable,
    readable_functions,
)
from cmpe.solving import solve
from tests.models.tractable.test_branching import deep_network


def test_what_a_linear_program_cannot_say_is_refused():
    def refused(problem: Problem, evidence: object, match: str) -> None:
        with pytest.raises(MethodError, match=match):
            solve(problem, evidence, method="milp")

    h = LogLinearModel((2, 2, 2), (Factor((0, 1), np.zeros((2, 2))),))
    both = Problem(h, (), (2,), "", (0, 1))
    refused(both, [[0]], r"at most one free continuous variable; found 0, 1 in the scope \(0, 1\)")
    assert solve(both.observing([0]), [[0.5]], method="milp").labels == ["optimal"]
    smooth = NeuralFunction(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), (2, 2, 2))
    refused(Problem(smooth), None, r"found Tanh.* in the module Sequential; method local")
    wide = NeuralFunction(nn.Linear(3, 2), (2, 2, 2))
    refused(Problem(wide), None, "must map 3 numbers to 1; found 3 to 2")


def test_every_kind_has_its_class():
    cards = (2,) * 4
    network = ReluNetwork((np.ones((1, 2)),), (np.zeros(1),))
    tables = LogLinearModel(cards, (Factor((0, 3), np.eye(2)),))
    for function, kind, scope in (
        (tables, ReadableTables, ()),
        (Distance(cards, ((3, 1), (1, 0))), ReadableDistance, (0, 1, 3)),
        (NeuralFunction(nn.Linear(2, 1), cards, (2, 0)), ReadableNetwork, (2, 0)),
        (ClassMargin(network, (0, 1), (2, 3), cards), ReadableMargin, (2, 3, 0, 1)),
    ):
        (found,) = readable_functions(Problem(function))
        assert type(found) is kind
        assert found.scope == scope
        assert found.factors == (tables.factors if kind is ReadableTables else ())


def test_a_cutset_network_is_tables_of_discrete_variables():
    network = deep_network()
    discrete, continuous = Problem(network), Problem(network, continuous=(0,))
    assert readable(network, discrete).factors == network.to_model().factors
    with pytest.raises(MethodError, match="found a function of kind CutsetNetwork"):
        readable(network, continuous)


def test_another_kind_is_refused_by_name():
    class Strange(Distance):
        """A kind of its own parent: it takes the parent's row."""

    class Other:
        pass

    assert type(readable(Strange((2, 2), ((0, 1),)), None)) is ReadableDistance
    with pytest.raises(MethodError, match="found a function of kind Other; method local"):
        readable(Other(), None)


@pytest.mark.parametrize("known", [0.0, 0.25, 0.5, 1.0])
def test_distances_to_a_known_number(known):
    """max -|z - v| is 0 for z in [0, 1], and -min(v, 1 - v) where z is 0 or 1."""
    near = Distance((2, 2), ((0, 1),))
    between = Problem(near, (), (1,), "", (0, 1))
    assert solve(between, [[known]], method="milp").objective[0] == pytest.approx(0.0, abs=1e-7)
    whole = solve(Problem(near, (), (1,), "", (1,)), [[known]], method="milp")
    assert whole.objective[0] == pytest.approx(-min(known, 1.0 - known))
    far = Problem(LogLinearModel((2, 2)), (Constraint(near, -0.7),), (1,), "", (0, 1))
    expected = "optimal" if max(known, 1.0 - known) >= 0.7 else "infeasible"
    assert solve(far, [[known]], method="milp").labels == [expected]
