"""The answers of one row, packed: what they share, and the variables in which they differ."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers, Values
from cmpe.core.buckets import VARIABLE
from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.reading import Lookup, given_tables, padded, write_values
from cmpe.core.states import read

SHARED = 65535  # no value: a variable that no node decides (`points.MOST_VALUES`)


class PackedRow(NamedTuple):
    """What is stored of one row's answers."""

    begun: Values  # (n,) what all answers share
    which: Integers  # the variables that differ, in order
    stored: Any  # and their values, a row for each
    values: Floats  # (rank, 1 + m)


class Packing(NamedTuple):
    """What answers are packed with."""

    order: Integers  # (K,) the buckets by their variables
    block: Any  # (2 K padded(rank),) values that distinct nodes decide
    number: Integers  # (2, rank) which of the distinct nodes each answer has
    stack: Integers
    index: Any  # (padded(rank),)
    total: Floats  # (padded(rank),)


@njit(inner=True, nogil=True)
def make_packing(order, rank):
    """Room for `rank` answers."""
    return Packing(
        order,
        np.zeros(2 * len(order) * padded(rank), dtype=np.uint16),
        np.zeros((2, rank), dtype=np.int64),
        np.zeros(2 * len(order) + 2, dtype=np.int64),
        np.zeros(padded(rank), dtype=np.uint32),
        np.zeros(padded(rank)),
    )


@njit(cache=True, nogil=True)
def _each_once(sums, side, count, packing, out):
    """Write each node of one side of the answers into a column of `out`: how many there are.

    `number` receives the column of every answer.
    """
    seen, columns = np.empty(count, dtype=np.int64), 0
    for i in range(count):
        column, node = 0, sums.both[i, side]
        while column < columns and seen[column] != node:
            column += 1
        if column == columns:
            seen[column] = node
            columns += 1
            read(sums.states.nodes, node, packing.stack, out, column)
        packing.number[side, i] = column
    return columns


@njit(inner=True, nogil=True)
def pack(plan, sums, count, choice, lane, tables, packing, row):
    """Store the first `count` answers of a row and their values: how many variables differ.

    An answer is of two nodes, that decide different buckets; few of these are distinct.
    """
    if count == 0:
        return 0
    buckets, columns = plan.buckets, padded(count)
    size, number = len(buckets) * columns, packing.number
    decided = packing.block[: 2 * size].reshape((2, len(buckets), columns))
    for root in sums.shared:
        read(sums.states.nodes, root, packing.stack, choice, lane)
    for k in range(len(buckets)):
        row.begun[buckets[k, VARIABLE]] = choice[k, lane]
        decided[0, k, 0] = decided[1, k, 0] = SHARED
    distinct = np.empty(2, dtype=np.int64)
    for side in range(2):
        distinct[side] = _each_once(sums, side, count, packing, decided[side])
    differ = 0
    for k in packing.order:
        side = 0 if decided[0, k, 0] != SHARED else 1
        first, is_same = decided[side, k, 0], True
        if first == SHARED:
            continue
        for i in range(1, distinct[side]):
            is_same &= decided[side, k, i] == first
        if is_same:
            row.begun[buckets[k, VARIABLE]] = first
            continue
        row.which[differ] = buckets[k, VARIABLE]
        for i in range(columns):
            value = decided[side, k, number[side, i]] if i < count else 0
            row.stored[differ * columns + i] = value
        differ += 1
    packed = row.stored[: max(1, differ) * columns].reshape((max(1, differ), columns))
    given = given_tables(row.begun, row.which[:differ], tables)
    lookup = Lookup(packed, packing.index, packing.total)
    write_values(tables, given, lookup, row.values, 0, count)
    return differ
