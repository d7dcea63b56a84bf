import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Distance, LogLinearModel, Problem, solve
from cmpe.errors import MethodError, ModelError
from tests.problems import (
    all_assignments,
    random_cutset,
    random_problem,
    seeds,
    worked_example,
)
from tests.refusals import refused

ONE = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])


def test_ties_are_decided_by_one_tolerance():
    for q in (0.0, 3.0, -2e6):
        tolerance = 1e-6 * max(1.0, abs(q))
        above = LogLinearModel.from_tables(
            [2], [((0,), [q + 0.9 * tolerance, q + 1.1 * tolerance])]
        )
        problem = Problem(ONE, (Constraint(above, q),))
        assert problem.is_feasible([[0], [1]]).tolist() == [True, False]


def test_sums_beyond_float64_are_refused():
    tables = [((0,), [1e308, -np.inf]), ((1,), [0.0, 1e308])]
    huge = LogLinearModel.from_tables([2, 2], tables)
    message = "sums of entries must stay below 1e+300, found up to inf"
    assert f"the objective: {message}" in refused(lambda: Problem(huge))
    least = refused(lambda: Problem(LogLinearModel((2, 2)), [(huge >= 0.0).named("low")]))
    assert f"constraint 'low': {message}" in least
    one = Problem(LogLinearModel.from_tables([2], [((0,), [1e290, 0.0])]))
    assert solve(one).objective.tolist() == [1e290]
    assert "below 1e+300" in refused(lambda: solve(one, potentials={0: [[1e300, 0.0]]}))
    many = LogLinearModel.from_tables([2] * 3, [((v,), [-1e299, 1e299]) for v in range(3)])
    assert solve(Problem(many)).objective[0] == pytest.approx(3e299)


def test_zero_potentials_forbid_in_h_and_satisfy_in_t():
    h = LogLinearModel.from_tables([2], [((0,), [-np.inf, 1.0])])
    t = LogLinearModel.from_tables([2], [((0,), [-np.inf, 9.0])])
    assert Problem(h).is_feasible([[0], [1]]).tolist() == [False, True]
    assert Problem(ONE, (Constraint(t, -100.0),)).is_feasible([[0], [1]]).tolist() == [True, False]
    assert Problem(ONE, (Constraint(t, 0.0),)).violations([[0]])[0, 0] == -np.inf


def test_the_minimisation_form():
    problem = worked_example()
    f, g = problem.minimisation([[1, 1, 0, 1]])
    assert f.tolist() == [problem.shift - 11]
    assert g.tolist() == [[0]]


@given(seeds)
def test_f_is_at_least_one(seed):
    problem, evidence = random_problem(seed)
    rows = problem.given(evidence).complete(0)
    assert (problem.minimisation(rows)[0] >= 1 - 1e-9).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Constraint(ONE, np.inf), "finite number"),
        (lambda: Constraint(ONE, np.nan), "finite number"),
        (lambda: Problem(ONE, (Constraint(LogLinearModel((3,)), 0),)), "constraint 0"),
        (lambda: Problem(ONE, (), (0, 0)), "distinct"),
        (lambda: Problem(ONE, (), (1,)), "from 0 to 0"),
    ],
)
def test_wrong_problems_are_said(build, message):
    with pytest.raises(ModelError, match=message):
        build()


def test_what_has_no_tables_is_named():
    """Not the cutset network beside it, which has them."""
    network = random_cutset(0)
    cards = network.cardinalities
    problem = Problem(network, (Constraint(Distance(cards, ()), 0.0),))
    with pytest.raises(MethodError, match=r"exact needs tables.*found a function of kind Distance"):
        problem.need_tables("exact")
    with pytest.raises(MethodError, match="method exact needs tables"):
        solve(problem, method="exact")
    Problem(network).need_tables("exact")


def test_a_network_of_one_leaf_is_kept_as_tables():
    network = random_cutset(0)
    assert network.leaves == 1
    function = Problem(network, [network <= 0.0]).constraints[0].function
    assert isinstance(function, LogLinearModel)
    rows = all_assignments(network.cardinalities)
    np.testing.assert_allclose(function.value(rows), network.value(rows))
    several = random_cutset(6)
    assert several.leaves > 1
    assert Problem(several, [several <= 0.0]).constraints[0].function is several
