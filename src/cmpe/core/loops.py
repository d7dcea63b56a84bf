"""`copy`, `sort`, `maximum`, `count_up`: small loops that numpy has too.

Numba compiles numpy's functions for every kernel, and they contain more than a loop needs:
`target[:] = source` brings a message about shapes (3 s of a first answer), `np.sort` a quicksort
(1.3 s).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit


@njit(inner=True, nogil=True, counted=False)
def copy(source: Any, target: Any) -> None:
    """Make the numbers of `target` (N,) those at the beginning of `source`."""
    for i in range(len(target)):
        target[i] = source[i]


@njit(inner=True, nogil=True)
def sort(values: Any) -> None:
    """Put numbers (N,) into ascending order, in place (Shell's method)."""
    gap = 1
    while gap < len(values) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(values)):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@njit(inner=True, nogil=True)
def maximum(values: Any) -> Any:
    """The largest of some numbers (N,), N > 0."""
    largest = values[0]
    for i in range(1, len(values)):
        largest = max(largest, values[i])
    return largest


@njit(inner=True, nogil=True)
def count_up(count: int) -> Integers:
    """0, 1, ..., count - 1."""
    numbers = np.empty(count, dtype=np.int64)
    for i in range(count):
        numbers[i] = i
    return numbers


@njit(inner=True, nogil=True)
def replace_highest(heap: Floats, size: int, value: float) -> None:
    """Replace the first, highest number of a heap by a lower one."""
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        if below + 1 < size and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= value:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = value
