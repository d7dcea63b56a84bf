"""Binary variables whose pairs pull one way: implications, and tables that favour equal values.

    maximise  sum over v of u_v(x_v)  -  sum over edges (i, j) of w_ij where x_i = 1 and x_j = 0

An implication is an edge of infinite weight, so implications alone are a maximum closure. Where a
table favours different values, or an implication joins a 1 with a 0, one of the two variables is
read the other way round; if that cannot be done for all, the problem is not recognised.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cmpe.arrays import FREE, Floats, Integers, Values
from cmpe.models.logic import BoundRule, Fold
from cmpe.models.loglinear import Factor

if TYPE_CHECKING:
    from cmpe.core.cuts import CutNetwork

_ORDER = np.maximum.outer(np.arange(3), np.arange(3))


class Pair(NamedTuple):
    """A table (2, 2) over two binary variables."""

    first: int
    second: int
    table: Floats


@dataclass(frozen=True)
class Closure:
    """Binary variables with edges; the others are free."""

    singles: Floats  # (n, k)
    variables: Integers  # (v,) those with edges
    flipped: Integers  # (v,) 1 where the state 0 is the value 1
    network: CutNetwork
    name: str = "closure"

    @classmethod
    def of(
        cls,
        cards: Sequence[int],
        singles: Floats,
        factors: Sequence[Factor],
        rules: Sequence[BoundRule],
    ) -> Closure | None:
        """The cut that factors of two variables and rules ask for, if they do."""
        singles = singles.copy()
        pairs: list[Pair] = []
        for found in _pairs(cards, singles, factors, rules):
            if found is None:
                return None
            pairs.append(found)
        flips = _flips(pairs)
        if not pairs or flips is None:
            return None
        variables = np.array(sorted(flips))
        place = {v: i for i, v in enumerate(variables.tolist())}
        edges: list[tuple[int, int, float]] = []
        for u, v, table in pairs:
            turned = table[:: 1 - 2 * flips[u], :: 1 - 2 * flips[v]]
            forward, backward, gain = _weights(turned)
            singles[u, :2] += gain[0][:: 1 - 2 * flips[u]]
            singles[v, :2] += gain[1][:: 1 - 2 * flips[v]]
            edges += [(place[u], place[v], forward), (place[v], place[u], backward)]
        flipped = np.array([flips[v] for v in variables.tolist()])
        return cls(singles, variables, flipped, _network(len(variables), edges))

    def best(self, scores: Floats) -> tuple[Values, Floats]:
        """See `Structure`."""
        from cmpe.core.cuts import cut_rows

        scores = scores + self.singles
        assignments = scores.argmax(axis=2).astype(np.int32)
        alone = np.ones(scores.shape[1], dtype=bool)
        alone[self.variables] = False
        own = scores[:, self.variables, :2]
        turned = np.where(self.flipped[:, np.newaxis] == 1, own[:, :, ::-1], own)
        ones = np.zeros(own.shape[:2], dtype=np.int8)
        bounds = np.empty(len(own))
        cut_rows(self.network, np.ascontiguousarray(turned), ones, bounds)
        assignments[:, self.variables] = ones ^ self.flipped
        bounds += scores[:, alone].max(axis=2, initial=-np.inf).sum(axis=1)
        assignments[np.isneginf(bounds)] = FREE
        return assignments, bounds


def _pairs(
    cards: Sequence[int],
    singles: Floats,
    factors: Sequence[Factor],
    rules: Sequence[BoundRule],
) -> Iterator[Pair | None]:
    """Tables over two binary variables; None for what is no such table.

    What an implication says of one variable alone is added to `singles`.
    """
    for factor in factors:
        yield _pair(cards, factor.scope, factor.log_table)
    for rule in rules:
        wide = sum(cards[v] > 1 for v in rule.scope)
        if wide == 2:
            yield _pair(cards, rule.scope, rule.table(cards))
        elif wide > 2:
            for part in rule.parts:
                yield from _implied(cards, singles, part)


def _pair(cards: Sequence[int], scope: Sequence[int], table: Floats) -> Pair | None:
    free = [v for v in scope if cards[v] > 1]
    if len(free) != 2 or any(cards[v] != 2 for v in free):
        return None
    return Pair(free[0], free[1], table.reshape(2, 2))


def _implied(cards: Sequence[int], singles: Floats, part: object) -> Iterator[Pair | None]:
    """An implication from one literal to many, as one from it to each."""
    if not _is_hard_implication(part) or any(cards[v] > 2 for v in part.scope):  # type: ignore[attr-defined]
        yield None
        return
    assert isinstance(part, Fold)
    elements = dict(zip(part.scope, part.elements, strict=True))
    left = [v for v, e in elements.items() if (e == 2).any()]
    if len(left) > 1 or any(cards[v] == 1 for v in left):
        yield None
        return
    for v, e in elements.items():
        if v in left:
            singles[v, :2] += np.where(e == 1, -np.inf, 0.0)  # it would imply its own opposite
        elif not left:
            singles[v, : cards[v]] += np.where(e == 1, -np.inf, 0.0)
        elif (e == 1).any():
            [u] = left
            given = elements[u] != 2
            broken = given[:, np.newaxis] & (e == 1)
            if cards[v] == 1:
                singles[u, :2] += np.where(given, -np.inf, 0.0)
            else:
                yield Pair(u, v, np.where(broken, -np.inf, 0.0))


def _is_hard_implication(part: object) -> bool:
    return (
        isinstance(part, Fold)
        and part.product.shape == _ORDER.shape
        and np.array_equal(part.product, _ORDER)
        and np.array_equal(part.worth, [0.0, -np.inf, 0.0])
    )


def _flips(pairs: Sequence[Pair]) -> dict[int, int] | None:
    """Which variables to read the other way round; None where there is no consistent choice."""
    links: dict[int, list[tuple[int, int]]] = {}
    for u, v, table in pairs:
        equal, different = table[0, 0] + table[1, 1], table[0, 1] + table[1, 0]
        if np.isneginf(equal) and np.isneginf(different):
            return None
        ends = links.setdefault(u, []), links.setdefault(v, [])
        if equal != different:
            ends[0].append((v, int(different > equal)))
            ends[1].append((u, int(different > equal)))
    flips: dict[int, int] = {}
    for first in links:
        if first in flips:
            continue
        flips[first] = 0
        waiting = deque([first])
        while waiting:
            u = waiting.popleft()
            for v, turn in links[u]:
                if v not in flips:
                    flips[v] = flips[u] ^ turn
                    waiting.append(v)
                elif flips[v] != flips[u] ^ turn:
                    return None
    return flips


def _weights(table: Floats) -> tuple[float, float, tuple[Floats, Floats]]:
    """Costs of (1, 0) and of (0, 1), both at least 0, and the scores of the two variables."""
    low, high = float(table[0, 0]), float(table[1, 1])
    forward, backward = high - float(table[1, 0]), low - float(table[0, 1])
    shift = min(backward, 0.0) - min(forward, 0.0)
    gain = np.array([low, high + shift]), np.array([0.0, -shift])
    return max(0.0, forward + shift), max(0.0, backward - shift), gain


def _network(count: int, edges: Sequence[tuple[int, int, float]]) -> CutNetwork:
    from cmpe.core.cuts import CutNetwork

    used = [(u, v, weight) for u, v, weight in edges if weight > 0.0]
    tails = np.array([end for u, v, _ in used for end in (u, v)], dtype=np.int64)
    heads = np.array([end for u, v, _ in used for end in (v, u)], dtype=np.int64)
    capacities = np.array([c for _, _, weight in used for c in (weight, 0.0)])
    arcs = np.argsort(tails, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(tails, minlength=count))])
    return CutNetwork(starts, arcs, heads, capacities)
