"""Compiled minimum cuts: the best values of binary variables whose edges pull one way.

    maximise  sum over v of u_v(x_v)  -  sum over edges (i, j) of w_ij where x_i = 1 and x_j = 0

With infinite w an edge is an implication, and the maximum is a maximum closure (Picard 1976). The
value 1 is the side of the source, so a minimum cut maximises. Flows are sent along shortest
augmenting paths, all of one length at once (Dinic 1970). Any flow f with f_ij <= w_ij proves a
bound, because w_ij where x_i = 1 and x_j = 0 is at least f_ij (x_i - x_j):

    maximum  <=  sum over v of max(u_v(0), u_v(1) + flow into v - flow out of v)

so nothing depends on the rounding of the paths.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit

SLACK = 1e-14  # of the sum of all absolute numbers in a bound


class CutNetwork(NamedTuple):
    """Edges between binary variables. Edge e is arc 2e forwards and arc 2e + 1 backwards."""

    starts: Integers  # (n + 1,) where the arcs that leave each variable begin
    arcs: Integers  # (2E,) their numbers
    heads: Integers  # (2E,) the variable that each arc leads to
    capacities: Floats  # (2E,) what an edge costs; 0 backwards


class CutRoom(NamedTuple):
    """Working memory for one row."""

    residual: Floats  # (2E,)
    source: Floats  # (n,) what may still flow into each variable
    sink: Floats  # (n,) what may still flow out
    level: Integers  # (n,) arcs from the source's side, -1 beyond reach
    following: Integers  # (n,) the next arc to try
    queue: Integers  # (n,)
    path: Integers  # (n,) arcs from the first variable of a path


@njit(inner=True, nogil=True)
def _levels(network, room):
    """Levels by breadth-first search; whether anything can still flow."""
    n, head, tail, nearest = len(room.level), 0, 0, -1
    for v in range(n):
        room.level[v] = -1
        if room.source[v] > 0.0:
            room.level[v] = 0
            room.queue[tail] = v
            tail += 1
    while head < tail:
        v = room.queue[head]
        head += 1
        if nearest >= 0 and room.level[v] >= nearest:
            break
        if room.sink[v] > 0.0:
            nearest = room.level[v]
            continue
        for place in range(network.starts[v], network.starts[v + 1]):
            arc = network.arcs[place]
            w = network.heads[arc]
            if room.residual[arc] > 0.0 and room.level[w] < 0:
                room.level[w] = room.level[v] + 1
                if room.sink[w] > 0.0 and nearest < 0:
                    nearest = room.level[w]
                room.queue[tail] = w
                tail += 1
    return nearest >= 0


@njit(inner=True, nogil=True)
def _push(network, room, first, length):
    """Send what fits along the path; returns the depth to go on from, -1 if it has no limit."""
    last = first if length == 0 else network.heads[room.path[length - 1]]
    amount = min(room.source[first], room.sink[last])
    for i in range(length):
        amount = min(amount, room.residual[room.path[i]])
    if amount == np.inf:
        return -1
    room.source[first] -= amount
    room.sink[last] -= amount
    depth = length
    for i in range(length - 1, -1, -1):
        arc = room.path[i]
        room.residual[arc] -= amount
        room.residual[arc ^ 1] += amount
        if room.residual[arc] == 0.0:
            depth = i
    return 0 if room.source[first] == 0.0 else depth


@njit(inner=True, nogil=True)
def _block(network, room):
    """Flow along shortest paths until none is left; whether the flow has a limit."""
    for v in range(len(room.level)):
        room.following[v] = network.starts[v]
    for first in range(len(room.level)):
        if room.source[first] == 0.0:
            continue
        v, depth = first, 0
        while True:
            if room.sink[v] > 0.0:
                depth = _push(network, room, first, depth)
                if depth < 0:
                    return False
                if room.source[first] == 0.0:
                    break
                v = first if depth == 0 else network.heads[room.path[depth - 1]]
            elif room.following[v] < network.starts[v + 1]:
                arc = network.arcs[room.following[v]]
                w = network.heads[arc]
                if room.residual[arc] > 0.0 and room.level[w] == room.level[v] + 1:
                    room.path[depth] = arc
                    depth += 1
                    v = w
                else:
                    room.following[v] += 1
            elif depth == 0:
                break
            else:
                depth -= 1
                v = network.heads[room.path[depth] ^ 1]
                room.following[v] += 1
    return True


@njit(inner=True, nogil=True)
def _bound(network, room, scores):
    """The bound that the flow proves; `source` becomes what flows into each variable."""
    inflow = room.source
    inflow[:] = 0.0
    for edge in range(len(network.heads) // 2):
        arc = 2 * edge
        flow = min(room.residual[arc + 1], network.capacities[arc])
        inflow[network.heads[arc]] += flow
        inflow[network.heads[arc + 1]] -= flow
    bound, size = 0.0, 0.0
    for v in range(len(inflow)):
        value = max(scores[v, 0], scores[v, 1] + inflow[v])
        bound += value
        size += abs(value) + abs(inflow[v])
    return bound + SLACK * size


@njit(inner=True, nogil=True)
def _cut(network, room, scores, ones):
    """One row: its values and its bound, -inf where no values are allowed."""
    for v in range(len(ones)):
        if scores[v, 0] == -np.inf and scores[v, 1] == -np.inf:
            return -np.inf
        gain = scores[v, 1] - scores[v, 0]
        room.source[v] = max(gain, 0.0)
        room.sink[v] = max(-gain, 0.0)
    room.residual[:] = network.capacities
    while _levels(network, room):
        if not _block(network, room):
            return -np.inf
    for v in range(len(ones)):
        ones[v] = room.level[v] >= 0
    return _bound(network, room, scores)


@njit(nogil=True)
def cut_rows(network, scores, ones, bounds):
    """The best values of each row (B, n) and a bound, which is -inf where a row has no answer.

    `scores` (B, n, 2) are finite or -inf.
    """
    n, arcs = ones.shape[1], len(network.heads)
    room = CutRoom(
        np.zeros(arcs),
        np.zeros(n),
        np.zeros(n),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )
    for row in range(len(ones)):
        bounds[row] = _cut(network, room, scores[row], ones[row])
