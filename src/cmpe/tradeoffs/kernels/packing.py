"""The answers of one row, packed: what they share, and the variables in which they differ."""

from __future__ import annotations

from cmpe.compiling.functions import njit
from cmpe.elimination.kernels import VARIABLE
from cmpe.solvers.exact.kernels.states import read
from cmpe.tradeoffs.kernels.reading import given_tables, padded, write_values

SHARED = 65535  # no value: a variable that no node decides (`points.MOST_VALUES`)


@njit(inner=True, nogil=True)
def recalled(plan, sums, count, order, room, choice, lane, tables, begun, out, values):
    """The first `count` answers and their values: how many variables differ.

    What all of them share goes into `begun`; `out` receives the variables that differ, in order,
    and their values, a row for each.
    """
    which, stored = out
    block, stack, index, total = room
    if count == 0:
        return 0
    buckets, columns = plan.buckets, padded(count)
    own = block[: len(buckets) * columns].reshape((len(buckets), columns))
    for i in range(sums[8][0]):
        read(sums[2], sums[8][1 + i], stack, choice, lane)
    for k in range(len(buckets)):
        begun[buckets[k, VARIABLE]] = choice[k, lane]
        own[k, 0] = SHARED
    for i in range(count):
        for side in range(2):
            read(sums[2], sums[7][i, side], stack, own, i)
    differ = 0
    for k in order:
        first, is_same = own[k, 0], True
        if first == SHARED:
            continue
        for i in range(1, count):
            is_same &= own[k, i] == first
        if is_same:
            begun[buckets[k, VARIABLE]] = first
            continue
        which[differ] = buckets[k, VARIABLE]
        for i in range(columns):
            stored[differ * columns + i] = own[k, i] if i < count else 0
        differ += 1
    packed = stored[: max(1, differ) * columns].reshape((max(1, differ), columns))
    given = given_tables(begun, which[:differ], tables)
    write_values(tables, given, (packed, index, total), values, 0, count)
    return differ
