"""Class margins as columns and rows: ties, unknown originals, objectives and limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solvers.milp.mixed.columns import InputColumns
from cmpe.solvers.milp.mixed.margins import Margin
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


IDENTITY = ReluNetwork((np.eye(3),), (np.zeros(3),))
FREE_INPUTS = InputColumns(np.zeros(3), np.arange(3), 3.0)
KNOWN_INPUTS = InputColumns(np.array([0.0, 1.0, 0.0]), np.full(3, -1), 0.0)


def test_the_rows_of_a_known_class_and_of_every_class():
    of_known = Margin(IDENTITY, KNOWN_INPUTS, FREE_INPUTS)
    assert of_known._classes.tolist() == [1]
    assert of_known._rows.tolist() == [[-1.0, 1.0, 0.0], [0.0, 1.0, -1.0]]
    of_any = Margin(IDENTITY, FREE_INPUTS, KNOWN_INPUTS)
    assert of_any._classes.tolist() == [0, 1, 2]
    assert of_any._per_class(np.arange(6.0)).toarray().tolist() == [
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 2.0, 3.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 4.0, 5.0],
    ]


def test_ties_go_to_the_lowest_class():
    assert Margin(IDENTITY, FREE_INPUTS, KNOWN_INPUTS)._ties_lost().tolist() == [0, 0, 1, 0, 1, 1]
    one_output = ReluNetwork((np.ones((1, 3)),), (np.zeros(1),))
    assert Margin(one_output, FREE_INPUTS, KNOWN_INPUTS)._ties_lost().tolist() == [0.0, 1.0]


def test_what_gaps_of_known_and_of_free_inputs_can_be():
    """Of the identity F_1 - F_k is 1 at (0, 1, 0), and from -1 to 1 where inputs are free."""
    margin = Margin(IDENTITY, KNOWN_INPUTS, FREE_INPUTS)
    low, high = margin._bounds(margin.original)
    assert (low <= 1.0).all()
    np.testing.assert_allclose([low, high], 1.0, atol=1e-5)
    low, high = margin._bounds(margin.changed)
    assert (low <= -1.0).all()
    assert (high >= 1.0).all()


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
