"""`cmpe.sensitivity` against enumeration."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.generation import grid
from tests.problems import (
    Shape,
    all_assignments,
    random_network_problem,
    random_problem,
    seeds,
    worked_example,
)
from tests.tradeoffs.truth import enumerated


def assert_sensitive(problem, evidence):
    for found, truth in zip(
        cmpe.sensitivity(problem, evidence), enumerated(problem, evidence), strict=True
    ):
        if not truth.satisfied().any():
            assert found.answer.status is cmpe.Status.INFEASIBLE
            assert found.regrets == {}
            continue
        assert found.proved
        for j, constraint in enumerate(problem.constraints):
            own = constraint.function.value(found.answer.assignment[np.newaxis])[0]
            limits = (own, truth.next_value(j))
            np.testing.assert_allclose(found.intervals[j], limits, atol=1e-9)
        for v in problem.free:
            assert found.exact[v].all()
            wanted = [truth.regret(v, a) for a in range(len(found.regrets[v]))]
            np.testing.assert_allclose(found.regrets[v], wanted, atol=1e-7)


@pytest.mark.parametrize("constraints", [0, 1, 2])
@settings(max_examples=12)
@given(seeds)
def test_small_problems_of_every_kind(constraints, seed):
    assert_sensitive(*random_problem(seed, Shape(constraints=constraints)))


@settings(max_examples=12)
@given(seeds)
def test_cutset_networks(seed):
    assert_sensitive(*random_network_problem(seed))


def test_the_worked_example():
    found = cmpe.sensitivity(worked_example(), [[1, 1]])[0]
    assert found.answer.objective == 11.0
    assert found.intervals == ((20.0, 21.0),)
    assert found.active == (True,)
    assert found.multipliers[0] == pytest.approx(2.0)
    assert found.regrets[2].tolist() == [0.0, 3.0]
    assert found.least_regret() == {2: 3.0, 3: np.inf}
    assert "optimal for q from 20 to 21" in repr(found)
    assert found.to_frame()["regret"].tolist() == [0.0, 3.0, np.inf, 0.0]
    assert "regret" in found._repr_html_()


def test_a_constraint_that_does_not_bind_is_not_active():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    found = cmpe.sensitivity(Problem(h, [h <= 5.0, h >= 0.5]))[0]
    assert found.active == (False, False)
    assert found.intervals == ((1.0, np.inf), (-np.inf, 1.0))
    assert found.multipliers.tolist() == [0.0, 0.0]


def test_wide_rows_have_bounds():
    model = grid(24, 24, seed=2)
    found = cmpe.sensitivity(Problem(model), time_limit=0.5)[0]
    assert not any(exact.any() for exact in found.exact.values())
    assert "&gt;=" in found._repr_html_()
    assert all(len(regret) == 2 for regret in found.regrets.values())


def changed(problem, scope, answer, size):
    """The first table over a scope loses `size` at the answer and gains it elsewhere."""
    model = problem.objective
    number = next(i for i, f in enumerate(model.factors) if f.scope == scope)
    table = model.factors[number].log_table + size
    own = tuple(answer[list(scope)])
    table[own] -= 2 * size
    factors = list(model.factors)
    factors[number] = cmpe.Factor(scope, table)
    return Problem(replace(model, factors=tuple(factors)), problem.constraints)


@settings(max_examples=40)
@given(seeds)
def test_a_radius_is_how_far_a_table_may_change(seed):
    """Against enumeration: within it the answer stays optimal, beyond it the worst change wins."""
    problem, _ = random_problem(seed, Shape(constraints=seed % 3))
    problem = Problem(problem.objective, problem.constraints)
    (found,) = cmpe.sensitivity(problem)
    if found.answer.status is cmpe.Status.INFEASIBLE:
        assert found.radius == {}
        return
    answer = found.answer.assignment
    rows = all_assignments(problem.domain.cardinalities)
    good = problem.is_feasible(rows)
    for scope, radius in found.radius.items():
        assert found.radius_exact[scope]
        others = good & (rows[:, list(scope)] != answer[list(scope)]).any(axis=1)
        best = problem.objective.value(rows[others]).max(initial=-np.inf)
        assert radius == pytest.approx((found.answer.objective - best) / 2, abs=1e-7)
        if not np.isfinite(radius):
            continue
        for share, stays in ((0.99, True), (1.01, False)):
            size = share * radius + (0.0 if stays else 1e-3)
            other = changed(problem, scope, answer, size)
            values = np.where(good, other.objective.value(rows), -np.inf)
            assert (other.objective.value(answer[np.newaxis])[0] >= values.max() - 1e-7) == stays


def test_radii_by_name_rows_of_their_own_and_networks():
    model = LogLinearModel.from_tables(
        (2, 2), [(("A",), [0.0, 1.0]), (("A", "B"), [[0.0, 2.0], [0.0, 0.5]])], names=["A", "B"]
    )
    (found,) = cmpe.sensitivity(Problem(model))
    assert found.radius == {("A",): 0.25, ("A", "B"): 0.25}
    assert "radius" in found._repr_html_()
    (moved,) = cmpe.sensitivity(Problem(model), potentials={"A": [[3.0, 0.0]]})
    assert moved.radius == {("A",): 1.75, ("A", "B"): 1.0}
    (seen,) = cmpe.sensitivity(Problem(model), {"A": 1})
    assert seen.radius == {("A",): np.inf, ("A", "B"): 0.25}
    problem, evidence = random_network_problem(1)
    assert all(each.radius == {} for each in cmpe.sensitivity(problem, evidence))
