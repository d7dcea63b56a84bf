"""Rules and limited counts in words, for the command line and problem files.

    A=yes and B!=no implies C=low            A=yes|maybe implies B=no weight 2.5
    exactly one of A=yes B=yes C=yes         at most one of, at least one of
    even number of A=1 B=1                   odd number of
    all different A B C                      equal A B C
    allowed A B : yes no ; no yes
    triage: A=yes                            any rule may begin with its name
    faults: A=yes B=yes 2*C=yes <= 2         1 <= A=yes B=yes <= 3 is a count with two limits

Words are those of a shell: a name with spaces stands in quotes.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.constraint import Condition
from cmpe.models.linear import Costs, count, linear
from cmpe.models.rules import (
    Rule,
    all_different,
    allowed,
    at_least_one,
    at_most_one,
    equal,
    exactly_one,
    implies,
    parity,
)

RELATIONS = ("<=", ">=", "==", "=")
_COUNTS = {
    ("exactly", "one", "of"): exactly_one,
    ("at", "most", "one", "of"): at_most_one,
    ("at", "least", "one", "of"): at_least_one,
    ("even", "number", "of"): parity,
    ("odd", "number", "of"): lambda literals, **more: parity(literals, odd=True, **more),
}
_LISTS = {("all", "different"): all_different, ("equal",): equal}


def rule_from_text(text: str, domain: Domain) -> Rule:
    """The rule that a line of words states, over the variables of a domain."""
    try:
        return _rule(_words(text), domain)
    except ModelError as error:
        raise ModelError(f"rule {text!r}: {error}") from None


def count_from_text(text: str, domain: Domain) -> tuple[Condition, ...]:
    """The limits of a count that a line of words states: one, or two for `==` and for a range."""
    try:
        return _count(_words(text), domain)
    except ModelError as error:
        raise ModelError(f"count {text!r}: {error}") from None


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ModelError(f"quotes must come in pairs ({error})") from None
    if not words:
        raise ModelError("expected words, found nothing")
    return words


def _name(words: list[str]) -> str:
    """The name that a line begins with, taken off its words; none is ""."""
    return words.pop(0)[:-1] if len(words[0]) > 1 and words[0].endswith(":") else ""


def _rule(words: list[str], domain: Domain) -> Rule:
    name, weight = _name(words), None
    if len(words) > 1 and words[-2] == "weight":
        weight = _number(words.pop())
        words.pop()
    for opening, make in _COUNTS.items():
        if tuple(words[: len(opening)]) == opening:
            literals = [_literal(word, domain) for word in words[len(opening) :]]
            return make(literals, weight=weight, name=name)
    for opening, listed in _LISTS.items():
        if tuple(words[: len(opening)]) == opening:
            return listed(_variables(words[len(opening) :], domain), weight=weight, name=name)
    if words and words[0] == "allowed":
        return _allowed(words[1:], domain, weight, name)
    at = words.index("implies") if "implies" in words else 0
    left = [_literal(word, domain) for word in words[:at] if word != "and"]
    right = words[at + 1 :] if "implies" in words else words
    if not right:
        raise ModelError("expected a literal as in A=yes after implies, found nothing")
    return implies(
        left, [_literal(word, domain) for word in right if word != "and"], weight=weight, name=name
    )


def _allowed(words: Sequence[str], domain: Domain, weight: float | None, name: str) -> Rule:
    """`A B : yes no ; no yes`; the marks may end a word."""
    split: list[str] = []
    for word in words:
        is_marked = len(word) > 1 and word[-1] in ":;"
        split += [word[:-1], word[-1]] if is_marked else [word]
    if ":" not in split:
        raise ModelError("expected ':' between variables and rows, as in allowed A B : yes no")
    at = split.index(":")
    rows: list[list[str]] = [[]]
    for word in split[at + 1 :]:
        rows.append([]) if word == ";" else rows[-1].append(word)
    names = _variables(split[:at], domain)
    return allowed(names, [row for row in rows if row], weight=weight, name=name)


def _variables(words: Sequence[str], domain: Domain) -> list[int | str]:
    return [_variable(word, domain) for word in words]


def _variable(word: str, domain: Domain) -> int | str:
    """A variable by name, or by number where there are no names."""
    key: int | str = int(word) if not domain.names and word.isdecimal() else word
    domain.variable(key)
    return key


def _literal(word: str, domain: Domain) -> dict[int | str, tuple[str, ...]]:
    """NAME=STATE, NAME=STATE|STATE or NAME!=STATE."""
    error = ModelError(f"expected a literal as in A=yes, found {word!r}")
    for at in (place for place, sign in enumerate(word) if sign == "="):
        left, right = word[:at], word[at + 1 :]
        is_negated = left.endswith("!")
        try:
            key = _variable(left[:-1] if is_negated else left, domain)
            v = domain.variable(key)
            states = [domain.state(v, state) for state in _alternatives(v, right, domain)]
        except ModelError as reason:
            error = reason
            continue
        if is_negated:
            states = [s for s in range(domain.cardinalities[v]) if s not in states]
        names = domain.states_of(v)
        return {key: tuple(names[s] for s in states)}
    raise error


def _alternatives(variable: int, text: str, domain: Domain) -> list[str]:
    return [text] if text in domain.states_of(variable) else text.split("|")


def _count(words: list[str], domain: Domain) -> tuple[Condition, ...]:
    name = _name(words)
    low = None
    if len(words) > 2 and words[1] == "<=" and _is_number(words[0]):
        low = _number(words[0])
        words = words[2:]
    if len(words) < 3 or words[-2] not in RELATIONS:
        raise ModelError(
            "expected literals, a relation and a number, as in A=yes B=yes <= 2; "
            f"found {' '.join(words)!r}"
        )
    relation, limit = words[-2], _number(words[-1])
    total: Costs = linear({}, name=name)
    for word in words[:-2]:
        times, star, literal = word.partition("*")
        is_weighted = bool(star) and _is_number(times)
        weight = _number(times) if is_weighted else 1.0
        for key, states in _literal(literal if is_weighted else word, domain).items():
            total = total + weight * count({key: states})
    if low is not None:
        if relation != "<=":
            raise ModelError(f"a range is written 1 <= A=yes B=yes <= 3; found {relation!r}")
        return total.between(low, limit)
    if relation in ("==", "="):
        return total == limit
    return (total <= limit,) if relation == "<=" else (total >= limit,)


def _number(word: str) -> float:
    if not _is_number(word):
        raise ModelError(f"expected a number, found {word!r}")
    return float(word)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
