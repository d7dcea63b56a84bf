"""Adversarial problems through the one interface."""

from __future__ import annotations

import numpy as np
import pytest
from tests.learning.test_functions import images, small_network

from cmpe.errors import MethodError, ModelError
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Problem
from cmpe.queries import adversarial
from cmpe.solution import Status
from cmpe.solvers import solve
from cmpe.solvers.rows import Running


@pytest.mark.parametrize("outputs", [1, 3])
def test_proofs_bound_attacks_and_attacks_start_proofs(outputs):
    network = small_network(outputs)
    problem = adversarial(network)
    x = images(12)
    near = solve(problem, x, method="local")
    best = solve(problem, x, method="milp")
    assert set(best.labels) <= {"optimal", "infeasible"}
    for row in range(len(x)):
        if best.status[row] == Status.INFEASIBLE:
            assert not near.feasible[row]
            continue
        assert near.feasible[row]
        changed = near.assignments[row, 5:]
        assert network.decide(changed[None]) != network.decide(x[row][None])
        assert near.objective[row] <= best.bound[row] + 1e-9
        assert near.objective[row] <= best.objective[row] + 1e-6
    from_start = solve(problem, x, method="local", running=Running(start=best.assignments))
    feasible = best.feasible
    assert (from_start.objective[feasible] >= best.objective[feasible] - 1e-6).all()
    assert (
        solve(problem, x, method="auto").objective[feasible] >= best.objective[feasible] - 1e-6
    ).all()


def test_an_input_that_cannot_flip_is_proved_infeasible():
    constant = ReluNetwork((np.zeros((2, 3)), np.ones((1, 2))), (np.ones(2), np.ones(1)))
    problem = adversarial(constant)
    x = np.full((1, 3), 0.5)
    assert solve(problem, x, method="milp").labels == ["infeasible"]
    assert not solve(problem, x, method="local").feasible.any()


def test_other_problems_are_answered_or_refused_by_name():
    h = LogLinearModel((2, 2), (Factor((0, 1), np.array([[0.0, 1.0], [2.0, 0.0]])),))
    found = solve(Problem(h, (), (0,), "", (0, 1)), [[0.25]], method="milp")
    assert found.labels == ["optimal"]
    assert found.objective[0] == pytest.approx(0.75)
    with pytest.raises(MethodError, match="milp needs tables with at most one free continuous"):
        solve(Problem(h, (), (), "", (0, 1)), method="milp")
    with pytest.raises(ModelError, match="margin must be at least 0"):
        adversarial(small_network(), margin=-1.0)
