"""Variable elimination: one plan per structure, then tables of numbers.

Eliminating variable v multiplies (here: adds, in logs) all tables that mention v into a bucket
and sums v out; the message that is left mentions v's neighbours. The order decides the size of
the tables, so several heuristics compete, with seeded restarts, and the cheapest order wins:

- min-fill and min-degree (weighted by cardinality), ties broken at random: good on sparse,
  irregular graphs;
- sweeps: breadth-first from a peripheral vertex, as Cuthill and McKee number a band matrix.
  A 20x20 grid gets width 20 this way, where min-fill finds 29.

Where the first of each leave a bucket of more than 2^40 entries there is nothing to compete for:
the greedy ones are given up as soon as they meet such a bucket, and the first sweep is the plan.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Floats
from cmpe.errors import TooLarge
from cmpe.models.loglinear import LogLinearModel

MEMORY_LIMIT = 4 << 30  # Elimination takes at most so many bytes.
CHEAP = 16  # A plan of so few bucket entries per variable needs no better order.
HOPELESS = 40  # Nobody can eliminate a bucket of more than 2^40 entries.
HEURISTICS = 3  # Each start makes so many orders.
Graph = list[set[int]]
Scope = tuple[int, ...]


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

    @property
    def order(self) -> tuple[int, ...]:
        """The variables in the order of their elimination."""
        return tuple(bucket.variable for bucket in self.buckets)

    @property
    def width(self) -> int:
        """The largest number of variables in a message: the induced width of the order."""
        return max((len(bucket.scope) for bucket in self.buckets), default=0)

    def size(self, scope: Iterable[int]) -> int:
        """Entries of a table over `scope`."""
        return math.prod(self.cardinalities[v] for v in scope)

    @property
    def operations(self) -> int:
        """Entries of all buckets together: what one elimination touches."""
        return sum(self.size((*b.scope, b.variable)) for b in self.buckets)

    @property
    def message_entries(self) -> int:
        """Entries of all messages together."""
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
) -> Plan:
    """The cheapest plan that the heuristics find for `variables` (all, if not given)."""
    graph = interaction_graph(len(cardinalities), scopes)
    chosen = set(range(len(cardinalities)) if variables is None else variables)
    generator = np.random.default_rng(seed)
    best: Plan | None = None
    least = math.inf
    for number, order in enumerate(_candidate_orders(graph, cardinalities, generator, restarts)):
        if order is not None:
            kept = [v for v in order if v in chosen]
            plan = plan_in_order(tuple(cardinalities), tuple(scopes), kept)
            operations = plan.operations
            if best is None or operations < least:
                best, least = plan, operations
        if least <= CHEAP * len(chosen):
            break  # another order could not save what looking for it costs
        if number + 1 == HEURISTICS and least > 2**HOPELESS:
            break
    assert best is not None
    return best


def interaction_graph(variables: int, scopes: Sequence[Scope]) -> Graph:
    """Variables are neighbours when a scope holds both."""
    graph: Graph = [set() for _ in range(variables)]
    for scope in scopes:
        for v in scope:
            graph[v].update(scope)
    for v, neighbours in enumerate(graph):
        neighbours.discard(v)
    return graph


def _candidate_orders(
    graph: Graph, cardinalities: Sequence[int], generator: np.random.Generator, restarts: int
) -> Iterable[list[int] | None]:
    """Orders of min-weight, min-fill and a sweep in turn; None in place of a hopeless one."""
    logs = [math.log2(k) for k in cardinalities]

    def fill(g: Graph, v: int) -> float:
        neighbours = g[v]
        return sum(len(neighbours - g[u]) - 1 for u in neighbours) / 2.0

    def weight(g: Graph, v: int) -> float:
        return sum(logs[u] for u in g[v])

    for start in range(restarts):
        yield _greedy(graph, weight, logs, generator)
        yield _greedy(graph, fill, logs, generator)
        yield _sweep(graph, generator, centred=bool(start % 2))


def _greedy(
    graph: Graph,
    cost: Callable[[Graph, int], float],
    logs: Sequence[float],
    generator: np.random.Generator,
) -> list[int] | None:
    """Eliminate the cheapest variable again and again; ties go to a random one.

    None where that meets a bucket of more than 2^HOPELESS entries.
    """
    graph = [set(neighbours) for neighbours in graph]
    noise = generator.random(len(graph)).tolist()
    current = [cost(graph, v) for v in range(len(graph))]
    heap = [(current[v], noise[v], v) for v in range(len(graph))]
    heapq.heapify(heap)
    order: list[int] = []
    gone = [False] * len(graph)
    while heap:
        value, _, v = heapq.heappop(heap)
        if gone[v] or value != current[v]:
            continue  # an older entry of v; its newer one is in the heap too
        if logs[v] + sum(logs[u] for u in graph[v]) > HOPELESS:
            return None
        gone[v] = True
        order.append(v)
        for u in _eliminate(graph, v):
            new = cost(graph, u)
            if new != current[u]:
                current[u] = new
                heapq.heappush(heap, (new, noise[u], u))
    return order


def _eliminate(graph: Graph, v: int) -> set[int]:
    """Connect v's neighbours, remove v, and return the vertices whose cost may have changed."""
    neighbours = graph[v]
    touched = set(neighbours)
    for u in neighbours:
        graph[u].discard(v)
        new = neighbours - graph[u]
        new.discard(u)
        if new:
            graph[u] |= new
            for w in new:  # a common neighbour of u and w now sees one fill edge less
                touched |= graph[u] & graph[w]
    graph[v] = set()
    return touched


def _sweep(graph: Graph, generator: np.random.Generator, centred: bool) -> list[int]:
    """Breadth-first order of each component from a far end, or from a random vertex."""
    order: list[int] = []
    seen: set[int] = set()
    for root in generator.permutation(len(graph)).tolist():
        if root not in seen:
            start = root if centred else _far_end(graph, root)
            component = _breadth_first(graph, start)
            seen.update(component)
            order.extend(component)
    return order


def _far_end(graph: Graph, root: int) -> int:
    """A vertex of small degree far from `root`: repeated breadth-first search."""
    for _ in range(4):
        root = _breadth_first(graph, root)[-1]
    return root


def _breadth_first(graph: Graph, root: int) -> list[int]:
    seen, order, queue = {root}, [], deque([root])
    while queue:
        v = queue.popleft()
        order.append(v)
        for u in sorted(graph[v] - seen, key=lambda w: (len(graph[w]), w)):
            seen.add(u)
            queue.append(u)
    return order


def plan_in_order(
    cardinalities: tuple[int, ...], scopes: tuple[Scope, ...], order: Sequence[int]
) -> Plan:
    """The buckets of eliminating the variables of `order`, which all scopes consist of."""
    position = {v: i for i, v in enumerate(order)}
    waiting: list[list[int]] = [[] for _ in order]  # table numbers by the position they wait at
    known: list[Scope] = list(scopes)
    for number, scope in enumerate(scopes):
        if scope:
            waiting[min(position[v] for v in scope)].append(number)
    buckets = []
    for i, variable in enumerate(order):
        mentioned = {u for number in waiting[i] for u in known[number]} - {variable}
        message = tuple(sorted(mentioned, key=position.__getitem__))
        buckets.append(Bucket(variable, tuple(waiting[i]), message))
        known.append(message)
        if message:
            waiting[position[message[0]]].append(len(known) - 1)
    return Plan(cardinalities, scopes, tuple(buckets))


@dataclass(frozen=True)
class Eliminated:
    """All tables of a plan, messages included, and the logarithm of the total."""

    plan: Plan
    tables: tuple[Floats, ...]
    log_total: float


def log_sum_exp(
    model: LogLinearModel, plan: Plan, *, memory_limit: int = MEMORY_LIMIT
) -> Eliminated:
    """Sum out every variable: log_total = log sum over z of exp h(z), maybe -inf."""
    plan.require(memory_limit)
    tables = [factor.log_table for factor in model.factors]
    total = float(sum(f.log_table for f in model.factors if not f.scope))
    scopes = list(plan.scopes)
    for bucket in plan.buckets:
        scope = (*bucket.scope, bucket.variable)
        shape = [plan.cardinalities[v] for v in scope]
        product = np.zeros(shape)
        for number in bucket.inputs:
            product += _aligned(tables[number], scopes[number], scope)
        message = _log_sum_last(product)
        if not bucket.scope:
            total += float(message)
        tables.append(message)
        scopes.append(bucket.scope)
    return Eliminated(plan, tuple(tables), total)


def _aligned(table: Floats, scope: Scope, target: Scope) -> Floats:
    """A view of `table` that broadcasts over the axes of `target`."""
    place = {v: i for i, v in enumerate(scope)}
    axes = [place[v] for v in target if v in place]
    shape = [table.shape[place[v]] if v in place else 1 for v in target]
    return table.transpose(axes).reshape(shape)


def _log_sum_last(product: Floats) -> Floats:
    """log sum exp over the last axis, in place of `product`; -inf where all is -inf."""
    highest = product.max(axis=-1)
    finite = np.where(np.isneginf(highest), 0.0, highest)
    product -= finite[..., np.newaxis]
    np.exp(product, out=product)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(product.sum(axis=-1)) + finite)


def _readable(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"
