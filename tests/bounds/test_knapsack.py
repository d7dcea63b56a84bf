import pytest
from hypothesis import given, settings

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.knapsack import Knapsack
from cmpe.bounds.messages import Messages
from tests.bounds.checks import check
from tests.problems import Shape, random_problem, seeds


@settings(max_examples=100)
@given(seeds)
def test_branching_tightens_the_knapsack(seed):
    problem, evidence = random_problem(seed, Shape(variables=5, factors=4, constraints=2))
    instances = problem.given(evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    one, many = (Knapsack(n).upper_bound(instances, Work(steps=10)) for n in (1, 64))
    check(many, truth)
    assert (many.upper <= one.upper + 1e-9).all()


def test_a_knapsack_of_single_variables_is_solved_exactly():
    h = cmpe.LogLinearModel.from_tables(
        [2, 2, 2], [((v,), [0, p]) for v, p in enumerate((6, 5, 4))]
    )
    t = cmpe.LogLinearModel.from_tables(
        [2, 2, 2], [((v,), [0, w]) for v, w in enumerate((5, 4, 3))]
    )
    instances = cmpe.Problem(h, (cmpe.Constraint(t, 7.0),)).given()
    work = Work(steps=50)
    assert Knapsack().upper_bound(instances, work).upper[0] == pytest.approx(9, abs=1e-6)  # 5 + 4
    assert Messages().upper_bound(instances, work).upper[0] > 9.1  # its relaxation mixes items
