import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.lagrangian import Lagrangian
from cmpe.bounds.messages import Messages, compile_tables, floored
from cmpe.core.mplp import MANY, NONE
from cmpe.generation import grid
from tests.bounds.checks import AWKWARD, check
from tests.problems import random_problem, seeds


@settings(max_examples=60)
@given(seeds)
def test_more_steps_are_never_worse(seed):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    uppers = []
    for steps in (0, 10, 60):
        found = Messages().upper_bound(instances, Work(steps=steps))
        check(found, truth)
        assert (found.steps == steps).all()
        uppers.append(found.upper)
    assert all((b <= a).all() for a, b in itertools.pairwise(uppers))


def test_a_tree_without_constraints_is_solved():
    rng = np.random.default_rng(3)
    model = cmpe.LogLinearModel.from_tables(
        [3] * 8, [((v, (v - 1) // 2), rng.normal(size=(3, 3))) for v in range(1, 8)]
    )
    instances = cmpe.Problem(model).given()
    exact = Lagrangian().upper_bound(instances, Work()).upper[0]
    found = Messages().upper_bound(instances, Work(steps=200)).upper[0]
    assert found == pytest.approx(exact, abs=1e-6)


def test_the_tables_say_where_beliefs_are():
    problem = cmpe.Problem(grid(2, 2, seed=1))
    tables = compile_tables(problem.conditioning)
    assert tables.variables.tolist() == [0, 2, 4, 6, 8]
    arities = np.diff(tables.starts)
    assert (tables.unary[arities > 1] == MANY).all()
    assert (tables.unary[arities == 0] == NONE).all()
    assert sorted(tables.unary[arities == 1].tolist()) == [0, 2, 4, 6]


def test_zeros_become_a_loss_that_nothing_makes_up_for():
    offsets = np.array([0, 2, 4])
    h = np.array([-np.inf, 3.0, -5.0, 2.0])
    low = floored(h, offsets)
    assert low[1:].tolist() == [3.0, -5.0, 2.0]
    assert low[0] + 2.0 < 3.0 - 5.0
    assert floored(low, offsets) is low
