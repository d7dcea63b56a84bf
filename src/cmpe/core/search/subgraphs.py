"""Subgraphs of bounded width: which variables, in which order.

`grow` eliminates the allowed vertices: next is the vertex whose open neighbours have the fewest
joint values, ties at random. Where these are more than the limit allows, the heaviest neighbour is
frozen instead. The vertices that are never frozen have an order within the limit.

A tournament tree finds the next vertex: its leaves are the vertices, and its inner nodes hold the
lesser key of their two children.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.orders import enter, winner
from cmpe.core.repair import draw
from cmpe.core.search.settings import SETTINGS

CLOSED, OPEN = 0, 1


@njit(cache=True, nogil=True)
def ball(starts, neighbours, size, state):
    """`size` vertices around a random one, breadth first; fewer if it reaches fewer."""
    count = len(starts) - 1
    seen = np.zeros(count, dtype=np.bool_)
    queue = np.zeros(count, dtype=np.int64)
    queue[0] = np.int64(draw(state, count))
    seen[queue[0]] = True
    head, tail = 0, 1
    while head < tail < size:
        v = queue[head]
        head += 1
        first, degree = starts[v], starts[v + 1] - starts[v]
        turn = np.int64(draw(state, max(degree, 1)))
        for i in range(degree):
            u = neighbours[first + (i + turn) % degree]
            if not seen[u] and tail < size:
                seen[u] = True
                queue[tail] = u
                tail += 1
    return queue[:tail]


@njit(cache=True, nogil=True)
def _unlink(v, near, degree, weight, bits):
    """Take v out of its neighbours' lists."""
    for i in range(degree[v]):
        u = near[v, i]
        for j in range(degree[u]):
            if near[u, j] == v:
                degree[u] -= 1
                near[u, j] = near[u, degree[u]]
                break
        weight[u] -= bits[v]


@njit(cache=True, nogil=True)
def _connect(v, near, degree, weight, bits):
    """Make v's neighbours neighbours of one another; the vertex whose list is full, or -1.

    Where a list is full, some edges have been added already; superfluous edges do no harm.
    """
    for i in range(degree[v]):
        u = near[v, i]
        for j in range(degree[v]):
            w = near[v, j]
            if w == u:
                continue
            joined = False
            for k in range(degree[u]):
                if near[u, k] == w:
                    joined = True
                    break
            if not joined:
                if degree[u] == near.shape[1]:
                    return u
                near[u, degree[u]] = w
                degree[u] += 1
                weight[u] += bits[w]
    return -1


@njit(cache=True, nogil=True)
def _prepare(starts, neighbours, allowed, bits, room):
    """The subgraph of the vertices `allowed`, without hubs, as lists with room to grow."""
    count = len(starts) - 1
    status = np.zeros(count, dtype=np.int8)
    status[allowed] = OPEN
    most = 0
    for v in allowed:
        inside = 0
        for i in range(starts[v], starts[v + 1]):
            inside += status[neighbours[i]] == OPEN
        if inside > SETTINGS.hub:
            status[v] = CLOSED
        else:
            most = max(most, inside)
    near = np.empty((count, most + room), dtype=np.int32)
    degree, weight = np.zeros(count, dtype=np.int64), np.zeros(count)
    for v in allowed:
        for i in range(starts[v], starts[v + 1]):
            u = neighbours[i]
            if status[v] == OPEN and status[u] == OPEN:
                near[v, degree[v]] = u
                degree[v] += 1
                weight[v] += bits[u]
    return status, near, degree, weight


@njit(cache=True, nogil=True)
def _tournament(allowed, status, key):
    """The tournament of the open vertices among `allowed`; the key of all others is inf."""
    half = 1
    while half < len(allowed):
        half *= 2
    tree = np.full(2 * half, np.inf)
    leaf = np.zeros(len(status), dtype=np.int64)
    for i in range(len(allowed)):
        leaf[allowed[i]] = i
        if status[allowed[i]] == OPEN:
            tree[half + i] = key[allowed[i]]
    for node in range(half - 1, 0, -1):
        tree[node] = min(tree[2 * node], tree[2 * node + 1])
    return tree, leaf


@njit(cache=True, nogil=True)
def grow(starts, neighbours, bits, allowed, limit, state):
    """An elimination order of some of `allowed` in which no message has more than 2^limit values.

    `bits` are log2 of the cardinalities.
    """
    status, near, degree, weight = _prepare(starts, neighbours, allowed, bits, 4 * int(limit) + 4)
    noise = np.zeros(len(bits))
    for v in allowed:
        noise[v] = draw(state, 1 << 20) / (1 << 22)
    tree, leaf = _tournament(allowed, status, weight + noise)
    order = np.zeros(len(allowed), dtype=np.int64)
    length = 0
    while len(allowed) > 0 and tree[1] < np.inf:
        best = allowed[winner(tree)]
        drop = -1
        if weight[best] <= limit + 1e-9:
            drop = _connect(best, near, degree, weight, bits)
            if drop < 0:
                order[length] = best
                length += 1
                drop = best
        else:
            heaviest = -1.0
            for i in range(degree[best]):
                u = near[best, i]
                if weight[u] + noise[u] > heaviest:
                    drop, heaviest = u, weight[u] + noise[u]
        _unlink(drop, near, degree, weight, bits)
        status[drop] = CLOSED
        enter(leaf[drop], np.inf, tree)
        for v in (best, drop):
            for i in range(degree[v]):
                u = near[v, i]
                if status[u] == OPEN:
                    enter(leaf[u], weight[u] + noise[u], tree)
    return order[:length]
