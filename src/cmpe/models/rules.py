"""Rules by name, before a model is given: implications, counts of literals, equal states.

    implies({"A": "yes", "B": "on"}, {"C": "no"})     where both hold on the left, so does the right
    exactly_one({"A": "yes", "B": "on"})              at_most_one, at_least_one likewise
    all_different(["A", "B", "C"])                    equal likewise
    parity({"A": 1, "B": 1})                          an even number of them holds
    allowed(["A", "B"], [("yes", "on"), ("no", "off")])

A literal is a variable with a state, or with several of which one must hold. A rule with a weight
is soft: the objective loses so many nats where it is broken. Without one the objective is -inf
there. `Problem` takes rules beside constraints, and looks their names up in its models.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from cmpe.arrays import Integers
from cmpe.domain import Domain
from cmpe.errors import ModelError, TooLarge
from cmpe.models.constraint import Condition, limit_of, name_of
from cmpe.models.logic import BoundRule, Fold, Listing, Part

MOST_SUBSETS = 1 << 9  # sets of states that soft `all_different` tells apart

Literals = Mapping[Any, Any] | Sequence[Mapping[Any, Any]]


class Literal(NamedTuple):
    """A variable in one of some states, or in none of them, as it was given."""

    variable: Any
    states: tuple[Any, ...]
    negated: bool = False

    def text(self, domain: Domain | None) -> str:
        """NAME=STATE, NAME=STATE|STATE or NAME!=STATE."""
        name, chosen = self.variable, list(map(str, self.states))
        if domain is not None:
            v = domain.variable(self.variable)
            name = domain.name(v)
            chosen = [str(domain.label(v, domain.state(v, s))) for s in self.states]
        return _quoted(f"{name}{'!=' if self.negated else '='}{'|'.join(chosen)}")


class Wording(Protocol):
    """What a rule says."""

    def over(self, domain: Domain, broken: float) -> list[Part]:
        """The rules over the variables of a domain that together say it."""
        ...

    def text(self, domain: Domain | None) -> str:
        """The same in words."""
        ...


@dataclass(frozen=True, repr=False)
class Rule(Condition):
    """A rule that answers must satisfy, or with a weight should satisfy."""

    wording: Wording
    weight: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.weight is not None:
            weight = limit_of(self.weight, "a weight")
            if weight <= 0:
                raise ModelError(f"the weight of a rule must be above 0, found {weight:g}")
            object.__setattr__(self, "weight", weight)
        name_of(self.name, "a rule")

    def over(self, domain: Domain) -> BoundRule:
        """The rule over the variables of a domain."""
        try:
            broken = -math.inf if self.weight is None else -self.weight
            return BoundRule(self.text(domain), tuple(self.wording.over(domain, broken)))
        except ModelError as error:
            who = f"rule {self.name!r}" if self.name else self.wording.text(None)[:60]
            raise ModelError(f"{who}: {error}") from None

    def text(self, domain: Domain | None = None) -> str:
        """The rule in words, which `rule_from_text` reads; by the domain's names if given."""
        named = f"{_quoted(self.name + ':')} " if self.name else ""
        soft = "" if self.weight is None else f" weight {self.weight!r}"
        return f"{named}{self.wording.text(domain)}{soft}"

    def __repr__(self) -> str:
        return f"Rule({self.text()})"


def implies(
    condition: Literals, consequence: Literals, *, weight: float | None = None, name: str = ""
) -> Rule:
    """Where all literals of the condition hold, all literals of the consequence hold."""
    example = 'implies({"A": "yes"}, {"B": "no"})'
    left = _literals(condition, example)
    return Rule(Implication(left, _some(consequence, example)), weight, name)


def exactly_one(literals: Literals, *, weight: float | None = None, name: str = "") -> Rule:
    """One of the literals holds, and no other."""
    return Rule(LiteralCount("exactly one of", _some(literals, _COUNTED), 1, 1), weight, name)


def at_most_one(literals: Literals, *, weight: float | None = None, name: str = "") -> Rule:
    """At most one of the literals holds."""
    return Rule(LiteralCount("at most one of", _some(literals, _COUNTED), 0, 1), weight, name)


def at_least_one(literals: Literals, *, weight: float | None = None, name: str = "") -> Rule:
    """At least one of the literals holds: a clause."""
    wording = LiteralCount("at least one of", _some(literals, _COUNTED), 1, math.inf)
    return Rule(wording, weight, name)


def parity(
    literals: Literals, *, odd: bool = False, weight: float | None = None, name: str = ""
) -> Rule:
    """An even number of the literals holds; with `odd` an odd one."""
    return Rule(Parity(_some(literals, 'parity({"A": 1, "B": 1})'), odd), weight, name)


def equal(variables: Sequence[Any], *, weight: float | None = None, name: str = "") -> Rule:
    """All of the variables are in the same state, by the names of the states."""
    return Rule(Alike(_variables(variables, "equal"), False), weight, name)


def all_different(variables: Sequence[Any], *, weight: float | None = None, name: str = "") -> Rule:
    """No two of the variables are in the same state, by the names of the states."""
    return Rule(Alike(_variables(variables, "all_different"), True), weight, name)


def allowed(
    variables: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    *,
    weight: float | None = None,
    name: str = "",
) -> Rule:
    """The variables have the states of one of the rows, which may be those of a frame."""
    names = _variables(variables, "allowed")
    columns = getattr(rows, "columns", None)
    if columns is not None:
        missing = [name for name in names if name not in columns]
        if missing:
            raise ModelError(f"allowed: there is no column {missing[0]!r} in the frame")
        rows = rows[list(names)].to_numpy()  # type: ignore[index]
    listed = tuple(tuple(getattr(row, "tolist", lambda row=row: row)()) for row in rows)
    for number, row in enumerate(listed):
        if len(row) != len(names):
            raise ModelError(
                f"row {number} of allowed must have {len(names)} states, found {len(row)}"
            )
    return Rule(Listed(names, listed), weight, name)


@dataclass(frozen=True)
class LiteralCount:
    """low <= how many of the literals hold <= high."""

    word: str
    literals: tuple[Literal, ...]
    low: float
    high: float

    def over(self, domain: Domain, broken: float) -> list[Part]:
        """Elements are counts, up to one that decides."""
        most = int(self.low if self.high == math.inf else self.high + 1)
        held = _held(domain, self.literals)
        counts = np.arange(most + 1)
        product = np.minimum(counts[:, np.newaxis] + counts, most)
        worth = np.where((counts >= self.low) & (counts <= self.high), 0.0, broken)
        elements = tuple(np.minimum(count, most) for count in held.values())
        return [Fold(tuple(held), elements, product, worth)]

    def text(self, domain: Domain | None) -> str:
        """exactly one of A=yes B=no."""
        return " ".join([self.word, *(literal.text(domain) for literal in self.literals)])


@dataclass(frozen=True)
class Parity:
    """The number of literals that hold is even, or odd."""

    literals: tuple[Literal, ...]
    odd: bool

    def over(self, domain: Domain, broken: float) -> list[Part]:
        """Elements are remainders."""
        held = _held(domain, self.literals)
        worth = np.array([broken, 0.0] if self.odd else [0.0, broken])
        elements = tuple(count % 2 for count in held.values())
        return [Fold(tuple(held), elements, np.array([[0, 1], [1, 0]]), worth)]

    def text(self, domain: Domain | None) -> str:
        """even number of A=yes B=no."""
        word = "odd number of" if self.odd else "even number of"
        return " ".join([word, *(literal.text(domain) for literal in self.literals)])


@dataclass(frozen=True)
class Implication:
    """All literals on the left hold only where all on the right do."""

    left: tuple[Literal, ...]
    right: tuple[Literal, ...]

    def over(self, domain: Domain, broken: float) -> list[Part]:
        """Elements: 0 all hold so far, 1 the right side does not, 2 the left side does not."""
        left, right = ([_states(domain, literal) for literal in s] for s in (self.left, self.right))
        elements = {}
        for v in dict.fromkeys(v for v, _ in (*left, *right)):
            element = np.zeros(domain.cardinalities[v], dtype=np.int64)
            for number, side in ((1, right), (2, left)):
                for _, states in (literal for literal in side if literal[0] == v):
                    element[~np.isin(np.arange(len(element)), states)] = number
            elements[v] = element
        numbers = np.arange(3)
        product = np.maximum(numbers[:, np.newaxis], numbers)
        worth = np.array([0.0, broken, 0.0])
        return [Fold(tuple(elements), tuple(elements.values()), product, worth)]

    def text(self, domain: Domain | None) -> str:
        """A=yes and B=no implies C=yes."""
        sides = (" and ".join(lit.text(domain) for lit in s) for s in (self.left, self.right))
        return " implies ".join(side for side in sides if side)


@dataclass(frozen=True)
class Alike:
    """Variables in the same state, or no two of them in the same."""

    variables: tuple[Any, ...]
    different: bool

    def over(self, domain: Domain, broken: float) -> list[Part]:
        """States are numbered by their names; a hard `all_different` is a rule for each state."""
        scope = tuple(domain.variable(v) for v in self.variables)
        if len(set(scope)) != len(scope):
            raise ModelError("the variables must be distinct")
        labels = [domain.states_of(v) for v in scope]
        counted = Counter(label for states in labels for label in states)
        shared = {label: k for k, label in enumerate(c for c, n in counted.items() if n > 1)}
        if not self.different:
            known = {label: k for k, label in enumerate(counted)}
            elements = tuple(np.array([known[label] for label in states]) for states in labels)
            return [_equal(scope, elements, len(known), broken)]
        if broken == -math.inf:
            return [_once(scope, labels, label) for label in shared]
        return [_distinct(scope, labels, shared, broken)]

    def text(self, domain: Domain | None) -> str:
        """all different A B C."""
        word = "all different" if self.different else "equal"
        return " ".join([word, *_named(self.variables, domain)])


def _equal(
    scope: tuple[int, ...], elements: tuple[Integers, ...], states: int, broken: float
) -> Fold:
    """Elements are states, and one more for states that differ."""
    numbers = np.arange(states + 1)
    product = np.where(numbers[:, np.newaxis] == numbers, numbers, states)
    worth = np.append(np.zeros(states), broken)
    return Fold(scope, elements, product, worth)


def _once(scope: tuple[int, ...], labels: Sequence[Sequence[str]], label: str) -> Fold:
    """At most one of the variables is in one state."""
    which = [i for i, states in enumerate(labels) if label in states]
    elements = tuple(np.array([int(s == label) for s in labels[i]]) for i in which)
    product = np.minimum(np.add.outer(np.arange(3), np.arange(3)), 2)
    return Fold(tuple(scope[i] for i in which), elements, product, np.array([0.0, 0.0, -np.inf]))


def _distinct(
    scope: tuple[int, ...], labels: Sequence[Sequence[str]], shared: Mapping[str, int], w: float
) -> Fold:
    """Elements are sets of states, and one more for states that occurred twice."""
    if 1 << len(shared) > MOST_SUBSETS:
        raise TooLarge(
            f"all_different with a weight tells {1 << len(shared)} sets of states apart; the most "
            f"is {MOST_SUBSETS}: leave the weight out, or give fewer variables"
        )
    sets = np.arange(1 << len(shared))
    product = np.full((len(sets) + 1, len(sets) + 1), len(sets))
    apart = (sets[:, np.newaxis] & sets) == 0
    product[:-1, :-1] = np.where(apart, sets[:, np.newaxis] | sets, len(sets))
    elements = tuple(
        np.array([1 << shared[label] if label in shared else 0 for label in states])
        for states in labels
    )
    return Fold(scope, elements, product, np.append(np.zeros(len(sets)), w))


@dataclass(frozen=True)
class Listed:
    """The rows of states that some variables may have."""

    variables: tuple[Any, ...]
    rows: tuple[tuple[Any, ...], ...]

    def over(self, domain: Domain, broken: float) -> list[Part]:
        """The rows in numbers, each once."""
        scope = tuple(domain.variable(v) for v in self.variables)
        if len(set(scope)) != len(scope):
            raise ModelError("the variables must be distinct")
        found = [[domain.state(v, s) for v, s in zip(scope, r, strict=True)] for r in self.rows]
        rows = np.array(found, dtype=np.int64).reshape(-1, len(scope))
        return [Listing(scope, np.unique(rows, axis=0), broken)]

    def text(self, domain: Domain | None) -> str:
        """allowed A B : yes no ; no yes."""
        rows = self.rows
        if domain is not None:
            scope = [domain.variable(v) for v in self.variables]
            rows = tuple(
                tuple(domain.label(v, domain.state(v, s)) for v, s in zip(scope, row, strict=True))
                for row in rows
            )
        listed = " ; ".join(" ".join(_quoted(str(s)) for s in row) for row in rows)
        return " ".join(["allowed", *_named(self.variables, domain), ":", listed]).strip()


_COUNTED = 'exactly_one({"A": "yes", "B": "on"})'


def _literals(given: Any, example: str) -> tuple[Literal, ...]:
    """Literals from one dictionary, or from a list of dictionaries of one entry."""
    parts = [given] if isinstance(given, Mapping) else given
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise ModelError(f"expected literals as in {example}; found {given!r:.60}")
    out = []
    for part in parts:
        if not isinstance(part, Mapping) or (part is not given and len(part) != 1):
            raise ModelError(
                f"a list of literals must hold dictionaries of one entry, as in "
                f"[{{'A': 'yes'}}, {{'B': 'on'}}]; found {part!r:.60}"
            )
        for variable, states in part.items():
            is_one = isinstance(states, str) or not isinstance(states, Collection)
            chosen = (states,) if is_one else tuple(states)
            if not chosen:
                raise ModelError(f"a literal needs a state, found none for {variable!r}")
            out.append(Literal(variable, chosen))
    return tuple(out)


def _some(given: Any, example: str) -> tuple[Literal, ...]:
    found = _literals(given, example)
    if not found:
        raise ModelError(f"expected at least one literal, as in {example}; found none")
    return found


def _variables(given: Any, who: str) -> tuple[Any, ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise ModelError(
            f"{who} needs a list of variables, as in {who}(['A', 'B']); found {given!r:.60}"
        )
    found = tuple(given)
    if not found:
        raise ModelError(f"{who} needs at least one variable, found none")
    return found


def _states(domain: Domain, literal: Literal) -> tuple[int, list[int]]:
    """The number of a literal's variable and of its states."""
    v = domain.variable(literal.variable)
    named = [domain.state(v, state) for state in literal.states]
    if literal.negated:
        return v, [s for s in range(domain.cardinalities[v]) if s not in named]
    return v, named


def _held(domain: Domain, literals: Sequence[Literal]) -> dict[int, Integers]:
    """How many of the literals each state of each variable makes true."""
    counts: dict[int, Integers] = {}
    for v, states in (_states(domain, literal) for literal in literals):
        count = counts.setdefault(v, np.zeros(domain.cardinalities[v], dtype=np.int64))
        count[sorted(set(states))] += 1
    return counts


def _named(variables: Sequence[Any], domain: Domain | None) -> list[str]:
    if domain is None:
        return [_quoted(str(v)) for v in variables]
    return [_quoted(domain.name(domain.variable(v))) for v in variables]


def _quoted(word: str) -> str:
    """A word that a shell-like reader takes as one; `|` and the like need no quotes here."""
    is_plain = word and not any(c.isspace() or c in "'\"\\" for c in word)
    return word if is_plain else shlex.quote(word)
