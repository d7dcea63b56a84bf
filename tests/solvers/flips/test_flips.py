"""Adversarial problems through the one interface."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.errors import MethodError, ModelError
from cmpe.flip import adversarial
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Problem
from cmpe.solution import Status
from cmpe.solvers.base import Running
from cmpe.solving import solve
from tests.learning.losses.test_functions import images, small_network


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
    found = solve(Problem(h, (), (), "", (0, 1)))  # auto answers what it cannot prove
    assert (found.labels, found.method.tolist()) == (["feasible"], ["local"])
    with pytest.raises(ModelError, match="margin must be at least 0"):
        adversarial(small_network(), margin=-1.0)


@pytest.mark.parametrize("method", ["local", "search", "exact", "milp", "auto", "lagrangian"])
def test_starts_that_do_not_fit_are_refused(method):
    """Fractions are for continuous variables only."""
    h = LogLinearModel((2, 3), (Factor((0, 1), np.eye(2, 3)),))
    table = Problem(h, (), (0,))
    for start, said in (
        ([[0, 3]], "values of its variables"),
        ([[0, 0.5]], "values of its variables"),
        ([[0, np.nan]], "values of its variables"),
        ([[0, -2]], "values of its variables"),
        ([[0, 0, 0]], r"shape \(1, 2\), found \(1, 3\)"),
        ([[0, 0], [0, 0]], "must have 1 rows, found 2"),
    ):
        with pytest.raises(MethodError, match=said):
            solve(table, [[0]], method=method, running=Running(start=np.array(start)))
    for start in ([[7, 1]], [[0, -1]], [[0.0, 2.0]]):  # what it says of evidence is not read
        running = Running(start=np.array(start))
        assert solve(table, [[0]], method=method, running=running).objective.tolist() == [1.0]


@pytest.mark.parametrize("method", ["local", "milp"])
def test_starts_with_fractions(method):
    problem, x = adversarial(small_network()), images(3)
    best = solve(problem, x, method=method)
    for start in (np.full((3, 10), 0.5), best.assignments, np.full((3, 10), -1)):
        again = solve(problem, x, method=method, running=Running(start=start))
        np.testing.assert_allclose(again.objective, best.objective, atol=1e-6)
    for start in (np.full((3, 10), 1.5), np.full((3, 10), -0.5), np.zeros((3, 4))):
        with pytest.raises(MethodError, match="a start must"):
            solve(problem, x, method=method, running=Running(start=start))
