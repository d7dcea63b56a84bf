"""The lists of all components, merged to two, and the best sums of the two (see `columns`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.columns import (
    BLOCK,
    ColumnRoom,
    H,
    T,
    combine,
    reaches,
    sort_list,
    sort_rows,
    thinned,
)
from cmpe.core.fronts.settings import RANKS
from cmpe.core.states import LEFT, RIGHT, STATE_COUNT, States, copy_state, shortest_last

NOTHING, NO_ROOM = -2, -1  # instead of how many lists there are


class ColumnSums(NamedTuple):
    """The lists of all components as columns, and the answers that their sums give."""

    states: States  # nodes and counts are those of the lists they are copied from
    lows: Integers  # (components + 1,) the list of each component: first state
    highs: Integers  # and end
    order: Integers  # (components + 1,) numbers of lists
    scratch: ColumnRoom
    h: Floats  # (A,) the answers so far
    both: Integers  # (A, 2) and their two nodes
    shared: Integers  # (components + 1,) nodes that all answers have; -1: none


@njit(cache=True, nogil=True, counted=False)
def _highest(values, low, high, best, total):
    """The highest of each column of a list becomes `best`; `total`, the sum of all, follows."""
    for r in range(len(total)):
        total[r] -= best[r]
        best[r] = values[low, r]
    for i in range(low + 1, high):
        for r in range(len(total)):
            best[r] = values[i, r] if values[i, r] > best[r] else best[r]
    for r in range(len(total)):
        total[r] += best[r]


@njit(cache=True, nogil=True)
def _pruned(active, need, best, total, sums):
    """Drop from every list what no sum of the other lists' highest lifts to the need.

    False if nothing is left of a list.
    """
    states, lows, highs = sums.states, sums.lows, sums.highs
    least = np.empty(len(need))
    for c in range(active):
        sums.order[c] = c
        _highest(states.values, lows[c], highs[c], best[c], total)
    for c in range(active):
        for r in range(len(need)):
            least[r] = need[r] - (total[r] - best[c, r])
        end = lows[c]
        for i in range(lows[c], highs[c]):
            if reaches(states.values, i, least):
                copy_state(states, i, end)
                end += 1
        if end == lows[c]:
            return False
        if end < highs[c]:
            highs[c] = end
            _highest(states.values, lows[c], end, best[c], total)
    return True


@njit(inner=True, nogil=True)
def merged(active, need, thins, sums):
    """Merge the lists to two at most: how many there are; NOTHING or NO_ROOM.

    `thins`: whether long lists are thinned.
    """
    states, lows, highs, order = sums.states, sums.lows, sums.highs, sums.order
    counts, longest = states.counts, RANKS.thinned * len(sums.scratch.heap)
    best, total = np.zeros((max(1, active), len(need))), np.zeros(len(need))
    least = need.copy()
    if not _pruned(active, need, best, total, sums):
        return NOTHING
    while active > 2:
        shortest_last(lows, highs, order, active)
        a, b = order[active - 1], order[active - 2]
        for r in range(len(need)):
            least[r] = need[r] - (total[r] - best[a, r] - best[b, r])
        top = counts[STATE_COUNT]
        if not combine(states, lows[a], highs[a], lows[b], highs[b], least, sums.scratch):
            return NO_ROOM
        if counts[STATE_COUNT] == top:
            return NOTHING
        if thins and counts[STATE_COUNT] - top > longest:
            counts[STATE_COUNT] = thinned(states, top, counts[STATE_COUNT], sums.scratch)
        lows[b], highs[b] = top, counts[STATE_COUNT]
        for r in range(len(need)):
            total[r] -= best[a, r]
        _highest(states.values, top, highs[b], best[b], total)
        active -= 1
    return active


@njit(cache=True, nogil=True)
def _cut(count, rank, sums):
    """Keep the `rank` highest of the answers so far, in order: how many."""
    keys, order = sums.scratch.keys, sums.scratch.order
    for i in range(count):
        keys[i] = sums.h[i]
    sort_rows(keys, order, sums.scratch.spare, count)
    end = min(count, rank)
    both = sums.both[:count].copy()
    for i in range(end):
        sums.h[i] = keys[order[i]]
        sums.both[i, LEFT], sums.both[i, RIGHT] = both[order[i], LEFT], both[order[i], RIGHT]
    return end


@njit(inner=True, nogil=True)
def joined(need, constraints, rank, sums):
    """The best `rank` sums of the first two lists in `order` that reach the need: how many.

    Both are in the order of falling -t_1, so that what fits beside a state of the first begins
    the second; `peak` is the highest h of each such beginning.
    """
    states, values, node = sums.states, sums.states.values, sums.states.node
    one, two = sums.order[0], sums.order[1]
    low, high = sums.lows[two], sums.highs[two]
    for c in (one, two):
        if sums.highs[c] - sums.lows[c] > 1:
            sort_list(states, sums.lows[c], sums.highs[c], T, sums.scratch)
    peak, block_peak = np.empty(high - low + 1), np.full((high - low) // BLOCK + 1, -np.inf)
    peak[0] = -np.inf
    for other in range(high - low):
        h = values[low + other, H]
        peak[other + 1] = max(peak[other], h)
        block_peak[other // BLOCK] = max(block_peak[other // BLOCK], h)
    count, fits, least = 0, 0, need[H]
    for i in range(sums.highs[one] - 1, sums.lows[one] - 1, -1):
        while fits < high - low and values[i, T] + values[low + fits, T] >= need[T]:
            fits += 1
        if values[i, H] + peak[fits] < least:
            continue
        for block in range((fits + BLOCK - 1) // BLOCK):
            if values[i, H] + block_peak[block] < least:
                continue
            for other in range(low + block * BLOCK, low + min((block + 1) * BLOCK, fits)):
                is_good = values[i, H] + values[other, H] >= least
                for j in range(1, constraints):
                    is_good &= values[i, T + j] + values[other, T + j] >= need[T + j]
                if not is_good:
                    continue
                if count == len(sums.h):
                    count = _cut(count, rank, sums)
                    least = max(least, sums.h[count - 1])
                sums.h[count] = values[i, H] + values[other, H]
                sums.both[count, LEFT], sums.both[count, RIGHT] = node[i], node[other]
                count += 1
    return _cut(count, rank, sums)
