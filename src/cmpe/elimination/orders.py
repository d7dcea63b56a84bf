"""Elimination orders by compiled heuristics, with what each costs; interruptible.

`plan` runs the heuristics and chooses among their orders.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np

from cmpe.arrays import Integers
from cmpe.core.compiler import timing
from cmpe.elimination.settings import ELIMINATION

Scope = tuple[int, ...]


class Ordering:
    """The interaction graph of some variables for compiled code, and its random numbers."""

    def __init__(
        self,
        cardinalities: Sequence[int],
        scopes: Sequence[Scope],
        chosen: Integers,
        seed: int,
        until: float,
    ) -> None:
        self._chosen, self._all = chosen, len(cardinalities)
        self.bits = np.log2(np.array(cardinalities, dtype=np.float64)[chosen])
        number = np.full(len(cardinalities), -1, dtype=np.int64)
        number[chosen] = np.arange(len(chosen))
        self.starts, self.neighbours = neighbours_of(number, len(chosen), scopes)
        self._number = number
        self.generator = np.random.default_rng(seed)
        self.until = until

    def greedy(self, rule: int) -> tuple[Integers | None, float]:
        """The order that a rule makes, and its bucket entries; None where it is given up."""
        from cmpe.core import orders as kernels

        noise = ELIMINATION.noise * self.generator.random(self._all)[self._chosen]
        left = self.until - timing.now()
        work = int(min(1 << 60, max(ELIMINATION.least_work, left * ELIMINATION.work_per_second)))
        graph = (self.starts, self.neighbours, self.bits)
        order, cost = kernels.greedy(*graph, noise, rule, float(ELIMINATION.hopeless), work)
        return (None if cost == math.inf else order), float(cost)

    def sweep(self, centred: bool) -> tuple[Integers, float]:
        """Breadth first from a far end, or from anywhere."""
        from cmpe.core import orders as kernels

        drawn = self.generator.permutation(self._all)
        roots = self._number[drawn]
        roots = roots[roots >= 0]
        order = kernels.sweep_order(self.starts, self.neighbours, roots, centred)
        position = np.empty(len(order))
        position[order] = np.arange(len(order))
        graph = (self.starts, self.neighbours, self.bits)
        hopeless = float(ELIMINATION.hopeless)
        _, cost = kernels.greedy(*graph, position, kernels.GIVEN, hopeless, 1 << 60)
        return order, float(cost)


def candidate_orders(ordering: Ordering, restarts: int) -> Iterator[tuple[Integers | None, float]]:
    """Orders of min-weight, min-fill and a sweep in turn with their costs, inf if hopeless."""
    from cmpe.core.orders import FILL, WEIGHT

    for start in range(restarts):
        yield ordering.greedy(WEIGHT)
        yield ordering.greedy(FILL)
        yield ordering.sweep(centred=bool(start % 2))


def neighbours_of(
    number: Integers, count: int, scopes: Sequence[Scope]
) -> tuple[Integers, Integers]:
    """Which of `count` variables share a scope, as (starts, neighbours); `number[v]` is v's."""
    by_arity: dict[int, list[Scope]] = {}
    for scope in scopes:
        if len(scope) > 1:
            by_arity.setdefault(len(scope), []).append(scope)
    pairs = [np.zeros(0, dtype=np.int64)]
    for arity, group in by_arity.items():
        members = number[np.array(group, dtype=np.int64)]
        pairs += [
            np.unique(members[:, i] * count + members[:, j])
            for i, j in permutations(range(arity), 2)
        ]
    edges = np.unique(np.concatenate(pairs))
    starts = np.searchsorted(edges, count * np.arange(count + 1, dtype=np.int64))
    return starts.astype(np.int64), (edges % max(1, count)).astype(np.int64)
