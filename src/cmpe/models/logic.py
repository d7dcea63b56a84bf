"""Violations of rules on discrete variables.

Each function takes the values of a rule's variables, one assignment a row (B, k), and returns one
number a row. `tabulated` makes a table of any such function. `Fold` is a rule that can be evaluated
variable by variable in any order, and `Listing` one that lists what it allows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers, Values
from cmpe.domain import Placement

ROWS = 1 << 16  # of a table are evaluated at once
REACHED = 1 << 22  # costs of states, of as many rows as are read at once


def tabulated(shape: Sequence[int], rule: Callable[[Values], Floats]) -> Floats:
    """The rule at every assignment of variables with so many values."""
    table = np.empty(int(np.prod(shape, dtype=np.int64)))
    for first, rows in _assignments(shape, len(table)):
        table[first : first + len(rows)] = rule(rows)
    return table.reshape(tuple(shape))


def _assignments(shape: Sequence[int], count: int) -> Iterator[tuple[int, Values]]:
    for first in range(0, count, ROWS):
        numbers = np.arange(first, min(first + ROWS, count))
        columns = np.unravel_index(numbers, tuple(shape)) if shape else ()
        yield first, np.stack([np.zeros_like(numbers), *columns], axis=1)[:, 1:].astype(np.int32)


def occurrences(rows: Values, values: Collection[int]) -> Floats:
    """How many of the variables have one of the values."""
    counted: Floats = np.isin(rows, list(values)).sum(axis=1).astype(float)
    return counted


def outside(total: Floats, low: float, high: float) -> Floats:
    """How far each number is from low <= total <= high."""
    return np.maximum(0.0, np.maximum(low - total, total - high))


@dataclass(frozen=True)
class Automaton:
    """A weighted finite automaton: the cost of its states and of its transitions."""

    states: int
    starts: Mapping[int, float]
    ends: Mapping[int, float]
    transitions: Mapping[tuple[int, int, int], float]  # of (state, value, next state)

    def cost(self, rows: Values) -> Floats:
        """The least cost of a path that reads a row's values in order; inf where there is none."""
        return self._least(rows, lambda is_read, cost: np.where(is_read, cost, np.inf))

    def changes(self, rows: Values) -> Floats:
        """The least number of values to change for a path to exist; inf where none ever does."""
        free = Automaton(
            self.states,
            dict.fromkeys(self.starts, 0.0),
            dict.fromkeys(self.ends, 0.0),
            self.transitions,
        )
        return free._least(rows, lambda is_read, _: np.where(is_read, 0.0, 1.0))

    def _least(self, rows: Values, step: Callable[[NDArray[np.bool_], float], Floats]) -> Floats:
        some = max(1, REACHED // max(1, self.states))
        parts = [self._block(rows[i : i + some], step) for i in range(0, len(rows), some)]
        return np.concatenate([np.empty(0), *parts])

    def _block(self, rows: Values, step: Callable[[NDArray[np.bool_], float], Floats]) -> Floats:
        reached = np.full((self.states, len(rows)), np.inf)
        for state, cost in self.starts.items():
            reached[state] = cost
        for column in rows.T:
            following = np.full_like(reached, np.inf)
            for (state, value, target), cost in self.transitions.items():
                taken = reached[state] + step(column == value, cost)
                following[target] = np.minimum(following[target], taken)
            reached = following
        totals = [reached[state] + cost for state, cost in self.ends.items()]
        return np.asarray(np.min(totals, axis=0)) if totals else np.full(len(rows), np.inf)


@dataclass(frozen=True)
class Fold:
    """A rule as a product: each value of a variable is an element, in any order.

    The product is commutative and associative, and `worth` is what the objective gains by each
    element: 0 where the rule holds, and -inf or less than 0 where it is broken.
    """

    scope: tuple[int, ...]
    elements: tuple[Integers, ...]  # of the values of each variable of the scope
    product: Integers  # (E, E)
    worth: Floats  # (E,)

    def of_scope(self, rows: Values) -> Floats:
        """The worth of each row of values of the scope (B, k)."""
        reached = self.elements[0][rows[:, 0]]
        for elements, column in zip(self.elements[1:], rows.T[1:], strict=True):
            reached = self.product[reached, elements[column]]
        return np.asarray(self.worth[reached])

    def placed(self, placement: Placement) -> Fold:
        """The same rule over a wider domain."""
        orders = [placement.states[v] for v in self.scope]
        moved = (
            e if order is None else e[list(order)]
            for e, order in zip(self.elements, orders, strict=True)
        )
        scope = tuple(placement.variables[v] for v in self.scope)
        return replace(self, scope=scope, elements=tuple(moved))


@dataclass(frozen=True)
class Listing:
    """A rule that lists the rows of values it allows."""

    scope: tuple[int, ...]
    rows: Values  # (R, k), distinct
    broken: float  # what the objective gains by other rows

    def of_scope(self, rows: Values) -> Floats:
        """The worth of each row of values of the scope (B, k)."""
        known = {row.tobytes() for row in np.ascontiguousarray(self.rows, dtype=np.int64)}
        given = np.ascontiguousarray(rows, dtype=np.int64)
        return np.array([0.0 if row.tobytes() in known else self.broken for row in given])

    def placed(self, placement: Placement) -> Listing:
        """The same rule over a wider domain."""
        columns = []
        for column, v in zip(self.rows.T, self.scope, strict=True):
            order = placement.states[v]
            columns.append(column if order is None else np.argsort(order)[column])
        scope = tuple(placement.variables[v] for v in self.scope)
        return replace(self, scope=scope, rows=np.stack(columns, axis=1))


Part = Fold | Listing


@dataclass(frozen=True)
class BoundRule:
    """A rule over the variables of a domain: what its parts are worth together."""

    text: str  # in words, as `rule_from_text` reads it
    parts: tuple[Part, ...] = field(compare=False)

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables, each once."""
        return tuple(dict.fromkeys(v for part in self.parts for v in part.scope))

    def value(self, rows: Values) -> Floats:
        """What the rule adds to the objective at each row of all variables (B, n)."""
        total = np.zeros(len(rows))
        for part in self.parts:
            total += part.of_scope(rows[:, list(part.scope)])
        return total

    def table(self, cardinalities: Sequence[int]) -> Floats:
        """The same as a table over the scope."""
        scope = self.scope
        places = [[scope.index(v) for v in part.scope] for part in self.parts]

        def of_scope(rows: Values) -> Floats:
            total = np.zeros(len(rows))
            for part, place in zip(self.parts, places, strict=True):
                total += part.of_scope(rows[:, place])
            return total

        return tabulated([cardinalities[v] for v in scope], of_scope)

    def hardened(self) -> BoundRule:
        """What the rule forbids; nothing where it is soft."""
        return replace(self, parts=tuple(_hardened(part) for part in self.parts))

    def placed(self, placement: Placement) -> BoundRule:
        """The same rule over a wider domain."""
        return replace(self, parts=tuple(part.placed(placement) for part in self.parts))


def _hardened(part: Part) -> Part:
    """The part with what it is worth where it does not forbid left out."""
    if isinstance(part, Fold):
        return replace(part, worth=np.where(np.isneginf(part.worth), -np.inf, 0.0))
    return replace(part, broken=part.broken if part.broken == -np.inf else 0.0)
