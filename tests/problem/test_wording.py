"""Rules and counts in words."""

import numpy as np
import pytest

from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.constraint import Constraint
from cmpe.problem.wording import count_from_text, rule_from_text
from tests.problems import all_assignments

DOMAIN = Domain(
    (2, 3, 2, 2),
    ("A", "B", "C", "the door"),
    (("no", "yes"), ("low", "mid", "high"), ("no", "yes"), ("ajar", "a=b")),
)
ROWS = all_assignments(DOMAIN.cardinalities)
A, B, C, D = ROWS.T


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("A=yes implies B=high", (A == 0) | (B == 2)),
        ("A=yes and C!=yes implies B=low|mid", (A == 0) | (C == 1) | (B < 2)),
        ("exactly one of A=yes B!=low C=yes", (A + (B > 0) + C) == 1),
        ("at most one of A=yes C=yes", (A + C) <= 1),
        ("at least one of A=yes C=yes", (A + C) >= 1),
        ("even number of A=yes C=yes 'the door=ajar'", (A + C + (D == 0)) % 2 == 0),
        ("odd number of A=yes C=yes", (A + C) % 2 == 1),
        ("all different A C", A != C),
        ("equal A C", A == C),
        ("allowed A B: yes low; no high", ((A == 1) & (B == 0)) | ((A == 0) & (B == 2))),
        ("A=yes and B!=mid", (A == 1) & (B != 1)),
        ("'the door=a=b'", D == 1),
    ],
)
def test_rules(text, holds):
    for words, weight in ((text, np.inf), (f"{text} weight 2.5", 2.5), (f"x: {text}", np.inf)):
        rule = rule_from_text(words, DOMAIN)
        np.testing.assert_array_equal(rule.over(DOMAIN).value(ROWS), np.where(holds, 0.0, -weight))
    assert rule.name == "x"


def test_variables_without_names_are_numbers():
    domain = Domain((2, 3))
    rule = rule_from_text("0=1 implies 1!=2", domain)
    np.testing.assert_array_equal(
        np.isfinite(rule.over(domain).table((2, 3))), [[1, 1, 1], [1, 1, 0]]
    )


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("faults: A=yes B=mid|high <= 2", [("<=", 2.0)]),
        ("faults: A=yes B!=low >= 1", [(">=", 1.0)]),
        ("faults: A=yes B!=low == 1", [(">=", 1.0), ("<=", 1.0)]),
        ("faults: 1 <= A=yes B!=low <= 2", [(">=", 1.0), ("<=", 2.0)]),
    ],
)
def test_counts(text, limits):
    found = [c.over(DOMAIN) for c in count_from_text(text, DOMAIN)]
    assert [(c.relation, c.limit) for c in found] == limits
    for constraint in found:
        assert isinstance(constraint, Constraint)
        assert constraint.name == "faults"
        np.testing.assert_array_equal(
            constraint.sign * constraint.function.value(ROWS), A + (B > 0)
        )


def test_weights_of_counts():
    (limit,) = count_from_text("2.5*A=yes -1*C=yes <= 1.5", DOMAIN)
    np.testing.assert_array_equal(limit.over(DOMAIN).function.value(ROWS), 2.5 * A - C)


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (rule_from_text, "", "expected words, found nothing"),
        (rule_from_text, "'A=yes", "quotes must come in pairs"),
        (rule_from_text, "A=maybe", "has no state 'maybe'"),
        (rule_from_text, "exactly one A=yes", "expected a literal as in A=yes, found 'exactly'"),
        (rule_from_text, "A=yes implies", "after implies, found nothing"),
        (rule_from_text, "exactly one of", "at least one literal"),
        (rule_from_text, "all different A D", "there is no variable 'D'"),
        (rule_from_text, "allowed A B yes low", "expected ':' between variables and rows"),
        (rule_from_text, "A=yes weight heavy", "expected a number, found 'heavy'"),
        (count_from_text, "A=yes < 2", "a relation and a number"),
        (count_from_text, "A=yes <= two", "expected a number, found 'two'"),
        (count_from_text, "1 <= A=yes >= 2", "a range is written"),
        (count_from_text, "A <= 2", "expected a literal"),
    ],
)
def test_mistakes_are_shown_with_their_words(read, text, message):
    with pytest.raises(ModelError, match=message) as caught:
        read(text, DOMAIN)
    assert repr(text) in str(caught.value)
