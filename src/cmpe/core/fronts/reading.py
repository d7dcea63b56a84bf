"""Assignments read back from nodes, and the values of functions of many of them.

A node is made of two others that come before it, or is -1 - value and -1 - bucket. Small nodes are
written out first, as *runs* of buckets and values side by side: of a walk from a root down to every
leaf, most is then a copy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.states import LEFT, RIGHT

BUCKET, VALUE = range(2)  # columns of `NodeRuns.leaves`
ROW, STRIDE = range(2)  # columns of `TableSlots.slots`
RUN = 32  # leaves of a node that is written out


class NodeRuns(NamedTuple):
    """The buckets and values of small nodes, side by side."""

    starts: Integers  # (N + 1,) where the run of each node begins
    leaves: Integers  # (., 2) a bucket and its value


class TableSlots(NamedTuple):
    """What an assignment leaves of every table while some variables vary."""

    first: Integers  # (F,) the table's entry where what varies is 0
    starts: Integers  # (F + 1,) the slots of each table
    slots: Integers  # (S, 2) the row of a block that has the variable, and its stride


class Lookup(NamedTuple):
    """A block of values by row and lane, with room for the entries they lead to."""

    block: Any  # (rows, lanes)
    index: Any  # (lanes,)
    total: Floats  # (lanes,)


@njit(inner=True, nogil=True)
def written_out(nodes, component):
    """The runs of small nodes.

    A node without a run has more than RUN leaves, or its `component` is below 0.
    """
    count = len(nodes)
    size = np.ones(count, dtype=np.int64)
    starts = np.zeros(count + 1, dtype=np.int64)
    for i in range(count):
        if nodes[i, RIGHT] >= 0:
            both = size[nodes[i, LEFT]] + size[nodes[i, RIGHT]]
            size[i] = min(RUN + 1, both) if component[i] >= 0 else RUN + 1
        starts[i + 1] = starts[i] + (size[i] if size[i] <= RUN else 0)
    leaves = np.empty((starts[count], 2), dtype=np.int32)
    for i in range(count):
        place = starts[i]
        if nodes[i, RIGHT] < 0:
            leaves[place, BUCKET], leaves[place, VALUE] = -1 - nodes[i, RIGHT], -1 - nodes[i, LEFT]
        elif size[i] <= RUN:
            for part in nodes[i]:
                for leaf in range(starts[part], starts[part + 1]):
                    leaves[place, BUCKET] = leaves[leaf, BUCKET]
                    leaves[place, VALUE] = leaves[leaf, VALUE]
                    place += 1
    return NodeRuns(starts, leaves)


@njit(inner=True, nogil=True, counted=False)
def read_runs(nodes, runs, root, stack, block, lane):
    """What a node decides, into column `lane` of `block`; a leaf is a run of one."""
    starts, leaves = runs.starts, runs.leaves
    depth = 0
    if root >= 0:
        stack[0] = root
        depth = 1
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if starts[here + 1] > starts[here]:
            for leaf in range(starts[here], starts[here + 1]):
                block[leaves[leaf, BUCKET], lane] = leaves[leaf, VALUE]
        else:
            stack[depth], stack[depth + 1] = nodes[here, LEFT], nodes[here, RIGHT]
            depth += 2


@njit(inner=True, nogil=True)
def given_tables(begun, variables, tables):
    """What an assignment leaves of every table: its first entry, and the slots of what varies.

    Number i of `variables` varies, and row i of a block has its values; the others are as in
    `begun`.
    """
    offsets, starts, scopes, strides = (
        tables.offsets, tables.starts, tables.variables, tables.strides
    )  # fmt: skip
    row = np.full(len(begun), -1, dtype=np.int64)
    for i in range(len(variables)):
        row[variables[i]] = i
    first, ends = np.empty(len(offsets) - 1, dtype=np.int64), np.zeros_like(offsets)
    slots = np.empty((len(scopes), 2), dtype=np.int64)
    count = 0
    for f in range(len(first)):
        place = offsets[f]
        for s in range(starts[f], starts[f + 1]):
            i = row[scopes[s]]
            if i < 0:
                place += strides[s] * begun[scopes[s]]
            else:
                slots[count, ROW], slots[count, STRIDE] = i, strides[s]
                count += 1
        first[f] = place
        ends[f + 1] = count
    return TableSlots(first, ends, slots)


@njit(inner=True, nogil=True, counted=False)
def _add_constants(values, first, f, total, lanes):
    """Four tables that vary in no lane, one after another."""
    a, b, c, d = values[first[f]], values[first[f + 1]], values[first[f + 2]], values[first[f + 3]]
    for lane in range(lanes):
        total[lane] = (((total[lane] + a) + b) + c) + d


@njit(inner=True, nogil=True, counted=False)
def add_up(values, given, low, high, lookup, lanes):
    """The sum of tables low..high, in that order, for every lane."""
    first, starts, slots = given.first, given.starts, given.slots
    block, index, total = lookup.block, lookup.index, lookup.total
    for lane in range(lanes):
        total[lane] = 0.0
    f = low
    while f < high:
        if f + 4 <= high and starts[f] == starts[f + 4]:
            _add_constants(values, first, f, total, lanes)
            f += 4
            continue
        start, constant = np.uint32(first[f]), values[first[f]]
        s, end = starts[f], starts[f + 1]
        f += 1
        if s == end:
            for lane in range(lanes):
                total[lane] += constant
            continue
        for lane in range(lanes):
            index[lane] = start
        while s < end:
            k, stride = slots[s, ROW], np.uint32(slots[s, STRIDE])
            for lane in range(lanes):
                index[lane] += stride * np.uint32(block[k, lane])
            s += 1
        for lane in range(lanes):
            total[lane] += values[index[lane]]


@njit(inner=True, nogil=True, counted=False)
def padded(lanes):
    """Lanes up to whole vectors."""
    return (lanes + 7) // 8 * 8


@njit(inner=True, nogil=True, counted=False)
def write_values(tables, given, lookup, out, low, lanes):
    """The functions of the first `lanes` lanes, from row `low` of `out` on.

    The lanes of `lookup` are padded.
    """
    begins = tables.begins
    for j in range(len(begins) - 1):
        add_up(tables.values, given, begins[j], begins[j + 1], lookup, padded(lanes))
        for lane in range(lanes):
            out[low + lane, j] = lookup.total[lane]


@njit(cache=True, nogil=True)
def recall(nodes, roots, variables, begun, rows):
    """The assignments that `roots` stand for, into `rows` (P, n).

    `variables` has the variable of each bucket; what has none is as in `begun` (n,).
    """
    runs = written_out(nodes, np.zeros(len(nodes), dtype=np.int64))
    stack = np.zeros(2 * len(variables) + 2, dtype=np.int64)
    block = np.zeros((len(variables), 1), dtype=np.uint16)
    for i in range(len(roots)):
        read_runs(nodes, runs, roots[i], stack, block, 0)
        for v in range(len(begun)):
            rows[i, v] = begun[v]
        for k in range(len(variables)):
            rows[i, variables[k]] = block[k, 0]
