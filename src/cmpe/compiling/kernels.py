"""`copy`, `sort`, `maximum`, `numbers`: small loops that numpy has too.

Numba compiles numpy's for every kernel, and more than a loop needs: `target[:] = source` brings a
message about shapes with its own strings (3 s for a first answer), `np.sort` a quicksort (1.3 s).
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit


@njit(inner=True, nogil=True)
def copy(source, target):
    """Make the numbers of `target` (N,) those at the beginning of `source`."""
    for i in range(len(target)):
        target[i] = source[i]


@njit(inner=True, nogil=True)
def sort(values):
    """Put numbers (N,) into ascending order, in place (Shell's method)."""
    gap = 1
    while gap < len(values) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(values)):
            own, j = values[i], i
            while j >= gap and values[j - gap] > own:
                values[j] = values[j - gap]
                j -= gap
            values[j] = own
        gap //= 3


@njit(inner=True, nogil=True)
def maximum(values):
    """The largest of some numbers (N,), N > 0."""
    found = values[0]
    for i in range(1, len(values)):
        found = max(found, values[i])
    return found


@njit(inner=True, nogil=True)
def numbers(count):
    """0, 1, ..., count - 1."""
    found = np.empty(count, dtype=np.int64)
    for i in range(count):
        found[i] = i
    return found


@njit(inner=True, nogil=True)
def replace_highest(heap, size, own):
    """A lower number takes the place of the first, highest one of a heap."""
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= own:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = own
