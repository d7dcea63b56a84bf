"""Which points stay: those that no other dominates, one of each that the tolerances make equal."""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.tradeoffs.kernels.columns import falling


@njit(cache=True, nogil=True)
def one_of_equal(h, t, close_h, close_t):
    """The numbers of the points that stay, by rising t and h.

    Values no farther apart than close_h and close_t, times themselves or 1, count as equal; a t of
    -inf is equal to itself only.
    """
    kept, count, highest = np.empty(len(h), dtype=np.int64), 0, -np.inf
    for i in falling(-t):
        if count > 0 and h[i] <= highest:
            continue
        highest = h[i]
        if count > 0:
            last = kept[count - 1]
            if h[i] - h[last] <= close_h * max(1.0, abs(h[i])):
                continue
            if t[i] <= t[last] + (close_t * max(1.0, abs(t[i])) if t[i] > -np.inf else 0.0):
                count -= 1
        kept[count] = i
        count += 1
    return kept[:count]
