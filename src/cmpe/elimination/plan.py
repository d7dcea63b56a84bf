"""Variable elimination: one plan per structure.

Eliminating variable v multiplies (here: adds, in logs) all tables that mention v into a bucket
and sums v out; the message that is left mentions v's neighbours. The order decides the size of
the tables, so several heuristics compete, with seeded restarts, and the cheapest order wins:

- min-fill and min-degree (weighted by cardinality), ties broken at random: good on sparse,
  irregular graphs;
- sweeps: breadth-first from a peripheral vertex, as Cuthill and McKee number a band matrix.
  A 20x20 grid gets width 20 this way, where min-fill finds 29.

Orders are given up as soon as they meet a bucket of more than 2^40 entries. Where the first of each
kind do there is nothing to compete for; a small problem gets the plan of one of them all the same,
a large one is called hopeless and has no buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cmpe.core.compiler import timing
from cmpe.elimination.orders import Ordering, Scope, candidate_orders
from cmpe.elimination.settings import ELIMINATION
from cmpe.errors import TooLarge

MEMORY_LIMIT = 4 << 30  # Elimination takes at most so many bytes.
Graph = list[set[int]]


@dataclass(frozen=True)
class Bucket:
    """Eliminates `variable`: the tables it takes and the scope of the message it leaves."""

    variable: int
    inputs: tuple[int, ...]  # table numbers: the model's, then message k as len(tables) + k
    scope: Scope  # of the message, in the order in which its variables will be eliminated


@dataclass(frozen=True)
class Plan:
    """An elimination order with its buckets, for tables of given scopes."""

    cardinalities: tuple[int, ...]
    scopes: tuple[Scope, ...]
    buckets: tuple[Bucket, ...]
    hopeless: bool = False  # Every order has a bucket of more than 2^40 entries: none is spelled.

    @property
    def order(self) -> tuple[int, ...]:
        """The variables in the order of their elimination."""
        return tuple(bucket.variable for bucket in self.buckets)

    @property
    def width(self) -> int:
        """The largest number of variables in a message: the induced width of the order.

        Of a hopeless plan, less than that.
        """
        if self.hopeless:
            return ELIMINATION.hopeless
        return max((len(bucket.scope) for bucket in self.buckets), default=0)

    def size(self, scope: Iterable[int]) -> int:
        """Entries of a table over `scope`."""
        return math.prod(self.cardinalities[v] for v in scope)

    @cached_property
    def operations(self) -> int:
        """Entries of all buckets together: what one elimination touches."""
        if self.hopeless:
            return 1 << ELIMINATION.hopeless
        return sum(self.size((*b.scope, b.variable)) for b in self.buckets)

    @cached_property
    def message_entries(self) -> int:
        """Entries of all messages together."""
        if self.hopeless:
            return 1 << ELIMINATION.hopeless
        return sum(self.size(b.scope) for b in self.buckets)

    @property
    def bytes(self) -> int:
        """Memory of all messages, which sampling keeps, and of the largest bucket."""
        largest = max((self.size((*b.scope, b.variable)) for b in self.buckets), default=0)
        return 8 * (self.message_entries + 3 * largest)

    def require(self, memory_limit: int = MEMORY_LIMIT) -> None:
        """Refuse before any memory is taken."""
        if self.bytes > memory_limit:
            raise TooLarge(
                f"elimination of width {self.width} needs {_readable(self.bytes)}; "
                f"the limit is {_readable(memory_limit)}"
            )


def make_plan(
    cardinalities: Sequence[int],
    scopes: Sequence[Scope],
    *,
    variables: Sequence[int] | None = None,
    seed: int = 0,
    restarts: int = 4,
    until: float = math.inf,
) -> Plan:
    """The cheapest plan that the heuristics find for `variables` (all, if not given).

    `until` is a moment of `timing.now`: no further order is tried after it.
    """
    chosen = np.array(
        range(len(cardinalities)) if variables is None else sorted(variables), dtype=np.int64
    )
    least, best = math.inf, None
    for number, (order, cost) in enumerate(
        candidate_orders(Ordering(cardinalities, scopes, chosen, seed, until), restarts)
    ):
        if order is not None and (best is None or cost < least):
            best, least = order, cost
        if least <= ELIMINATION.cheap * len(chosen):
            break  # another order could not save what looking for it costs
        is_over = least > 2.0**ELIMINATION.hopeless or timing.now() >= until
        if is_over and number + 1 >= ELIMINATION.heuristics:
            break
    assert best is not None
    cheapest = chosen[best].tolist()
    if least == math.inf and len(chosen) > ELIMINATION.spelled:
        return Plan(tuple(cardinalities), tuple(scopes), (), hopeless=True)
    return plan_in_order(tuple(cardinalities), tuple(scopes), cheapest)


def interaction_graph(variables: int, scopes: Sequence[Scope]) -> Graph:
    """Variables are neighbours when a scope holds both."""
    graph: Graph = [set() for _ in range(variables)]
    for scope in scopes:
        for v in scope:
            graph[v].update(scope)
    for v, neighbours in enumerate(graph):
        neighbours.discard(v)
    return graph


def plan_in_order(
    cardinalities: tuple[int, ...], scopes: tuple[Scope, ...], order: Sequence[int]
) -> Plan:
    """The buckets of eliminating the variables of `order`, which all scopes consist of."""
    position = {v: i for i, v in enumerate(order)}
    waiting: list[list[int]] = [[] for _ in order]  # table numbers by the position they wait at
    earlier: list[Scope] = list(scopes)
    for number, scope in enumerate(scopes):
        if scope:
            waiting[min(position[v] for v in scope)].append(number)
    buckets = []
    for i, variable in enumerate(order):
        mentioned = {u for number in waiting[i] for u in earlier[number]} - {variable}
        message = tuple(sorted(mentioned, key=position.__getitem__))
        buckets.append(Bucket(variable, tuple(waiting[i]), message))
        earlier.append(message)
        if message:
            waiting[position[message[0]]].append(len(earlier) - 1)
    return Plan(cardinalities, scopes, tuple(buckets))


def _readable(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"
