"""Names, states, and joining by name."""

import numpy as np
import pytest

from cmpe.domain import Domain, join
from cmpe.errors import ModelError

WEATHER = Domain((2, 3), ("Rain", "Level"), (("no", "yes"), ("low", "mid", "high")))
NUMBERED = Domain((2, 2), ("7", "0"))


def test_states_that_are_numbers_are_kept_as_none():
    assert Domain((2,), ("a",), (("0", "1"),)) == Domain((2,), ("a",))
    assert WEATHER.states_of(1) == ("low", "mid", "high")
    assert Domain((3,)).states_of(0) == ("0", "1", "2")
    assert Domain.of(WEATHER.to_mapping()) == WEATHER
    assert Domain.of({"a": 4, "b": ["x", "y"]}).to_mapping() == {"a": 4, "b": ["x", "y"]}
    assert (WEATHER.name(0), Domain((2,)).name(0)) == ("Rain", "0")
    assert WEATHER.label(0, 1) == "yes"
    assert (Domain((2,)).label(0, 1.0), Domain((2,)).label(0, 0.5)) == (1, 0.5)
    assert WEATHER.without_names() == Domain((2, 3))
    assert Domain((2,)).without_names() == Domain((2,))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0,),), "at least 1, found 0"),
        (((2,), ("a", "b")), "1 variables need as many names, found 2"),
        (((2, 2), ("a", "a")), "names must be distinct, found 'a' twice"),
        (((2,), ("",)), "a variable's name must be a text, found ''"),
        (((2,), (), (("x", "y"),)), "0 names need as many lists of states, found 1"),
        (((2,), ("a",), (("x",),)), "variable 'a' has 2 states, found 1 names"),
        (((2,), ("a",), (("x", "x"),)), "variable 'a': states must be distinct, found 'x' twice"),
    ],
)
def test_a_malformed_domain_is_refused(arguments, message):
    with pytest.raises(ModelError, match=message):
        Domain(*arguments)


@pytest.mark.parametrize(
    ("domain", "key", "number"),
    [
        (WEATHER, "Level", 1),
        (WEATHER, 1, 1),
        (WEATHER, np.int64(0), 0),
        (NUMBERED, 7, 0),  # names that look like numbers: a number is a name
        (NUMBERED, 0, 1),
        (Domain((2, 2)), 1, 1),
    ],
)
def test_variables_are_found_by_name_or_number(domain, key, number):
    assert domain.variable(key) == number


@pytest.mark.parametrize(
    ("domain", "key", "message"),
    [
        (WEATHER, "rian", "there is no variable 'rian'; did you mean 'Rain'?"),
        (WEATHER, "x", "there is no variable 'x'; there is 'Rain', 'Level'"),
        (WEATHER, 2, "there is no variable 2: numbers go from 0 to 1"),
        (WEATHER, -1, "there is no variable -1"),
        (NUMBERED, 1, "there is no variable '1'"),
        (Domain((2,)), "Rain", "these variables have no names: give a number from 0 to 0"),
    ],
)
def test_an_unknown_variable_is_refused(domain, key, message):
    with pytest.raises(ModelError) as caught:
        domain.variable(key)
    assert message in str(caught.value)


def test_names_and_states_may_contain_what_separates_them():
    domain = Domain((2, 2, 2), ("a", "a=b", "c"), (("b=c", "d"), ("c", "e"), ("x", "y")))
    texts = ("a=b=c", "a=d", "a=b=e", "c=x", "c=z", "d=f=g", "c")
    expected = [("a=b", "c"), ("a", "d"), ("a=b", "e"), ("c", "x"), ("c", "z"), ("d=f", "g")]
    assert [domain.apart(text) for text in texts] == [*expected, ("c", "")]


@pytest.mark.parametrize(
    ("states", "value", "number"),
    [
        (("no", "yes"), "yes", 1),
        (("no", "yes"), 1, 1),
        (("no", "yes"), 1.0, 1),
        (("2", "1"), 1, 1),  # states that look like numbers: a number is a state
        (("2", "1"), 2.0, 0),
        (("1.0", "2.0"), 2.0, 1),
        (("FALSE", "TRUE"), True, 1),
        (("False", "True"), np.False_, 0),
        ((), "1", 1),
        ((), 0, 0),
    ],
)
def test_states_are_found_by_name_or_number(states, value, number):
    assert Domain((2,), ("a",), (states,)).state(0, value) == number


@pytest.mark.parametrize(
    ("states", "value", "message"),
    [
        (("no", "yes"), "YES", "variable 'a' has no state 'YES'; did you mean 'yes'?"),
        (("no", "yes"), 2, "variable 'a' has 2 states, numbers 0 to 1, found 2"),
        (("1", "2"), 0, "variable 'a' has no state 0; there is '1', '2'"),
        (("no", "yes"), 0.5, "variable 'a' has no state 0.5"),
        (("a", "b"), True, "variable 'a': True is none of its states; write one of 'a', 'b'"),
    ],
)
def test_an_unknown_state_is_refused(states, value, message):
    with pytest.raises(ModelError) as caught:
        Domain((2,), ("a",), (states,)).state(0, value)
    assert message in str(caught.value)


def test_domains_join_by_name_and_match_states():
    other = Domain((3, 2), ("Level", "Wind"), (("high", "low", "mid"), ("calm", "storm")))
    whole, (first, second) = join((WEATHER, other), ("h", "t"))
    assert whole.names == ("Rain", "Level", "Wind")
    assert whole.cardinalities == (2, 3, 2)
    assert first.variables == (0, 1)
    assert first.states == (None, None)
    assert not first.is_identity  # it is over fewer variables
    assert second.variables == (1, 2)
    assert second.states == ((1, 2, 0), None)


def test_equal_domains_join_as_they_are():
    for domain in (WEATHER, Domain((2, 2))):
        whole, places = join((domain, domain), ("h", "t"))
        assert whole is domain
        assert all(place.is_identity for place in places)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Domain((2, 3)), "h names its variables and t does not: give both names"),
        (
            Domain((2,), ("Rain",), (("n", "y"),)),
            "variable 'Rain' must have the same states everywhere: found 'no', 'yes' in h and "
            "'n', 'y' in t",
        ),
        (Domain((3,), ("Rain",)), "found 'no', 'yes' in h and '0', '1', '2' in t"),
        (Domain((2,), ("rain",)), "t shares no variable with h: found 'rain' beside 'Rain'"),
    ],
)
def test_domains_that_do_not_fit_are_refused(second, message):
    with pytest.raises(ModelError) as caught:
        join((WEATHER, second), ("h", "t"))
    assert message in str(caught.value)


def test_without_names_domains_must_be_equal():
    with pytest.raises(ModelError, match="t must have the same variables and cardinalities as h"):
        join((Domain((2, 2)), Domain((2,))), ("h", "t"))


def test_long_lists_are_shortened():
    wide = Domain((2,) * 9, tuple("abcdefghi"))
    with pytest.raises(ModelError, match=r"there is 'a', 'b', 'c', 'd', 'e', 'f' and 3 more"):
        wide.variable("zzz")
