"""The lists of all components, merged to two, and the best sums of the two (see `columns`)."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.columns import (
    BLOCK,
    H,
    T,
    combine,
    move,
    reaches,
    sort_list,
    sort_rows,
    thinned,
)

NOTHING, NO_ROOM = -2, -1  # instead of how many lists there are
THINNED = 64  # times the rank: lists from this length on are thinned


@njit(cache=True, nogil=True)
def _highest(points, low, high, best, c, total):
    """best[c]: the highest of each column of a list; `total`, the sum of all, follows."""
    for r in range(len(total)):
        total[r] -= best[c, r]
        best[c, r] = points[low, r]
    for i in range(low + 1, high):
        for r in range(len(total)):
            best[c, r] = points[i, r] if points[i, r] > best[c, r] else best[c, r]
    for r in range(len(total)):
        total[r] += best[c, r]


@njit(cache=True, nogil=True)
def _shortest_last(lists, active, best):
    """Bring the two shortest lists to the end."""
    for place in (active - 1, active - 2):
        shortest = place
        for c in range(place):
            if lists[1, c] - lists[0, c] < lists[1, shortest] - lists[0, shortest]:
                shortest = c
        for side in range(2):
            own = lists[side, place]
            lists[side, place] = lists[side, shortest]
            lists[side, shortest] = own
        for r in range(best.shape[1]):
            held = best[place, r]
            best[place, r] = best[shortest, r]
            best[shortest, r] = held


@njit(cache=True, nogil=True)
def _pruned(active, need, best, total, work):
    """Drop from every list what no sum of the other lists' highest lifts to the need.

    False if nothing is left of a list.
    """
    points, node, lists = work[0], work[1], work[4]
    own = np.empty(len(need))
    for c in range(active):
        _highest(points, lists[0, c], lists[1, c], best, c, total)
    for c in range(active):
        for r in range(len(need)):
            own[r] = need[r] - (total[r] - best[c, r])
        kept = lists[0, c]
        for i in range(lists[0, c], lists[1, c]):
            if reaches(points, i, own):
                move(points, node, i, kept)
                kept += 1
        if kept == lists[0, c]:
            return False
        if kept < lists[1, c]:
            lists[1, c] = kept
            _highest(points, lists[0, c], kept, best, c, total)
    return True


@njit(inner=True, nogil=True)
def merged(active, need, rank, work):
    """Merge the lists to two at most: how many there are; NOTHING or NO_ROOM.

    A `rank` of 0: nothing is left out of long lists.
    """
    points, node, sizes, lists, scratch = work[0], work[1], work[3], work[4], work[5]
    best, total, own = np.zeros((max(1, active), len(need))), np.zeros(len(need)), need.copy()
    if not _pruned(active, need, best, total, work):
        return NOTHING
    while active > 2:
        _shortest_last(lists, active, best)
        a, b = active - 1, active - 2
        for r in range(len(need)):
            own[r] = need[r] - (total[r] - best[a, r] - best[b, r])
        top = sizes[0]
        if not combine(
            points, node, work[2], sizes, (lists[0, a], lists[1, a]), (lists[0, b], lists[1, b]),
            own, scratch,
        ):  # fmt: skip
            return NO_ROOM
        if sizes[0] == top:
            return NOTHING
        if 0 < THINNED * rank < sizes[0] - top:
            sizes[0] = thinned(points, node, top, sizes[0], rank, scratch)
        lists[0, b], lists[1, b] = top, sizes[0]
        for r in range(len(need)):
            total[r] -= best[a, r]
        _highest(points, top, sizes[0], best, b, total)
        active -= 1
    return active


@njit(cache=True, nogil=True)
def _cut(found, count, rank, work):
    """Keep the `rank` highest of the answers so far, in order: how many."""
    h, both = found
    keys, order, spare = work[5][0], work[5][1], work[5][2]
    keys[:count] = h[:count]
    sort_rows(keys, order, spare, count)
    kept = min(count, rank)
    own = both[:count].copy()
    for i in range(kept):
        h[i] = keys[order[i]]
        both[i, 0], both[i, 1] = own[order[i], 0], own[order[i], 1]
    return kept


@njit(inner=True, nogil=True)
def joined(need, constraints, rank, work):
    """The best `rank` sums of lists 0 and 1 that reach the need, in order: how many.

    Both are in the order of falling -t_1, so that what fits beside a state of list 0 begins
    list 1; `peak` is the highest h of each such beginning.
    """
    points, node, lists, found = work[0], work[1], work[4], (work[6], work[7])
    found_h, found_both = found
    low, high = lists[0, 1], lists[1, 1]
    for c in range(2):
        if lists[1, c] - lists[0, c] > 1:
            sort_list(points, node, lists[0, c], lists[1, c], T, work[5])
    peak, block_peak = np.empty(high - low + 1), np.full((high - low) // BLOCK + 1, -np.inf)
    peak[0] = -np.inf
    for other in range(high - low):
        own = points[low + other, H]
        peak[other + 1] = max(peak[other], own)
        block_peak[other // BLOCK] = max(block_peak[other // BLOCK], own)
    count, fits, least = 0, 0, need[H]
    for i in range(lists[1, 0] - 1, lists[0, 0] - 1, -1):
        while fits < high - low and points[i, T] + points[low + fits, T] >= need[T]:
            fits += 1
        if points[i, H] + peak[fits] < least:
            continue
        for block in range((fits + BLOCK - 1) // BLOCK):
            if points[i, H] + block_peak[block] < least:
                continue
            for other in range(low + block * BLOCK, low + min((block + 1) * BLOCK, fits)):
                is_good = points[i, H] + points[other, H] >= least
                for j in range(1, constraints):
                    is_good &= points[i, T + j] + points[other, T + j] >= need[T + j]
                if not is_good:
                    continue
                if count == len(found_h):
                    count = _cut(found, count, rank, work)
                    least = max(least, found_h[count - 1])
                found_h[count] = points[i, H] + points[other, H]
                found_both[count, 0], found_both[count, 1] = node[i], node[other]
                count += 1
    return _cut(found, count, rank, work)
