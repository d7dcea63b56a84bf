"""toulbar2 with priced constraints: answers are feasible, bounds hold, what it proves is true."""

import numpy as np
import pytest

import cmpe
from cmpe.generation import grid
from cmpe.solution import Status
from tests.problems import Shape, random_problem

pytest.importorskip("pytoulbar2")


@pytest.mark.parametrize("seed", range(40))
def test_what_is_claimed_is_true(seed):
    problem, evidence = random_problem(seed, Shape(variables=4, factors=6, constraints=2))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="toulbar2:priced", time_limit=5.0)
    proved = found.proved
    np.testing.assert_array_equal(found.status[proved], truth.status[proved])
    feasible = truth.feasible
    assert (found.bound[feasible] >= truth.objective[feasible] - 1e-6).all()
    optimal = found.status == Status.OPTIMAL
    np.testing.assert_allclose(found.objective[optimal], truth.objective[optimal], atol=1e-6)


def test_a_slack_constraint_costs_no_proof_and_a_binding_one_is_bounded():
    model = grid(6, 6, seed=1)
    cost = cmpe.Constraint(model.perturb(0.5, 2), at_most=1e3)
    slack = cmpe.solve(cmpe.Problem(model, [cost]), method="toulbar2:priced", time_limit=10.0)
    assert slack.labels == ["optimal"]
    limit = 0.5 * float(cost.function.value(slack.assignments)[0])
    binding = cmpe.Problem(model, [cmpe.Constraint(cost.function, at_most=limit)])
    found = cmpe.solve(binding, method="toulbar2:priced", time_limit=10.0)
    truth = cmpe.solve(binding)
    assert found.feasible[0]
    assert truth.objective[0] - 5.0 <= found.objective[0] <= truth.objective[0] + 1e-6
    assert truth.objective[0] - 1e-6 <= found.bound[0] <= truth.objective[0] + 5.0
