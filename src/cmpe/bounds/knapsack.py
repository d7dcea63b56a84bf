"""Lagrangian decomposition into a multiple-choice knapsack (Rahman, Rouhani and Gogate 2021).

Every table and every variable becomes a class of items, one item per entry, with profit h and
weight t. Choosing one item per class with weights of at most q in all, and forgetting that tables
must agree on their variables, is a multiple-choice knapsack. Multipliers for the agreement move
profits between classes; they come from message passing. The linear relaxation of the knapsack is
then the best mu for these messages; branching on the class that the relaxation splits, the
greatest bound first, tightens it further and is a bound whenever it stops.

With several constraints each makes a knapsack in turn, while the others are priced.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Integers
from cmpe.bounds.base import (  # fmt: skip
    Bounds,
    Work,
    clock,
    loosened_limits,
    over_chunks,
    row_tables,
)
from cmpe.bounds.messages import PassedRow
from cmpe.bounds.settings import SETTINGS
from cmpe.models.conditioning import Conditioning
from cmpe.problem import Instances

ROUNDING = 1e-13  # A share of the sizes of all profits together: what sums may have lost.


@dataclass(frozen=True)
class Knapsack:
    """Bounds by message passing and a multiple-choice knapsack per constraint."""

    nodes: int = SETTINGS.knapsack_nodes

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row."""
        limits = loosened_limits(instances)
        out = Bounds.empty(len(instances), len(limits))
        structure = instances.conditioning
        limit = None if work.time_limit is None else SETTINGS.message_share * work.time_limit
        passing = replace(work, time_limit=limit)

        def chunk(rows: slice) -> None:
            row = PassedRow(structure, limits)
            knapsack = _Classes(structure, row)
            for at, given in enumerate(row_tables(instances, rows), rows.start):
                begin = clock()
                out.steps[at] = row.work(given, passing, begin)
                until = np.inf if work.time_limit is None else begin + work.time_limit
                bounds = [knapsack.bound(j, self.nodes, until) for j in range(len(limits))]
                upper = min([row.state.bound[0], *bounds])
                out.infeasible[at] = upper < given.least or upper == -np.inf
                out.upper[at] = -np.inf if out.infeasible[at] else upper
                out.multipliers[at] = row.state.best_mu
                out.seconds[at] = clock() - begin

        over_chunks(instances, chunk, work.threads)
        return out


class _Classes:
    """The knapsack of one row after another."""

    def __init__(self, structure: Conditioning, row: PassedRow) -> None:
        self._row = row
        own = np.diff(structure.layout.offsets)
        several = [int(own[f]) for f, scope in enumerate(structure.scopes) if len(scope) > 1]
        single = [structure.cardinalities[v] for v in structure.free]
        self._starts = np.concatenate([[0], np.cumsum([*several, *single], dtype=np.int64)])
        self._starts = self._starts.astype(np.int64)
        size = int(self._starts[-1])
        self._profit, self._weight = np.zeros(size), np.zeros(size)
        self._choice = np.zeros((2, len(self._starts) - 1), dtype=np.int64)

    def bound(self, j: int, nodes: int, until: float) -> float:
        """The bound of constraint j's knapsack."""
        from cmpe.core import knapsack as kernels

        row, state = self._row.row, self._row.state
        messages, mu = state.best_messages, state.best_mu
        priced, constant = row.h.copy(), 0.0
        for k in range(len(mu)):
            if k != j:
                priced -= mu[k] * row.t[k]
                constant += mu[k] * row.limits[k]
        arrays = (self._profit, self._weight)
        kernels.classes(self._row.tables, priced, row.t[j], messages, *arrays)
        limit = float(row.limits[j] - row.t[j][0])
        slack = ROUNDING * (1.0 + abs(constant) + abs(priced[0]) + np.abs(self._profit).sum())
        slack += ROUNDING * (1.0 + mu[j]) * np.abs(self._weight).sum()
        limit += ROUNDING * float(np.abs(self._weight).sum())
        return float(self._search(limit, nodes, until) + priced[0] + constant + slack)

    def _search(self, limit: float, nodes: int, until: float) -> float:
        """Best-first branching: the greatest bound of an open node."""
        start = np.full(len(self._starts) - 1, -1, dtype=np.int64)
        value, branch = self._node(start, limit)
        heap = [(-value, 0, branch, start)]
        for count in range(1, nodes):
            greatest, _, branch, fixed = heap[0]
            if branch < 0 or greatest == np.inf or clock() > until:
                break  # the greatest bound belongs to a choice of items: it is exact
            heapq.heappop(heap)
            for item in range(self._starts[branch], self._starts[branch + 1]):
                child = fixed.copy()
                child[branch] = item
                value, into = self._node(child, limit)
                value = min(value, -greatest)
                heapq.heappush(heap, (-value, count * len(self._profit) + item, into, child))
        return -heap[0][0]

    def _node(self, fixed: Integers, limit: float) -> tuple[float, int]:
        from cmpe.core import knapsack as kernels

        low, high = self._choice
        arrays = (self._profit, self._weight, self._starts, fixed)
        bound, branch = kernels.node(*arrays, limit, low, high)
        return float(bound), int(branch)
