"""Functions of a cost function network that are given by a rule, as tables and linear constraints.

A rule becomes a table where that is small. Where breaking it is forbidden, a count becomes a linear
constraint, however many variables there are. Anything else needs its whole table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Protocol

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.errors import TooLarge
from cmpe.models.logic import outside, tabulated

MOST_RULE = 1 << 20  # entries of the table of a rule
SMALL_RULE = 1 << 13  # A count of so many entries becomes a table even where it could be linear.
MOST_STEPS = 1 << 30  # of evaluating the rules of a file: a few seconds


@dataclass(frozen=True)
class CostTable:
    """Costs of the states of a scope in units, inf where they are forbidden."""

    scope: tuple[int, ...]
    costs: Floats


@dataclass(frozen=True)
class WholeSum:
    """low <= sum over variables of the weights of their states <= high, in whole numbers."""

    weights: Mapping[int, Floats]
    low: float
    high: float


@dataclass(frozen=True)
class Surroundings:
    """What a rule needs to know of its network."""

    cardinalities: Sequence[int]
    fixed: Mapping[int, int]  # the only value of a variable that is not forbidden
    room: float  # A cost that reaches it is forbidden.


class Encoded:
    """What rules become: tables, one for each scope, and linear constraints."""

    def __init__(self) -> None:
        self._tables: dict[tuple[int, ...], Floats] = {}
        self._steps = 0
        self.sums: list[WholeSum] = []

    @property
    def tables(self) -> list[CostTable]:
        """The tables of all rules."""
        return list(starmap(CostTable, self._tables.items()))

    def spend(self, where: str, steps: int) -> None:
        """Refuse before all rules together take too long."""
        self._steps += steps
        if self._steps > MOST_STEPS:
            raise TooLarge(f"{where}: its tables, with those before, take too long to make")

    def add(self, scope: tuple[int, ...], costs: Floats) -> None:
        """Add the costs of a rule to the table of its scope."""
        known = self._tables.get(scope)
        self._tables[scope] = costs if known is None else known + costs


class FileRule(Protocol):
    """A function given by a rule."""

    @property
    def least(self) -> float:
        """A lower bound of its costs."""
        ...

    def encode(self, around: Surroundings, into: Encoded) -> None:
        """Add what it becomes."""
        ...


@dataclass(frozen=True)
class Tabled:
    """A rule that becomes a table: the cost of each row of values of its scope."""

    where: str
    scope: tuple[int, ...]
    cost: Callable[[Values], Floats]
    steps: int = 1  # about how many passes over its rows the cost takes
    least: float = 0.0

    def encode(self, around: Surroundings, into: Encoded) -> None:
        """One table over the variables that are not fixed."""
        free = tuple(v for v in self.scope if v not in around.fixed)
        shape = [around.cardinalities[v] for v in free]
        if math.prod(shape) > MOST_RULE:
            raise TooLarge(
                f"{self.where}: expected a table of at most {MOST_RULE} entries, found "
                f"{math.prod(shape)} over {len(free)} variables"
            )
        into.spend(self.where, (math.prod(shape) + 1000) * (len(self.scope) + self.steps))
        places = [self.scope.index(v) for v in free]

        def of_free(rows: Values) -> Floats:
            whole = np.empty((len(rows), len(self.scope)), dtype=rows.dtype)
            whole[:] = [around.fixed.get(v, 0) for v in self.scope]
            whole[:, places] = rows
            return self.cost(whole)

        into.add(free, tabulated(shape, of_free))


@dataclass(frozen=True)
class Counted:
    """A rule on a sum of whole weights: `penalty(gap)` where it is `gap` off low..high."""

    where: str
    scope: tuple[int, ...]
    weights: Sequence[Floats]  # of the states of each variable
    low: float
    high: float
    penalty: Callable[[Floats], Floats]
    is_linear: bool = False  # It becomes a linear constraint, however small it is.
    least: float = 0.0

    def encode(self, around: Surroundings, into: Encoded) -> None:
        """A table, or a linear constraint where breaking the rule is forbidden."""
        size = math.prod(around.cardinalities[v] for v in self.scope if v not in around.fixed)
        is_hard = float(self.penalty(np.ones(1))[0]) >= around.room
        if is_hard and (self.is_linear or size > SMALL_RULE):
            weights = dict(zip(self.scope, self.weights, strict=True))
            into.sums.append(WholeSum(weights, self.low, self.high))
        else:
            Tabled(self.where, self.scope, self._cost).encode(around, into)

    def _cost(self, rows: Values) -> Floats:
        total = np.zeros(len(rows))
        for column, weights in zip(rows.T, self.weights, strict=True):
            total += weights[column]
        gap = outside(total, self.low, self.high)
        return np.where(gap > 0, self.penalty(gap), 0.0)


@dataclass(frozen=True)
class Choice:
    """One list of rules where a cost of `base` is forbidden, and another where it is not."""

    base: float
    forbidden: Sequence[FileRule]
    allowed: Sequence[FileRule]
    least: float = 0.0

    def encode(self, around: Surroundings, into: Encoded) -> None:
        """What the rules of one list become."""
        for rule in self.forbidden if self.base >= around.room else self.allowed:
            rule.encode(around, into)
