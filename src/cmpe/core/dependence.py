"""Compiled loops over pairwise counts: mutual information, the heaviest tree, its tables."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit

ROUNDING = 1e-12  # share of the total below which a cell counts as 0: it is a difference


@njit(inner=True, nogil=True)
def cell(joint, starts, total, u, i, v, j):
    """How often z_u = i and z_v = j (u != v). Counts of value 0 are the total less the others."""
    if i > 0 and j > 0:
        return joint[starts[u] + i - 1, starts[v] + j - 1]
    if i > 0:
        left = joint[starts[u] + i - 1, starts[u] + i - 1]
        for b in range(starts[v], starts[v + 1]):
            left -= joint[starts[u] + i - 1, b]
    elif j > 0:
        left = joint[starts[v] + j - 1, starts[v] + j - 1]
        for a in range(starts[u], starts[u + 1]):
            left -= joint[a, starts[v] + j - 1]
    else:
        left = total
        for a in range(starts[u], starts[u + 1]):
            left -= joint[a, a]
        for b in range(starts[v], starts[v + 1]):
            left -= joint[b, b]
        for a in range(starts[u], starts[u + 1]):
            for b in range(starts[v], starts[v + 1]):
                left += joint[a, b]
    return left if left > ROUNDING * total else 0.0


@njit(inner=True, nogil=True)
def single(joint, starts, total, v, j):
    """How often z_v = j."""
    if j > 0:
        return joint[starts[v] + j - 1, starts[v] + j - 1]
    left = total
    for b in range(starts[v], starts[v + 1]):
        left -= joint[b, b]
    return left if left > ROUNDING * total else 0.0


@njit(inner=True, nogil=True)
def x_log_x(x):
    return x * np.log(x) if x > 0.0 else 0.0


@njit(cache=True, nogil=True)
def mutual_information(joint, starts, total, active, out):
    """I(u; v) in nats between all `active` variables: `out` (A, A), 0 on the diagonal.

    I = log T + (sum c_uv log c_uv - sum c_u log c_u - sum c_v log c_v) / T
    """
    count = len(active)
    alone = np.zeros(count)
    for a in range(count):
        v = active[a]
        for j in range(starts[v + 1] - starts[v] + 1):
            alone[a] += x_log_x(single(joint, starts, total, v, j))
    constant = np.log(total)
    for a in range(count):
        u = active[a]
        out[a, a] = 0.0
        for b in range(a):
            v = active[b]
            both = 0.0
            if starts[u + 1] - starts[u] == 1 and starts[v + 1] - starts[v] == 1:
                x, y = joint[starts[u], starts[u]], joint[starts[v], starts[v]]
                c = joint[starts[u], starts[v]]
                # Differences that are rounding only count as 0, which x_log_x makes of them.
                both = x_log_x(c) + x_log_x(x - c) + x_log_x(y - c) + x_log_x(total - x - y + c)
            else:
                for i in range(starts[u + 1] - starts[u] + 1):
                    for j in range(starts[v + 1] - starts[v] + 1):
                        both += x_log_x(cell(joint, starts, total, u, i, v, j))
            information = constant + (both - alone[a] - alone[b]) / total
            out[a, b] = information
            out[b, a] = information


@njit(cache=True, nogil=True)
def heaviest_tree(weights, parents):
    """The heaviest spanning tree of a complete graph, by Prim's algorithm from vertex 0.

    `parents` receives the parent of each vertex, -1 for vertex 0. Of equal edges the one whose
    vertex comes first is taken.
    """
    count = len(weights)
    best = np.full(count, -np.inf)
    inside = np.zeros(count, dtype=np.bool_)
    at = 0
    parents[0] = -1
    for _ in range(count):
        inside[at] = True
        following, largest = -1, -np.inf
        for v in range(count):
            if inside[v]:
                continue
            if weights[at, v] > best[v]:
                best[v] = weights[at, v]
                parents[v] = at
            if best[v] > largest:
                following, largest = v, best[v]
        at = following


@njit(cache=True, nogil=True)
def conditional_tables(joint, starts, total, parents, active, out):
    """log P(z_v = j | z_parent = i) for every active v: `out` (n, K, K).

    A root has i = 0 only. Where z_parent = i never occurs the distribution is uniform.
    """
    for v in active:
        size = starts[v + 1] - starts[v] + 1
        u = parents[v]
        for i in range(1 if u < 0 else starts[u + 1] - starts[u] + 1):
            whole = 0.0
            for j in range(size):
                if u < 0:
                    out[v, i, j] = single(joint, starts, total, v, j)
                else:
                    out[v, i, j] = cell(joint, starts, total, u, i, v, j)
                whole += out[v, i, j]
            for j in range(size):
                if whole == 0.0:
                    out[v, i, j] = -np.log(size)
                elif out[v, i, j] == 0.0:
                    out[v, i, j] = -np.inf
                else:
                    out[v, i, j] = np.log(out[v, i, j] / whole)
