"""`cmpe.sensitivity` against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.generation import grid
from tests.problems import Shape, random_network_problem, random_problem, seeds, worked_example
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
