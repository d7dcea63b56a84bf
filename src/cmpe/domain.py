"""Names, states and cardinalities of variables, and the matching of functions by name.

Inside, a variable is a number from 0 and so is a value. People have names for both: a `Domain`
translates. Functions with names are joined by name, in any order, each over any of the variables,
their states matched by name; functions without names are joined by position.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from cmpe.display import html_table, shortened
from cmpe.errors import ModelError

SHOWN_VARIABLES, SHOWN_WIDTH = 20, 60  # of a table in a notebook
TRUE, FALSE = ("true", "yes", "on", "1", "t", "y"), ("false", "no", "off", "0", "f", "n")
States = tuple[tuple[str | bool, ...], ...]  # of each variable
SHOWN = 6  # A message lists at most so many names or states.


@dataclass(frozen=True)
class Domain:
    """The number of values of each variable, and the names of variables and values.

    Without `names`, variables are identified by number. States of a variable that are not given, or
    are "0", "1", ..., are its numbers; they are kept as (). False and True are kept as they are.
    """

    cardinalities: tuple[int, ...]
    names: tuple[str, ...] = ()
    states: States = ()

    def __post_init__(self) -> None:
        try:
            cards = tuple(map(operator.index, self.cardinalities))
        except TypeError as error:
            raise ModelError(f"cardinalities must be whole numbers: {error}") from None
        object.__setattr__(self, "cardinalities", cards)
        object.__setattr__(self, "names", tuple(self.names))
        if any(k < 1 for k in cards):
            raise ModelError(f"every cardinality must be at least 1, found {min(cards)}")
        self._check_names()
        if self.states:
            self._check_states()

    def _check_names(self) -> None:
        if self.names and len(self.names) != len(self.cardinalities):
            wanted = len(self.cardinalities)
            raise ModelError(f"{wanted} variables need as many names, found {len(self.names)}")
        for name in self.names:
            if not isinstance(name, str) or not name:
                raise ModelError(f"a variable's name must be a text, found {name!r}")
        if len(set(self.names)) != len(self.names):
            raise ModelError(f"names must be distinct, found {_repeated(self.names)!r} twice")

    def _check_states(self) -> None:
        if not self.names or len(self.states) != len(self.names):
            raise ModelError(
                f"states are given for every named variable: {len(self.names)} names need as many "
                f"lists of states, found {len(self.states)}"
            )
        kept: list[tuple[str | bool, ...]] = []
        for name, size, given in zip(self.names, self.cardinalities, self.states, strict=True):
            states = tuple(map(str, given))
            if states and len(states) != size:
                raise ModelError(f"variable {name!r} has {size} states, found {len(states)} names")
            if len(set(states)) != len(states):
                raise ModelError(
                    f"variable {name!r}: states must be distinct, found {_repeated(states)!r} twice"
                )
            is_numbered = all(state == str(k) for k, state in enumerate(states))
            is_boolean = all(isinstance(state, bool | np.bool_) for state in given)
            truths = tuple(bool(state) for state in given) if is_boolean else states
            kept.append(() if is_numbered else truths)
        object.__setattr__(self, "states", tuple(kept) if any(kept) else ())

    @classmethod
    def of(cls, variables: Mapping[str, Sequence[Any] | int]) -> Domain:
        """From the states of each variable by name, or their number."""
        names = tuple(variables)
        states = tuple(() if isinstance(s, int) else tuple(s) for s in variables.values())
        cards = tuple(s if isinstance(s, int) else len(s) for s in variables.values())
        return cls(cards, names, states)

    def to_mapping(self) -> dict[str, list[str] | int]:
        """The states of each variable by name, or their number: the input of `of`."""
        return {
            name: list(self.states_of(v))
            if self.states and self.states[v]
            else self.cardinalities[v]
            for v, name in enumerate(self.names)
        }

    @property
    def variables(self) -> int:
        """The number of variables."""
        return len(self.cardinalities)

    def name(self, variable: int) -> str:
        """The name of a variable in tables and files, or its number."""
        return self.names[variable] if self.names else str(variable)

    def called(self, variable: int) -> str:
        """A variable in a sentence."""
        return f"variable {self.names[variable]!r}" if self.names else f"variable {variable}"

    def states_of(self, variable: int) -> tuple[str, ...]:
        """The states of a variable; numbers where they have no names."""
        if self.states and self.states[variable]:
            return tuple(map(str, self.states[variable]))
        return tuple(map(str, range(self.cardinalities[variable])))

    def labels(self, variable: int) -> tuple[str | int, ...]:
        """The names of the values, but numbers where all names are whole numbers."""
        return self._labels[variable]

    def label(self, variable: int, value: float) -> str | int | float:
        """The name of a value; a fraction is itself."""
        number = int(value)
        if number != value:
            return float(value)
        return self._labels[variable][number] if number >= 0 else number

    @cached_property
    def _labels(self) -> list[tuple[str | int, ...]]:
        listed = self.states or ((),) * self.variables
        return [
            _as_numbers(states) or tuple(states) or tuple(range(size))
            for states, size in zip(listed, self.cardinalities, strict=True)
        ]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: variable for variable, name in enumerate(self.names)}

    @cached_property
    def _names_are_numbers(self) -> bool:
        return any(map(_is_number, self.names))

    @cached_property
    def _state_numbers(self) -> dict[int, dict[str, int]]:
        return {}

    def variable(self, key: Any) -> int:
        """The number of a variable given by name or by number.

        Where names look like numbers, a number is a name. ("Rain", 2) is "Rain[2]", of step 2.
        """
        if isinstance(key, tuple) and len(key) == 2 and isinstance(key[0], str):
            key = f"{key[0]}[{key[1]}]"
        if _is_whole(key) and not self._names_are_numbers:
            if not 0 <= key < self.variables:
                raise ModelError(
                    f"there is no variable {key}: numbers go from 0 to {self.variables - 1}"
                )
            return int(key)
        if not self.names:
            raise ModelError(
                f"these variables have no names: give a number from 0 to {self.variables - 1}, "
                f"found {key!r}"
            )
        found = self._numbers.get(str(key))
        if found is None:
            raise ModelError(f"there is no variable {str(key)!r}; {_nearest(str(key), self.names)}")
        return found

    def state(self, variable: int, value: Any) -> int:
        """The number of a value given by the name of its state or by number.

        Where states look like numbers, a number is the name of a state.
        """
        known = self._state_numbers.get(variable)
        if known is None:
            known = {state: k for k, state in enumerate(self.states_of(variable))}
            self._state_numbers[variable] = known
        text = _as_text(value, known)
        if text is None:
            raise ModelError(
                f"{self.called(variable)}: {value} is none of its states; write one of "
                f"{_listed(tuple(known))}"
            )
        if text in known:
            return known[text]
        is_whole = _is_whole(value) or (_is_real(value) and float(value).is_integer())
        if is_whole and not self.has_numbers(variable):
            if 0 <= value < len(known):
                return int(value)
            raise ModelError(
                f"{self.called(variable)} has {len(known)} states, numbers 0 to {len(known) - 1}, "
                f"found {value}"
            )
        found = repr(value)[:60]
        raise ModelError(
            f"{self.called(variable)} has no state {found}; {_nearest(text, tuple(known))}"
        )

    def apart(self, text: str) -> tuple[str, str]:
        """The name and the state of `NAME=STATE`; names and states may contain `=`, too."""
        places = [at for at, sign in enumerate(text) if sign == "="]
        pairs = [(text[:at], text[at + 1 :]) for at in reversed(places)]
        named = [pair for pair in pairs if pair[0] in self._numbers]
        sound = [p for p in named if p[1] in self.states_of(self._numbers[p[0]])]
        return next(iter([*sound, *named, *pairs]), (text, ""))

    def has_numbers(self, variable: int) -> bool:
        """Whether the name of some state of a variable is a number."""
        return any(map(_is_number, self.states_of(variable)))

    def without_names(self) -> Domain:
        """The cardinalities alone."""
        return Domain(self.cardinalities) if self.names else self


class Named:
    """What every function shares: a `domain` made of its cardinalities, names and states."""

    def _repr_html_(self) -> str:
        domain = self.domain
        rows = [
            (domain.name(v), shortened(domain.states_of(v), SHOWN_WIDTH))
            for v in range(min(domain.variables, SHOWN_VARIABLES))
        ]
        more = domain.variables - len(rows)
        rows += [("...", f"{more} more variables")] if more else []
        return html_table(repr(self), ("variable", "states"), rows)

    cardinalities: tuple[int, ...]
    names: tuple[str, ...] = ()
    states: States = ()

    @cached_property
    def domain(self) -> Domain:
        """Names, states and cardinalities of the variables."""
        return Domain(self.cardinalities, self.names, self.states)

    def _settle(self) -> None:
        """Check the three fields and keep them as the domain does."""
        domain = self.domain
        for name in ("cardinalities", "names", "states"):
            object.__setattr__(self, name, getattr(domain, name))


@dataclass(frozen=True)
class Placement:
    """Where a function's variables lie in a wider domain, and how their states are ordered there.

    Variable v of the function is `variables[v]`; state s there is `states[v][s]` here, or s where
    `states[v]` is None.
    """

    domain: Domain
    variables: tuple[int, ...]
    states: tuple[tuple[int, ...] | None, ...]

    @cached_property
    def is_identity(self) -> bool:
        """Whether nothing moves."""
        in_place = self.variables == tuple(range(self.domain.variables))
        return in_place and not any(self.states)

    def need_order(self, domain: Domain, variables: Iterable[int]) -> None:
        """Refuse to reorder the states of `variables`, for functions that read them as numbers."""
        for v in variables:
            if self.states[v] is not None:
                raise ModelError(
                    f"{domain.called(v)} must have its states in one order everywhere, for a "
                    f"function that reads them as numbers: found {_listed(domain.states_of(v))}"
                )


def join(domains: Sequence[Domain], who: Sequence[str]) -> tuple[Domain, list[Placement]]:
    """All variables of `domains`, the first one's first, and where each domain's are.

    `who` says in a sentence whose domain each is. Names join by name, else all must be equal.
    """
    first = domains[0]
    if all(domain == first for domain in domains):
        in_place = Placement(first, tuple(range(first.variables)), (None,) * first.variables)
        return first, [in_place] * len(domains)
    named = [bool(domain.names) for domain in domains]
    if any(named) and not all(named):
        one, other = named.index(True), named.index(False)
        raise ModelError(
            f"{who[one]} names its variables and {who[other]} does not: give both names, as in "
            "from_tables(..., names=[...]), or none"
        )
    if not any(named):
        odd = next(k for k, d in enumerate(domains) if d != first)
        raise ModelError(
            f"{who[odd]} must have the same variables and cardinalities as {who[0]}; functions of "
            "other variables are joined by name: give names to all"
        )
    whole = _union(domains, who)
    return whole, [_placed(domain, whole) for domain in domains]


def _union(domains: Sequence[Domain], who: Sequence[str]) -> Domain:
    owner: dict[str, int] = {}
    states: dict[str, tuple[str, ...]] = {}
    for k, domain in enumerate(domains):
        if k and not set(domain.names) & set(states):
            raise ModelError(
                f"{who[k]} shares no variable with {who[0]}: found {_listed(domain.names)} beside "
                f"{_listed(tuple(states))}"
            )
        for v, name in enumerate(domain.names):
            mine = domain.states_of(v)
            theirs = states.setdefault(name, mine)
            owner.setdefault(name, k)
            if mine != theirs and set(mine) != set(theirs):
                raise ModelError(
                    f"variable {name!r} must have the same states everywhere: found "
                    f"{_listed(theirs)} in {who[owner[name]]} and {_listed(mine)} in {who[k]}"
                )
    cards = tuple(len(found) for found in states.values())
    return Domain(cards, tuple(states), tuple(states.values()))


def _placed(domain: Domain, whole: Domain) -> Placement:
    places = tuple(whole.variable(name) for name in domain.names)
    orders: list[tuple[int, ...] | None] = []
    for v, place in enumerate(places):
        mine, theirs = domain.states_of(v), whole.states_of(place)
        if mine == theirs:
            orders.append(None)
        else:
            numbers = {state: k for k, state in enumerate(mine)}
            orders.append(tuple(numbers[state] for state in theirs))
    return Placement(whole, places, tuple(orders))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, float | np.floating)


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def _as_numbers(states: Sequence[str | bool]) -> tuple[int, ...]:
    """The states as whole numbers; nothing where one is not written as a number is."""
    try:
        numbers = tuple(int(state) for state in states if isinstance(state, str))
    except ValueError:
        return ()
    return numbers if tuple(map(str, numbers)) == tuple(states) else ()


def _as_text(value: Any, known: Mapping[str, int]) -> str | None:
    """A value as the name of a state: 2.0 is "2", True is "true", "yes", "on" or the "1" of two.

    None where there is no such state.
    """
    if isinstance(value, bool | np.bool_):
        words = TRUE if value else FALSE
        found = [state for state in known if state.lower() in words]
        return found[0] if len(found) == 1 and len(known) == 2 else None
    if _is_real(value) and float(value).is_integer():
        return str(value) if str(value) in known else str(int(value))
    return str(value)


def _nearest(word: str, known: Sequence[str]) -> str:
    """What may have been meant, or what there is."""
    lowered = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f"did you mean {lowered[near[0]]!r}?" if near else f"there is {_listed(known)}"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:SHOWN]))
    return shown + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _repeated(names: Sequence[str]) -> str:
    return next(name for place, name in enumerate(names) if name in names[:place])
