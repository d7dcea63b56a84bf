"""Wide rows: never a wrong status, and in time."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.generation import grid
from cmpe.solvers.wide import Wide
from tests.problems import Shape, ask, random_problem, seeds

AWKWARD = Shape(variables=5, factors=8, constraints=2)


def agree(found: cmpe.Solutions, truth: cmpe.Solutions) -> None:
    """What is claimed is true; what is not proved is bounded."""
    proved = found.proved
    np.testing.assert_array_equal(found.status[proved], truth.status[proved])
    optimal = found.status == cmpe.Status.OPTIMAL
    np.testing.assert_allclose(found.objective[optimal], truth.objective[optimal], atol=1e-5)
    feasible = truth.feasible
    assert (found.bound[feasible] >= truth.objective[feasible] - 1e-6).all()


@settings(max_examples=60)
@given(seeds)
def test_a_moment_of_presolve_claims_nothing_wrong(seed):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    agree(ask(Wide(briefly=True), problem, evidence), truth)


@settings(max_examples=25)
@given(seeds)
def test_races_end_with_the_proved_optimum(seed):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = ask(Wide(), problem, evidence, time_limit=5.0)
    agree(found, truth)
    np.testing.assert_array_equal(found.status, truth.status)


def test_a_wide_grid_is_answered_with_a_bound():
    problem = cmpe.Problem(grid(40, 40, seed=1))
    found = ask(Wide(), problem, time_limit=0.5)
    assert found.feasible.all()
    assert found.gap[0] < 0.1 * abs(found.objective[0])


def test_a_start_is_kept():
    problem = cmpe.Problem(grid(12, 12, seed=1))
    best = cmpe.solve(problem)
    running = cmpe.Running(start=best.assignments)
    found = ask(Wide(), problem, time_limit=1e-3, running=running)
    assert found.objective[0] == pytest.approx(best.objective[0])


@pytest.mark.parametrize("method", ["auto", "search", "local"])
@pytest.mark.parametrize("limited", [False, True])
def test_where_nothing_has_weight_nobody_says_violated(method, limited):
    """Nine vertices, all neighbours, eight colours: no assignment has weight, and none is found."""
    apart = np.where(np.eye(8, dtype=bool), -np.inf, 0.0)
    pairs = [((u, v), apart) for v in range(9) for u in range(v)]
    colours = cmpe.LogLinearModel.from_tables([8] * 9, pairs)
    limits = [cmpe.Constraint(grid(3, 3, values=8, seed=1), at_most=-3.0)] if limited else []
    found = cmpe.solve(cmpe.Problem(colours, limits), method=method, time_limit=0.2)
    assert found.labels[0] in ("unknown", "infeasible")
    assert found.labels == ["unknown"] or method == "auto"
