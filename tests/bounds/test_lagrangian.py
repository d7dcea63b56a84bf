import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.bounds import lagrangian
from cmpe.bounds.lagrangian import dual_bound, lagrangian_dual
from cmpe.errors import MethodError, TooLarge
from tests.problems import Shape, completions, random_problem, seeds, worked_example


@pytest.mark.parametrize("constraints", [0, 1, 3])
@settings(max_examples=200)
@given(seeds)
def test_the_bound_and_the_extreme_answers(constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints))
    dual = lagrangian_dual(problem.given(evidence))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert (dual.bound[truth.feasible] >= truth.objective[truth.feasible]).all()
    assert not dual.infeasible[truth.feasible].any()
    assert (dual.multipliers >= 0).all()
    known = (dual.feasible >= 0).all(axis=1)
    assert problem.is_feasible(dual.feasible[known]).all()
    if constraints == 1:  # exact and one-dimensional: infeasibility is always proved
        np.testing.assert_array_equal(dual.infeasible, truth.status == cmpe.Status.INFEASIBLE)
        np.testing.assert_array_equal(known, truth.feasible)


@settings(max_examples=100)
@given(seeds)
def test_one_constraint_gives_the_minimum_of_the_dual(seed):
    problem, evidence = random_problem(seed, Shape(constraints=1, zeros=False))
    if not problem.constraints:
        return
    instances = problem.given(evidence)
    dual = lagrangian_dual(instances)
    limit = problem.limits[0] + problem.tolerances[0]
    for row in np.flatnonzero(~dual.infeasible):
        rows = completions(instances, row)
        h, t = problem.objective.value(rows), problem.constraint_values(rows)[:, 0]
        grid = [(h - mu * (t - limit)).max() for mu in np.linspace(0, 50, 2001)]
        assert dual.bound[row] <= min(grid) + 1e-6
        at_optimum = (h - dual.multipliers[row, 0] * (t - limit)).max()
        assert dual.bound[row] == pytest.approx(at_optimum, abs=1e-6)


def test_what_is_too_wide_is_refused(monkeypatch):
    monkeypatch.setattr(lagrangian, "MOST_BYTES", 10)
    with pytest.raises(TooLarge, match=r"width \d+ needs 0 MiB a row; the limit is 0 MiB"):
        lagrangian_dual(worked_example().given([[1, 1]]))


@pytest.mark.parametrize("constraints", [0, 1, 3])
@settings(max_examples=150)
@given(seeds)
def test_any_multipliers_bound_the_optimum(constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints))
    instances = problem.given(evidence)
    rng = np.random.default_rng(seed)
    mu = rng.exponential(size=(len(instances), len(problem.constraints)))
    bound = dual_bound(instances, mu)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert (bound[truth.feasible] >= truth.objective[truth.feasible]).all()
    dual = lagrangian_dual(instances)
    known = ~dual.infeasible
    np.testing.assert_allclose(
        dual_bound(instances, dual.multipliers)[known], dual.bound[known], atol=1e-7
    )


def test_multipliers_must_be_numbers_from_zero_up():
    instances = worked_example().given([[1, 1]])
    for wrong in ([[-1.0]], [[np.nan]], [[1.0, 2.0]]):
        with pytest.raises(MethodError, match="multipliers must be finite, at least 0"):
            dual_bound(instances, np.array(wrong))
