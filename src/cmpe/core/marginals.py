"""Compiled max-marginals of a relaxation: the best total with each value of each copy."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.copies import AXIS_COUNT, CARD, INDEX, INPUTS, MESSAGE, SIZE


@njit(cache=True, nogil=True)
def max_marginals(relaxed, values, total, starts, outside, marginal):
    """Downward pass after a sweep that left `values` and returned `total`.

    `outside` (messages,) receives the best total that contains each message entry. Bucket k's
    max-marginals go to `marginal` from `starts[k]` on.
    """
    buckets, places, numbers = relaxed.buckets, relaxed.places, relaxed.numbers
    outside[:] = -np.inf
    marginal[:] = -np.inf
    for k in range(len(buckets) - 1, -1, -1):
        card, count, message = buckets[k, CARD], buckets[k, INPUTS], buckets[k, MESSAGE]
        at, start = buckets[k, INDEX], starts[k]
        if buckets[k, AXIS_COUNT] == 0:
            outside[message - numbers] = total
        for entry in range(message, message + buckets[k, SIZE]):
            if values[entry] == -np.inf:
                at += card * count
                continue
            rest = outside[entry - numbers] - values[entry]
            for a in range(card):
                value = rest
                for i in range(at, at + count):
                    value += values[places[i]]
                marginal[start + a] = max(marginal[start + a], value)
                for i in range(at, at + count):
                    child = np.int64(places[i]) - numbers
                    if child >= 0 and value > outside[child]:
                        outside[child] = value
                at += count
