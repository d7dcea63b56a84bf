"""Class margins as columns and rows: ties, unknown originals, objectives and limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solving import solve
from tests.networks import random_network
from tests.problems import all_assignments, seeds
from tests.solvers.milp.mixed.test_mixed import check_equal


def test_a_class_that_ties_counts_for_the_lower_one():
    """Class 1 needs F > 0: at F = 0 the program could have either."""
    network = ReluNetwork((np.ones((1, 1)),), (np.zeros(1),))
    flip = ClassMargin(network, (0,), (1,), (2, 2))
    both = (Constraint(flip, 0.0),)
    found = solve(Problem(flip, both), method="auto", gap=0.5)
    assert found.labels == ["optimal"]
    assert found.objective[0] == 0.0
    found = solve(Problem(flip, both, (), "", (1,)), method="milp")
    assert found.feasible.all()  # the objective may take the other class than the constraint
    assert found.objective[0] == pytest.approx(1e-6, abs=1e-8)
    most = Problem(flip, (), (0,))
    best = solve(most, [[0], [1]], method="exhaustive")
    check_equal(solve(most, [[0], [1]], method="milp"), best)


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_margins_of_an_unknown_original(seed):
    """The class is a column of its own where the original is free."""
    network = random_network(seed, (2, 3, 1 + seed % 3))
    margin = ClassMargin(network, (0, 1), (2, 3), (2,) * 4)
    limit = float(np.median(margin.value(np.indices((2,) * 4).reshape(4, -1).T)))
    for problem in (Problem(margin), Problem(margin, (Constraint(margin, limit),))):
        check_equal(solve(problem, method="milp"), solve(problem, method="exhaustive"))


def test_ties_go_to_the_lowest_class():
    """The outputs are the inputs: two classes tie in most rows."""
    identity = ReluNetwork((np.eye(3),), (np.zeros(3),))
    margin = ClassMargin(identity, (0, 1, 2), (3, 4, 5), (2,) * 6)
    rows = all_assignments([2, 2, 2])
    for observed in ((0, 1, 2), (3, 4, 5)):
        problem = Problem(margin, (), observed)
        best = solve(problem, rows, method="exhaustive")
        check_equal(solve(problem, rows, method="milp"), best)


@pytest.mark.parametrize("observed", [(0, 1), (2, 3)])
@pytest.mark.parametrize("outputs", [1, 3])
def test_margins_of_observed_inputs(outputs, observed):
    """The original or the changed inputs are evidence; as the objective and as a limit."""
    network = random_network(outputs, (2, 3, outputs))
    margin = ClassMargin(network, (0, 1), (2, 3), (2,) * 4)
    worth = LogLinearModel((2,) * 4, tuple(Factor((v,), [0.0, 1.0 - 0.7 * v]) for v in range(4)))
    for problem in (
        Problem(margin, (), observed),
        Problem(worth, (Constraint(margin, 0.0),), observed),
    ):
        rows = all_assignments([2, 2])
        best = solve(problem, rows, method="exhaustive")
        check_equal(solve(problem, rows, method="milp"), best)
