"""Rules of which each lets at most one of its literals hold: an assignment of variables to columns.

Each rule is a column. A variable whose state is in a rule takes that column; a state that is in no
rule is the variable's private column. A state in two rules would take two columns, and two states
in one rule would share a column: such problems are not recognised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import FREE, Floats, Integers, Values
from cmpe.models.logic import BoundRule, Fold

_COUNTS = np.minimum(np.add.outer(np.arange(3), np.arange(3)), 2)


@dataclass(frozen=True)
class ColumnGroup:
    """Variables that share columns."""

    variables: Integers  # (v,)
    columns: Integers  # (v, k) the column of each state, -1 for none
    count: int

    def best(self, scores: Floats, assignments: Values, bounds: Floats) -> None:
        """Fill in the variables' values, and add to the bounds."""
        from cmpe.core.assignment import assign_rows

        own = scores[:, self.variables]
        alone = np.where(self.columns < 0, own, -np.inf)
        private = alone.max(axis=2)
        shared = np.full((len(own), len(self.variables), self.count), -np.inf)
        which, states = np.nonzero(self.columns >= 0)
        shared[:, which, self.columns[which, states]] = own[:, which, states]
        state_of = np.zeros((len(self.variables), self.count), dtype=np.int32)
        state_of[which, self.columns[which, states]] = states
        chosen = np.full(own.shape[:2], FREE, dtype=np.int64)
        upper = np.empty(len(own))
        assign_rows(shared, private, chosen, upper)
        inside = np.minimum(chosen, self.count - 1)
        taken = np.take_along_axis(state_of[np.newaxis], inside[:, :, np.newaxis], axis=2)[:, :, 0]
        assignments[:, self.variables] = np.where(chosen < self.count, taken, alone.argmax(axis=2))
        bounds += upper


@dataclass(frozen=True)
class Matching:
    """Groups of variables that share columns; the others are free."""

    singles: Floats  # (n, k)
    groups: tuple[ColumnGroup, ...]
    name: str = "assignment"

    @classmethod
    def of(
        cls, cards: Sequence[int], singles: Floats, rules: Sequence[BoundRule]
    ) -> Matching | None:
        """The assignment that the rules ask for, if they do."""
        columns = np.full(singles.shape, FREE)
        scopes: list[tuple[int, ...]] = []
        for part in (p for r in rules if sum(cards[v] > 1 for v in r.scope) > 1 for p in r.parts):
            if not (isinstance(part, Fold) and _is_one_at_most(part)):
                return None
            for v, held in zip(part.scope, part.elements, strict=True):
                states = np.flatnonzero(held)
                if len(states) > 1 or (columns[v, states] != FREE).any():
                    return None
                columns[v, states] = len(scopes)
            scopes.append(part.scope)
        groups = tuple(_groups(columns, scopes))
        if any((group.columns >= 0).sum(axis=1).max() < 2 for group in groups):
            return None  # single rules are a matter for elimination
        return cls(singles, groups) if groups else None

    def best(self, scores: Floats) -> tuple[Values, Floats]:
        """See `Structure`."""
        scores = scores + self.singles
        assignments = scores.argmax(axis=2).astype(np.int32)
        alone = np.ones(scores.shape[1], dtype=bool)
        for group in self.groups:
            alone[group.variables] = False
        bounds = scores[:, alone].max(axis=2, initial=-np.inf).sum(axis=1)
        for group in self.groups:
            group.best(scores, assignments, bounds)
        assignments[np.isneginf(bounds)] = FREE
        return assignments, bounds


def _is_one_at_most(fold: Fold) -> bool:
    """Whether it lets at most one of some literals hold, and no variable has two of them."""
    return (
        fold.product.shape == _COUNTS.shape
        and np.array_equal(fold.product, _COUNTS)
        and np.array_equal(fold.worth, [0.0, 0.0, -np.inf])
        and all(held.max() <= 1 for held in fold.elements)
    )


def _groups(columns: Integers, scopes: Sequence[tuple[int, ...]]) -> list[ColumnGroup]:
    """Variables that are linked by columns, each with the numbers of its own columns."""
    parent = list(range(len(columns)))

    def root(v: int) -> int:
        while parent[v] != v:
            parent[v] = v = parent[parent[v]]
        return v

    for scope in scopes:
        for v in scope[1:]:
            parent[root(v)] = root(scope[0])
    members: dict[int, list[int]] = {}
    for v in dict.fromkeys(v for scope in scopes for v in scope):
        members.setdefault(root(v), []).append(v)
    groups = []
    for chosen in members.values():
        variables = np.sort(chosen)
        own = columns[variables]
        used, renumbered = np.unique(own[own >= 0], return_inverse=True)
        local = np.full(own.shape, FREE)
        local[own >= 0] = renumbered
        groups.append(ColumnGroup(variables, local, len(used)))
    return groups
