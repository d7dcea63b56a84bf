"""Assignments read back from nodes, and the values of functions there, many at a time.

A node is made of two others that come before it, or is -1 - value and -1 - bucket. Small nodes are
written out first, as *runs* of buckets and values side by side: of a walk from a root down to every
leaf, most is then a copy.
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit

LANES = 64  # points that are read together
RUN = 32  # leaves of a node that is written out


@njit(cache=True, nogil=True)
def _written_out(nodes):
    """The runs of small nodes: where each begins (N + 1,), and all leaves (., 2).

    A node without a run has more than RUN leaves.
    """
    count = len(nodes)
    size = np.ones(count, dtype=np.int64)
    starts = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        if nodes[i, 1] >= 0:
            size[i] = min(RUN + 1, size[nodes[i, 0]] + size[nodes[i, 1]])
        starts[i + 1] = starts[i] + (size[i] if size[i] <= RUN else 0)
    leaves = np.empty((starts[count], 2), dtype=np.int32)
    for i in range(count):
        place = starts[i]
        if nodes[i, 1] < 0:
            leaves[place, 0], leaves[place, 1] = -1 - nodes[i, 1], -1 - nodes[i, 0]
        elif size[i] <= RUN:
            for part in nodes[i]:
                for leaf in range(starts[part], starts[part + 1]):
                    leaves[place, 0], leaves[place, 1] = leaves[leaf, 0], leaves[leaf, 1]
                    place += 1
    return starts, leaves


@njit(inner=True, nogil=True)
def read(nodes, runs, root, stack, block, lane):
    """What a node decides, into column `lane` of `block` (buckets, LANES).

    `runs` may be empty: then every leaf is walked to.
    """
    starts, leaves = runs
    depth = 0
    if root >= 0:
        stack[0] = root
        depth = 1
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if nodes[here, 1] < 0:
            block[-1 - nodes[here, 1], lane] = -1 - nodes[here, 0]
        elif len(starts) > 0 and starts[here + 1] > starts[here]:
            for leaf in range(starts[here], starts[here + 1]):
                block[leaves[leaf, 0], lane] = leaves[leaf, 1]
        else:
            stack[depth], stack[depth + 1] = nodes[here, 0], nodes[here, 1]
            depth += 2


@njit(inner=True, nogil=True)
def given_tables(begun, variables, varying, tables):
    """What evidence leaves of every table: its first entry, and the slots of what varies.

    `varying` are the buckets whose variables do; the others are as in `begun`.

    Returns (first (F,), starts (F + 1,), bucket and stride of each slot (S, 2)).
    """
    _, offsets, starts, scopes, strides, _ = tables
    bucket = np.full(len(begun), -1, dtype=np.int64)
    for k in varying:
        bucket[variables[k]] = k
    first, own = np.empty(len(offsets) - 1, dtype=np.int64), np.zeros_like(offsets)
    slots = np.empty((len(scopes), 2), dtype=np.int64)
    count = 0
    for f in range(len(first)):
        first[f] = offsets[f]
        for s in range(starts[f], starts[f + 1]):
            k = bucket[scopes[s]]
            if k < 0:
                first[f] += strides[s] * begun[scopes[s]]
            else:
                slots[count, 0], slots[count, 1] = k, strides[s]
                count += 1
        own[f + 1] = count
    return first, own, slots


@njit(cache=True, nogil=True)
def _add_up(values, first, starts, slots, low, high, block, index, total, lanes):
    """The sum of tables low..high, in that order, for every lane."""
    for lane in range(lanes):
        total[lane] = 0.0
    for f in range(low, high):
        if starts[f] == starts[f + 1]:
            own = values[first[f]]
            for lane in range(lanes):
                total[lane] += own
            continue
        start = np.uint32(first[f])
        for lane in range(lanes):
            index[lane] = start
        for s in range(starts[f], starts[f + 1]):
            k, stride = slots[s, 0], np.uint32(slots[s, 1])
            for lane in range(lanes):
                index[lane] += stride * np.uint32(block[k, lane])
        for lane in range(lanes):
            total[lane] += values[index[lane]]


@njit(inner=True, nogil=True)
def reading_room(buckets):
    """What points are read with: values by bucket and lane, indices, sums, a stack."""
    return (
        np.zeros((buckets, LANES), dtype=np.uint16),
        np.zeros(LANES, dtype=np.uint32),
        np.zeros(LANES),
        np.zeros(2 * buckets + 2, dtype=np.int64),
    )


@njit(inner=True, nogil=True)
def write_rows(block, variables, varying, begun, rows, low, lanes):
    """The assignments of the first `lanes` lanes, from row `low` on."""
    for lane in range(lanes):
        for v in range(len(begun)):
            rows[low + lane, v] = begun[v]
        for k in varying:
            rows[low + lane, variables[k]] = block[k, lane]


@njit(inner=True, nogil=True)
def write_values(tables, given, room, out, low, lanes):
    """The functions of the first `lanes` lanes, from row `low` of `out` on."""
    values, bounds = tables[0], tables[5]
    first, starts, slots = given
    block, index, total, _ = room
    width = (lanes + 7) // 8 * 8  # whole vectors
    for j in range(len(bounds) - 1):
        _add_up(values, first, starts, slots, bounds[j], bounds[j + 1], block, index, total, width)
        for lane in range(lanes):
            out[low + lane, j] = total[lane]


@njit(cache=True, nogil=True)
def recall(nodes, roots, variables, begun, tables, rows, out):
    """The assignments that `roots` stand for, into `rows`, and the functions' values, into `out`.

    `variables` has the variable of each bucket; what has none is as in `begun` (n,). `tables` are
    values, offsets, starts, variables and strides (`FlatTables`), and where each function begins
    (F + 1,). rows (P, n) and out (P, F) may have no rows: then they are not asked for.
    """
    runs, varying = _written_out(nodes), np.arange(len(variables))
    given = given_tables(begun, variables, varying, tables)
    room = reading_room(len(variables))
    block, stack = room[0], room[3]
    for low in range(0, len(roots), LANES):
        lanes = min(LANES, len(roots) - low)
        for lane in range(lanes):
            read(nodes, runs, roots[low + lane], stack, block, lane)
        if len(rows) > 0:
            write_rows(block, variables, varying, begun, rows, low, lanes)
        if len(out) > 0:
            write_values(tables, given, room, out, low, lanes)
