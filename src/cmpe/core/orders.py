"""Compiled elimination orders: greedy ones with lazy updates, sweeps, and what an order costs.

A graph is (starts, neighbours); `bits` are log2 of the cardinalities. Lists of neighbours have as
much room as useful orders need: where a list is full or a bucket has more than 2^`most` entries,
the order is given up. So it is after `work` steps, so that a caller can meet a deadline.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.settings import WIDE

WEIGHT, FILL, GIVEN = range(3)  # rules for the next vertex, see `greedy`


@njit(inner=True, nogil=True)
def enter(leaf, key, tree):
    """Give a leaf another key, and every node above it the lesser one of its children."""
    node = len(tree) // 2 + leaf
    tree[node] = key
    while node > 1:
        node //= 2
        tree[node] = min(tree[2 * node], tree[2 * node + 1])


@njit(inner=True, nogil=True)
def winner(tree):
    """The first leaf with the least key."""
    node = 1
    while node < len(tree) // 2:
        node = 2 * node + (tree[2 * node] > tree[node])
    return node - len(tree) // 2


@njit(cache=True, nogil=True)
def _missing(v, near, degree, stamp, mark):
    """The number of edges missing between the neighbours of v, and the steps of counting them."""
    for i in range(degree[v]):
        stamp[near[v, i]] = mark
    joined, steps = 0, degree[v]
    for i in range(degree[v]):
        u = near[v, i]
        steps += degree[u]
        for j in range(degree[u]):
            if stamp[near[u, j]] == mark:
                joined += 1
    return (degree[v] * (degree[v] - 1) - joined) / 2.0, steps


@njit(cache=True, nogil=True)
def _join(v, near, degree, weight, bits, stamp, mark):
    """Make v's neighbours neighbours of one another, take v out; False if a list is full."""
    room = near.shape[1]
    for i in range(degree[v]):
        u = near[v, i]
        mark += 1
        at = -1
        for j in range(degree[u]):
            stamp[near[u, j]] = mark
            if near[u, j] == v:
                at = j
        stamp[u] = mark
        degree[u] -= 1
        near[u, at] = near[u, degree[u]]
        weight[u] -= bits[v]
        for j in range(degree[v]):
            w = near[v, j]
            if stamp[w] != mark:
                if degree[u] == room:
                    return False
                near[u, degree[u]] = w
                degree[u] += 1
                weight[u] += bits[w]
    return True


@njit(cache=True, nogil=True)
def _lists(starts, neighbours, bits, room):
    """The graph as lists with room to grow; degrees, and the weights of all neighbours."""
    n = len(bits)
    largest = 0
    for v in range(n):
        largest = max(largest, starts[v + 1] - starts[v])
    near = np.empty((n, largest + room), dtype=np.int32)
    degree, weight = np.zeros(n, dtype=np.int64), np.zeros(n)
    for v in range(n):
        for i in range(starts[v], starts[v + 1]):
            near[v, degree[v]] = neighbours[i]
            degree[v] += 1
            weight[v] += bits[neighbours[i]]
    return near, degree, weight


@njit(cache=True, nogil=True)
def greedy(starts, neighbours, bits, noise, rule, most, work):
    """An elimination order, and the entries of its buckets together (inf: given up).

    The cheapest vertex is next: by the weight of its neighbours, by the edges that are missing
    between them, or (GIVEN) by `noise`, which then holds positions. In a graph of more than
    `WIDE.exact_fill` vertices only the neighbours of the vertex eliminated get a new fill.
    """
    n = len(bits)
    near, degree, weight = _lists(starts, neighbours, bits, int(most) + 8)
    stamp, mark = np.zeros(n, dtype=np.int64), np.int64(0)  # not 0: see `frontiers.search`
    seen = np.zeros(n, dtype=np.int64)
    half = 1
    while half < n:
        half *= 2
    tree = np.full(2 * half, np.inf)
    for v in range(n):
        key = noise[v]
        if rule == WEIGHT:
            key += weight[v]
        elif rule == FILL:
            mark += 1
            missing, steps = _missing(v, near, degree, stamp, mark)
            key += missing
            work -= steps
        tree[half + v] = key
    for node in range(half - 1, 0, -1):
        tree[node] = min(tree[2 * node], tree[2 * node + 1])
    order, cost = np.zeros(n, dtype=np.int64), 0.0
    for k in range(n):
        v = winner(tree)
        order[k] = v
        size = bits[v] + weight[v]
        work -= degree[v] * degree[v]
        if size > most or work < 0 or not _join(v, near, degree, weight, bits, stamp, mark):
            return order, np.inf
        mark += degree[v]
        cost += 2.0**size
        enter(v, np.inf, tree)
        if rule == GIVEN:
            continue
        for i in range(degree[v]):
            u = np.int64(near[v, i])
            if rule == WEIGHT:
                enter(u, noise[u] + weight[u], tree)
                continue
            for j in range(-1, degree[u] if n <= WIDE.exact_fill else 0):
                w = u if j < 0 else np.int64(near[u, j])  # their fill has changed, too
                if seen[w] != k + 1:
                    seen[w] = k + 1
                    mark += 1
                    missing, steps = _missing(w, near, degree, stamp, mark)
                    work -= steps
                    enter(w, noise[w] + missing, tree)
    return order, cost


@njit(inner=True, nogil=True)
def breadth_first(starts, neighbours, root, seen, order, length):
    """Append the component of `root` to an order, neighbours of small degree first."""
    first = length
    order[length] = root
    length += 1
    seen[root] = 1
    head = first
    while head < length:
        v = order[head]
        head += 1
        begin = length
        for i in range(starts[v], starts[v + 1]):
            u = neighbours[i]
            if seen[u]:
                continue
            seen[u] = 1
            at, degree = length, starts[u + 1] - starts[u]
            while at > begin:
                w = order[at - 1]
                other = starts[w + 1] - starts[w]
                if other < degree or (other == degree and w < u):
                    break
                order[at] = w
                at -= 1
            order[at] = u
            length += 1
    return length


@njit(cache=True, nogil=True)
def sweep_order(starts, neighbours, roots, centred):
    """Breadth-first order of each component from a far end, or from its first root."""
    n = len(starts) - 1
    order, seen = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int8)
    length = 0
    for r in range(n):
        root = roots[r]
        if seen[root]:
            continue
        if not centred:
            for _ in range(4):
                end = breadth_first(starts, neighbours, root, seen, order, length)
                root = order[end - 1]
                for i in range(length, end):
                    seen[order[i]] = 0
        length = breadth_first(starts, neighbours, root, seen, order, length)
    return order
