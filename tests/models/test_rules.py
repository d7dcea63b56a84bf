"""Rules against plain Python, and the words they are written in."""

import numpy as np
import pandas
import pytest
from benchmarks.campaign.rules import random_rule, worth
from hypothesis import given
from hypothesis import strategies as st

import cmpe
from cmpe.domain import Domain
from cmpe.errors import ModelError, TooLarge
from cmpe.models.rules import Rule
from cmpe.problem.wording import rule_from_text
from tests.problems import all_assignments

DOMAIN = Domain((2, 3, 2), ("a", "b", "c"), (("no", "yes"), ("low", "mid", "high"), ("no", "yes")))


@given(st.integers(0, 2**32 - 1))
def test_rules_are_worth_what_they_say(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
    rule, holds = random_rule(rng, cards)
    rows, domain = all_assignments(cards), Domain(tuple(cards))
    expected = worth(rule, holds, rows)
    bound = rule.over(domain)
    np.testing.assert_array_equal(bound.value(rows), expected)
    table = bound.table(cards)
    np.testing.assert_array_equal(table[tuple(rows[:, v] for v in bound.scope)], expected)
    again = rule_from_text(bound.text, domain).over(domain)
    assert again.text == bound.text
    np.testing.assert_array_equal(again.value(rows), expected)


def test_states_are_compared_by_name():
    domain = Domain((2, 3), ("a", "b"), (("low", "high"), ("high", "mid", "low")))
    same = cmpe.equal(["a", "b"]).over(domain).table(domain.cardinalities)
    np.testing.assert_array_equal(np.isfinite(same), [[0, 0, 1], [1, 0, 0]])
    other = cmpe.all_different(["a", "b"]).over(domain).table(domain.cardinalities)
    np.testing.assert_array_equal(np.isfinite(other), [[1, 1, 0], [0, 1, 1]])


def test_a_rule_says_itself():
    rule = cmpe.implies({"a": "yes"}, {"b": ["low", "mid"]}, weight=2, name="my rule")
    assert repr(rule) == "Rule('my rule:' a=yes implies b=low|mid weight 2.0)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cmpe.exactly_one([]), "at least one literal"),
        (lambda: cmpe.exactly_one("a"), "expected literals as in"),
        (lambda: cmpe.exactly_one([{"a": "yes", "b": "low"}]), "dictionaries of one entry"),
        (lambda: cmpe.at_most_one({"a": []}), "a literal needs a state"),
        (lambda: cmpe.implies({"a": "yes"}, {}), "at least one literal"),
        (lambda: cmpe.equal("ab"), "equal needs a list of variables"),
        (lambda: cmpe.all_different([]), "at least one variable"),
        (lambda: cmpe.allowed(["a", "b"], [("yes",)]), "row 0 of allowed must have 2 states"),
        (lambda: cmpe.equal(["a", "b"], weight=-1), "above 0, found -1"),
        (lambda: cmpe.equal(["a", "b"], name=3), "the name of a rule must be a text"),
        (lambda: cmpe.equal(["a", "a"]).over(DOMAIN), "equal a a: the variables must be distinct"),
        (lambda: cmpe.exactly_one({"d": 1}, name="one").over(DOMAIN), "rule 'one': there is no"),
        (lambda: cmpe.exactly_one({"a": "si"}).over(DOMAIN), "has no state 'si'"),
        (lambda: bool(cmpe.equal(["a", "b"])), "neither true nor false"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ModelError, match=message):
        make()


def test_allowed_rows_may_be_those_of_a_frame():
    frame = pandas.DataFrame({"b": ["mid", "low"], "note": ["", ""], "a": ["yes", "no"]})
    rows = [("yes", "mid"), ("no", "low")]
    assert cmpe.allowed(["a", "b"], frame) == cmpe.allowed(["a", "b"], rows)
    with pytest.raises(ModelError, match="there is no column 'c' in the frame"):
        cmpe.allowed(["a", "c"], frame)


def test_soft_rules_with_too_many_states_are_refused():
    domain = Domain((12,) * 3)
    rule = cmpe.all_different([0, 1, 2], weight=1.0)
    assert isinstance(rule, Rule)
    with pytest.raises(TooLarge, match="4096 sets of states"):
        rule.over(domain)
