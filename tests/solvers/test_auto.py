import numpy as np
import pytest
from hypothesis import given, settings
from tests.problems import random_problem, seeds

import cmpe
from cmpe import Recipe, Status
from cmpe.errors import MethodError
from cmpe.generation import generate, grid
from cmpe.solvers.auto import AutoSolver


@settings(max_examples=100)
@given(seeds)
def test_auto_proves_what_enumeration_finds(seed):
    problem, evidence = random_problem(seed)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence)
    np.testing.assert_array_equal(found.status, truth.status)
    np.testing.assert_allclose(found.objective, truth.objective, atol=1e-9)


@settings(max_examples=100)
@given(seeds)
def test_lagrangian_is_certified_and_never_claims_too_much(seed):
    problem, evidence = random_problem(seed)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="lagrangian")
    answered = truth.feasible
    assert (found.bound[answered] >= truth.objective[answered]).all()
    assert (found.objective[found.feasible] <= truth.objective[found.feasible] + 1e-9).all()
    proved = found.status == Status.INFEASIBLE
    assert (truth.status[proved] == Status.INFEASIBLE).all()
    if len(problem.constraints) == 1:
        np.testing.assert_array_equal(found.feasible, truth.feasible)


def test_a_gap_is_enough_where_it_is_certified():
    made = generate(grid(7, 7, seed=5), Recipe(percentile=10, samples=400))
    exact = cmpe.solve(made.problem, made.test, method="exact")
    rough = cmpe.solve(made.problem, made.test, gap=0.5)
    assert (rough.gap <= 0.5).all()
    assert (rough.bound >= exact.objective - 1e-9).all()
    assert "lagrangian" in rough.method
    tight = cmpe.solve(made.problem, made.test, gap=1e-9)
    assert "exact" in tight.method
    np.testing.assert_allclose(tight.objective, exact.objective)


def test_gaps_that_make_no_sense_are_refused():
    with pytest.raises(MethodError, match="at least 0, found -1"):
        AutoSolver(gap=-1)
    with pytest.raises(MethodError, match="only method auto takes a gap, found 'milp'"):
        cmpe.solver("milp", gap=0.1)
