"""Counts and costs against sums by hand."""

import numpy as np
import pytest

from cmpe import LogLinearModel, Problem, between, count, linear, solve
from cmpe.domain import Domain
from cmpe.errors import ModelError
from tests.problems import all_assignments

DOMAIN = Domain((2, 3, 2), ("a", "b", "c"), (("no", "yes"), ("low", "mid", "high"), ()))
ROWS = all_assignments(DOMAIN.cardinalities)


def model(*tables):
    return LogLinearModel.from_tables(DOMAIN.cardinalities, tables, DOMAIN.names, DOMAIN.states)


def test_counts():
    found = count({"a": "yes", "b": ("mid", "high"), "c": 1}).over(DOMAIN)
    by_hand = (ROWS[:, 0] == 1) + (ROWS[:, 1] >= 1).astype(int) + (ROWS[:, 2] == 1)
    np.testing.assert_array_equal(found.value(ROWS), by_hand)
    assert found.domain == DOMAIN
    assert all(len(factor.scope) == 1 for factor in found.factors)


def test_two_names_of_one_state_count_once():
    for states in (["yes", 1], ["yes", "yes"]):
        found = count({"a": states}).over(DOMAIN)
        np.testing.assert_array_equal(found.value(ROWS), ROWS[:, 0])
        assert count({"a": states}).same_as(count({"a": states[::-1]}))
    twice = count({"a": "yes"}) + count({"a": 1})
    np.testing.assert_array_equal(twice.over(DOMAIN).value(ROWS), 2 * ROWS[:, 0])


def test_costs_add_up():
    costs = 2 * linear({"b": {"mid": 1.5, "high": 4}}) - linear({"b": {"mid": 1}, "a": {"yes": 2}})
    found = (costs + 0.5).over(DOMAIN)
    by_hand = np.array([0, 2.0, 8.0])[ROWS[:, 1]] - 2.0 * ROWS[:, 0] + 0.5
    np.testing.assert_allclose(found.value(ROWS), by_hand)
    h = model((("a", "b"), np.arange(6.0).reshape(2, 3)))
    np.testing.assert_allclose((h + costs).value(ROWS), h.value(ROWS) + by_hand - 0.5)
    assert (1.0 + costs).constant == 1.0
    assert (-costs).costs["a"] == {"yes": 2.0}


def test_two_names_of_one_state_cost_the_sum():
    table = linear({"a": {"yes": 1, 1: 2}}).over(Domain.of({"a": ("no", "yes")}))
    assert table.value([[0], [1]]).tolist() == [0.0, 3.0]


def test_a_count_limits_an_answer():
    h = model((("a",), [0, 1]), (("b",), [0, 2, 3]), (("c",), [0, 4]))
    findings = {"a": "yes", "b": ["mid", "high"], "c": 1}
    for most, best in ((0, 0.0), (1, 4.0), (2, 7.0), (3, 8.0)):
        answer = solve(Problem(h, [count(findings) <= most]))
        assert (answer.objective[0], answer.labels) == (best, ["optimal"])
    least = solve(Problem(-h, [count(findings) >= 2]))
    assert least.objective[0] == -3.0
    assert least.constraint_values[0, 0] == 2.0
    inside = solve(Problem(h, [between(count(findings), 1, 1)]))
    assert inside.objective[0] == 4.0
    assert inside.constraint_values[0].tolist() == [1.0, 1.0]


def test_a_count_may_be_the_objective():
    t = model((("a", "b"), np.arange(6.0).reshape(2, 3)))
    answer = solve(Problem(count({"a": "yes", "b": "high"}), [t <= 3.0]))
    assert answer.objective[0] == 1.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: count("a"), r'as in count\({"A": "yes", "B": "on"}\); found str'),
        (lambda: linear({"a": 3}), r"as in linear\({'a': {'yes': 2.5}}\); found int"),
        (lambda: linear({"a": {"yes": "3"}}), "the cost of 'a' in state 'yes' must be a number"),
        (lambda: count({"z": 1}).over(DOMAIN), "there is no variable 'z'"),
        (lambda: count({"b": "hgih"}).over(DOMAIN), "'b' has no state 'hgih'; did you mean 'high'"),
        (lambda: count({"a": 1}) <= "2", "at_most must be a number, as in at_most=12.5"),
        (lambda: count({"a": 1}) * np.inf, "a weight must be a finite number"),
        (lambda: Problem(count({"a": 1}), []), "counts and costs need a model"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_limits_on_both_sides_bear_the_name():
    h = model((("a",), [0, 1]), (("b",), [0, 2, 3]), (("c",), [0, 4]))
    findings = count({"a": "yes", "b": ["mid", "high"], "c": 1}, name="findings")
    for limits in (findings == 2, findings.between(2, 2)):
        problem = Problem(h, [limits])
        assert solve(problem).objective[0] == 7.0
        assert [(c.name, c.relation, c.limit) for c in problem.constraints] == [
            ("findings", ">=", 2.0),
            ("findings", "<=", 2.0),
        ]
    twice = 2 * findings + linear({"a": {"yes": 1}}, name="more") - 1
    assert twice.name == "findings"
    assert (findings + 1).same_as(1 + findings)
    assert not findings.same_as(count({"a": "yes"}, name="findings"))
    with pytest.raises(ModelError, match="none with !="):
        findings != 2  # noqa: B015
    with pytest.raises(ModelError, match="must be a text, found 3"):
        count({"a": "yes"}, name=3)
