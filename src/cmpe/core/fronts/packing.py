"""The answers of one row, packed: what they share, and the variables in which they differ."""

from __future__ import annotations

import numpy as np

from cmpe.core.buckets import VARIABLE
from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.reading import given_tables, padded, write_values
from cmpe.core.states import read

SHARED = 65535  # no value: a variable that no node decides (`points.MOST_VALUES`)


@njit(cache=True, nogil=True)
def _each_once(nodes, both, side, count, number, stack, own):
    """Write each node of one side of the answers into a column of `own`: how many there are.

    `number` receives the column of every answer.
    """
    seen, columns = np.empty(count, dtype=np.int64), 0
    for i in range(count):
        column = 0
        while column < columns and seen[column] != both[i, side]:
            column += 1
        if column == columns:
            seen[column] = both[i, side]
            columns += 1
            read(nodes, both[i, side], stack, own, column)
        number[i] = column
    return columns


@njit(inner=True, nogil=True)
def recalled(plan, sums, count, order, room, choice, lane, tables, begun, out, values):
    """The first `count` answers and their values: how many variables differ.

    What all of them share goes into `begun`; `out` receives the variables that differ, in order,
    and their values, a row for each. An answer is of two nodes, that decide different buckets; few
    of these are distinct.
    """
    which, stored = out
    block, number, stack, index, total = room
    if count == 0:
        return 0
    buckets, columns = plan.buckets, padded(count)
    size = len(buckets) * columns
    own = block[: 2 * size].reshape((2, len(buckets), columns))
    for i in range(sums[8][0]):
        read(sums[2], sums[8][1 + i], stack, choice, lane)
    for k in range(len(buckets)):
        begun[buckets[k, VARIABLE]] = choice[k, lane]
        own[0, k, 0] = own[1, k, 0] = SHARED
    distinct = np.empty(2, dtype=np.int64)
    for side in range(2):
        distinct[side] = _each_once(sums[2], sums[7], side, count, number[side], stack, own[side])
    differ = 0
    for k in order:
        side = 0 if own[0, k, 0] != SHARED else 1
        first, is_same = own[side, k, 0], True
        if first == SHARED:
            continue
        for i in range(1, distinct[side]):
            is_same &= own[side, k, i] == first
        if is_same:
            begun[buckets[k, VARIABLE]] = first
            continue
        which[differ] = buckets[k, VARIABLE]
        for i in range(columns):
            stored[differ * columns + i] = own[side, k, number[side, i]] if i < count else 0
        differ += 1
    packed = stored[: max(1, differ) * columns].reshape((max(1, differ), columns))
    given = given_tables(begun, which[:differ], tables)
    write_values(tables, given, (packed, index, total), values, 0, count)
    return differ
