"""Sums of the states of two lists that are near some reference.

At a reference, the *loss* of a state is how far it is below the best of its list, and a sum is near
where both losses together are within a *budget*. So per reference only states whose loss is within
it matter. They are few, and are put in bins by their loss. No sum is near of two bins whose numbers
add up to the number of bins or more. Bins are taken by rising sum: a state that dominates a sum
loses less than it at every reference, so that it is formed first. The *stairs*, the highest h below
each t so far, then show which sums are dominated.

With one constraint, the t of a sum decides which reference it is nearest: losses at two of them
differ by a constant and a multiple of t. So each reference has a strip of t (`_strips`), and no sum
is formed twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.lists import (
    H,
    ListSpan,
    Near,
    PointStates,
    T,
    add_sum,
    all_sums,
    projected,
    undominated_points,
)
from cmpe.core.fronts.settings import FRONTS
from cmpe.core.states import STATE_COUNT, SUM_COUNT, SUM_LIMIT

BLOCK = 16  # states of a list that are skipped together
# Places of `Merge.room`: where the sums begin, where they are thinned, the end of the space, and
# the number of sums formed so far, those that were not kept included.
START, THIN_AT, END, FORMED = range(4)
SETTLED = 2  # column of known points: whether the front is complete up to the t of the point before
STATE, STATE_H, STATE_T, STATE_LOSS = range(4)  # rows of `Side.states`


class Stairs(NamedTuple):
    """The highest h of a point below each step of t; no steps with several constraints."""

    highest: Floats
    bins: int
    lowest: float  # the t of step 0
    scale: float  # steps by t


class Side(NamedTuple):
    """One of two lists, and its states near a reference by bins of their loss."""

    span: ListSpan
    corners: Floats  # (blocks, 1 + m) the highest h and the lowest t_j of each block
    states: Floats  # (4, n) state, h, t_1 and loss, in the order of the list within a bin
    starts: Integers  # (bins + 1,) where each bin begins
    order: Integers  # (n,) the rest is scratch
    level: Integers
    loss: Floats


class Strip(NamedTuple):
    """The range of t in which sums are compared with one reference."""

    reference: int
    budget: float
    low: float
    high: float


class Merge(NamedTuple):
    """What sums of two lists are formed with."""

    states: PointStates
    near: Near
    one: Side
    two: Side
    stairs: Stairs
    hits: Integers
    room: Integers  # (4,) START ...


@njit(cache=True, nogil=True)
def _make_stairs(values, a, b, known, highest):
    """Steps of t over the sums of two sorted lists, below the `known` points (h, t), by falling h.

    `highest` is the space for them.
    """
    lowest = values[a.high - 1, T] + values[b.high - 1, T]
    most = values[a.low, T] + values[b.low, T]
    bins = min(len(highest) - 2, FRONTS.steps * (a.high - a.low + b.high - b.low + len(known)))
    if values.shape[1] > T + 1 or not most > lowest:
        highest[0] = -np.inf
        return Stairs(highest, 0, 0.0, 0.0)
    scale = 0.999 * bins / (most - lowest)
    place, best = 0, -np.inf
    for i in range(len(known) - 1, -1, -1):
        end = min(float(bins + 2), (known[i, T] - lowest) * scale + 1.0)
        while place < end:
            highest[place] = best
            place += 1
        best = known[i, H]
    highest[place : bins + 2] = best
    stairs = Stairs(highest, bins, lowest, scale)
    _settle(known, stairs)
    return stairs


@njit(cache=True, nogil=True, counted=False)
def _settle(known, stairs):
    """Refuse sums whose t lies where the front is complete: from known[i] to the t before it.

    Steps at the ends stay as they are: they may reach beyond.
    """
    lowest, scale, i = stairs.lowest, stairs.scale, len(known) - 1
    while i >= 0:
        first = max(0.0, (known[i, T] - lowest) * scale + 2.0)
        is_settled = False
        while i >= 0 and known[i, SETTLED] > 0.0:
            is_settled = True
            i -= 1
        if not is_settled:
            i -= 1
            continue
        last = float(stairs.bins + 2)
        if i >= 0:
            last = min(last, (known[i, T] - lowest) * scale - 1.0)
        for place in range(int(min(first, last)), int(last)):
            stairs.highest[place] = np.inf


@njit(cache=True, nogil=True)
def _make_side(values, span):
    """A list, with the highest h and the lowest t_j of each block of it."""
    size = span.high - span.low
    corners = np.empty(((size + BLOCK - 1) // BLOCK, values.shape[1]))
    for i in range(span.low, span.high):
        block = (i - span.low) // BLOCK
        is_first = (i - span.low) % BLOCK == 0
        for column in range(values.shape[1]):
            value, corner = values[i, column], corners[block, column]
            better = value > corner if column == H else value < corner
            corners[block, column] = value if is_first or better else corner
    return Side(
        span, corners, np.zeros((4, size)), np.zeros(FRONTS.levels + 1, np.int64),
        np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size),
    )  # fmt: skip


@njit(cache=True, nogil=True, counted=False)
def _best_of(values, side, near, k, hint):
    """The state that is best at reference k, and its value there; `hint` is a likely state."""
    highest, state = projected(values, hint, near, k), hint
    for block in range(len(side.corners)):
        if projected(side.corners, block, near, k) <= highest:
            continue
        first = side.span.low + block * BLOCK
        for i in range(first, min(first + BLOCK, side.span.high)):
            value = projected(values, i, near, k)
            if value > highest:
                highest, state = value, i
    return state, highest


@njit(cache=True, nogil=True, counted=False)
def _near_states(values, side, near, k, best, budget):
    """Put the states whose loss at reference k is within the budget in bins of their loss.

    `best` is the value of the best state of the list there.
    """
    states, starts, corners = side.states, side.starts, side.corners
    order, levels, losses = side.order, side.level, side.loss
    scale = (1.0 - 1e-9) * FRONTS.levels / max(budget, 1e-300)
    starts[:] = 0
    count = 0
    for block in range(len(corners)):
        if best - projected(corners, block, near, k) > budget:
            continue
        first = side.span.low + block * BLOCK
        for i in range(first, min(first + BLOCK, side.span.high)):
            loss = best - projected(values, i, near, k)
            if loss <= budget:
                level = int(loss * scale)
                order[count], levels[count], losses[count] = i, level, loss
                starts[level + 1] += 1
                count += 1
    for level in range(FRONTS.levels):
        starts[level + 1] += starts[level]
    for c in range(count - 1, -1, -1):
        i = order[c]
        place = starts[levels[c] + 1] - 1
        starts[levels[c] + 1] = place
        states[STATE, place], states[STATE_LOSS, place] = i, losses[c]
        states[STATE_H, place], states[STATE_T, place] = values[i, H], values[i, T]
    for level in range(FRONTS.levels):
        starts[level] = starts[level + 1]
    starts[FRONTS.levels] = count


@njit(cache=True, nogil=True)
def _strips(near):
    """The strips of t: (reference to compare its sums with, lowest t, highest t) of each.

    A sum is near where h >= need_k + mu_k t, for some k: for the k of which that line is lowest at
    its t. References come by rising mu, that of t alone last: near it is whatever has t <= -need.
    With several constraints there is no such order, and every sum is compared with every reference.
    """
    weights, prices, needs, active = near.weights, near.prices, near.needs, near.active
    which, lows, highs = np.arange(active), np.full(active, -np.inf), np.full(active, np.inf)
    if prices.shape[1] > 1:
        return which, lows, highs
    count = 0
    for k in range(active):
        high = np.inf
        while count > 0:
            last = which[count - 1]
            rise = prices[k, 0] - prices[last, 0]
            if weights[k] == 0.0:
                high = -needs[k] / prices[k, 0]
            elif rise > 0.0:
                high = (needs[last] - needs[k]) / rise
            else:
                high = np.inf if needs[k] < needs[last] else -np.inf
            if high < highs[count - 1]:
                break
            count -= 1
            high = np.inf
        if count > 0:
            lows[count - 1] = max(high, lows[count - 1])
        if high > -np.inf:
            which[count], lows[count], highs[count] = k, -np.inf, high
            count += 1
    return which[:count], lows[:count], highs[:count]


@njit(inner=True, nogil=True, counted=False)
def _is_new(values, state, near, k):
    """With several constraints: whether the sum is not near the reference before."""
    if near.prices.shape[1] == 1 or k == 0:
        return True
    return projected(values, state, near, k - 1) < near.needs[k - 1]


@njit(cache=True, nogil=True)
def _make_room(states, top, more, room):
    """Thin the sums where `more` might not fit: the new top, -1 on overflow."""
    start, hard = room[START], room[END]
    if top + more <= room[THIN_AT]:
        return top
    top = undominated_points(states, start, top)
    if top + more > hard - (hard - start) // 4:
        return -1
    room[THIN_AT] = min(hard, max(room[THIN_AT], start + 4 * (top + more - start)))
    return top


@njit(cache=True, nogil=True, counted=False)
def _seen_sums(right, first, last, h, t, within, stairs, hits):
    """The states of `right` whose sum with h and t is near and not dominated: how many.

    t is counted from the lowest step. Written without branches: they could not be predicted.
    """
    highest, scale, count = stairs.highest, stairs.scale, 0
    for y in range(first, last):
        stair = int((t + right[STATE_T, y]) * scale)
        is_good = (right[STATE_LOSS, y] <= within) & (highest[stair] < h + right[STATE_H, y])
        hits[count] = y
        count += 1 if is_good else 0
    return count


@njit(cache=True, nogil=True)
def _add_bins(merge, top, level, strip):
    """Sums of a bin of one list and one of the other whose numbers add up to `level`: the new top.

    -1 on overflow; counts the sums formed.
    """
    states, near, stairs, room, hits = (
        merge.states, merge.near, merge.stairs, merge.room, merge.hits
    )  # fmt: skip
    left, left_starts = merge.one.states, merge.one.starts
    right, right_starts = merge.two.states, merge.two.starts
    highest, bins, lowest, scale = stairs.highest, stairs.bins, stairs.lowest, stairs.scale
    budget, low, high = strip.budget, strip.low, strip.high
    for part in range(level + 1):
        first, last = right_starts[level - part], right_starts[level - part + 1]
        end, after = first, left_starts[part + 1]
        for x in range(after - 1, (left_starts[part] if last > first else after) - 1, -1):
            h, t = left[STATE_H, x], left[STATE_T, x]
            while first < last and right[STATE_T, first] > high - t:
                first += 1
            end = max(first, end)
            while end < last and right[STATE_T, end] >= low - t:
                end += 1
            top = _make_room(states, top, end - first, room)
            if top < 0:
                return -1
            room[FORMED] += end - first
            within = budget - left[STATE_LOSS, x]
            count = _seen_sums(right, first, end, h, t - lowest, within, stairs, hits)
            for c in range(count):
                y = hits[c]
                value = h + right[STATE_H, y]
                stair = int((t - lowest + right[STATE_T, y]) * scale)
                if highest[stair] >= value:
                    continue
                add_sum(states, top, int(left[STATE, x]), int(right[STATE, y]))
                if not _is_new(states.values, top, near, strip.reference):
                    continue
                top += 1
                stair += 1
                while stair <= bins and highest[stair] < value:
                    highest[stair] = value
                    stair += 1
    return top


@njit(inner=True, nogil=True)
def combine(states, a, b, near, known, highest):
    """Sums of a state of list a and one of list b that are near some reference, on top.

    `known` are points (h, t, settled) by falling h. A sum is left out if one of them dominates it,
    or if its t lies between that of a settled point and that of the point before. `highest` is
    scratch. Sums that fill the space are thinned; False on overflow.
    """
    values, counts = states.values, states.counts
    if (a.high - a.low) * (b.high - b.low) <= FRONTS.few:
        return all_sums(states, a, b, near)
    top, hard = counts[STATE_COUNT], len(values) - 2
    room = np.array([top, min(hard, top + FRONTS.thinned), hard, 0])
    stairs = _make_stairs(values, a, b, known, highest)
    one, two = _make_side(values, a), _make_side(values, b)
    hits, i, j = np.empty(b.high - b.low, dtype=np.int64), a.low, b.low
    merge = Merge(states, near, one, two, stairs, hits, room)
    which, lows, highs = _strips(near)
    for s in range(len(which)):
        k = which[s]
        i, best = _best_of(values, one, near, k, i)
        j, other = _best_of(values, two, near, k, j)
        budget = best + other - near.needs[k]
        if not budget >= 0.0 or counts[SUM_COUNT] + room[FORMED] > counts[SUM_LIMIT]:
            continue
        _near_states(values, one, near, k, best, budget)
        _near_states(values, two, near, k, other, budget)
        strip, begin = Strip(k, budget, lows[s], highs[s]), top
        for level in range(FRONTS.levels):
            top = _add_bins(merge, top, level, strip)
            if top < 0:
                return False
        if begin < top and near.prices.shape[1] == 1:  # strips are in order: nearly sorted
            top = undominated_points(states, begin, top)
    counts[STATE_COUNT] = top
    counts[SUM_COUNT] += room[FORMED]
    return counts[SUM_COUNT] <= counts[SUM_LIMIT]
