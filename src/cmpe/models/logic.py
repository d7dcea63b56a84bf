"""Rules over a few discrete variables: how far assignments are from satisfying them.

Each function takes the values of a rule's variables, one assignment a row (B, k), and returns one
number a row. `tabulated` makes a table of any such function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Values

_ROWS = 1 << 16  # of a table are evaluated at once
_REACHED = 1 << 22  # costs of states, of as many rows as are read at once


def tabulated(shape: Sequence[int], rule: Callable[[Values], Floats]) -> Floats:
    """The rule at every assignment of variables with so many values."""
    table = np.empty(int(np.prod(shape, dtype=np.int64)))
    for first, rows in _assignments(shape, len(table)):
        table[first : first + len(rows)] = rule(rows)
    return table.reshape(tuple(shape))


def _assignments(shape: Sequence[int], count: int) -> Iterator[tuple[int, Values]]:
    for first in range(0, count, _ROWS):
        numbers = np.arange(first, min(first + _ROWS, count))
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
        some = max(1, _REACHED // max(1, self.states))
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
