"""Sums of the states of two lists that some reference calls near.

At a reference, what a state lacks of the best of its list is its *loss*, and a sum is near where
both losses together are within a *budget*. So per reference only states whose own loss is within it
matter: they are few, and are put in LEVELS bins by their loss. Of two bins whose numbers add up to
LEVELS or more no sum is near. Bins are taken by rising sum: what dominates a sum loses less than it
at every reference, so that it is there first, and dominated sums are seen at one look at the
*stairs*, the highest h below each t.

With one constraint, the t of a sum says which reference it is nearest: losses at two of them differ
by a constant and a multiple of t. So each reference has a strip of t (`_strips`), and no sum is
looked at twice.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.lists import H, T, add_sum, all_sums, kept_states, projected

BLOCK = 16  # states of a list that are passed over together
LEVELS = 8  # bins of losses within a budget
THINNED = 1 << 17  # sums from which on they are thinned while more are added
FEW = 2048  # sums up to which all are looked at
STEPS = 8  # of the stairs, for each state of the two lists


@njit(cache=True, nogil=True)
def _stairs(points, a, b, known, stairs):
    """Steps of t over the sums of two sorted lists: (how many, lowest t, per t).

    None with several constraints. stairs[i] is the highest h of `known` points (h, t), by falling
    h, below step i.
    """
    (a_low, a_high), (b_low, b_high) = a, b
    lowest = points[a_high - 1, T] + points[b_high - 1, T]
    highest = points[a_low, T] + points[b_low, T]
    bins = min(len(stairs) - 2, STEPS * (a_high - a_low + b_high - b_low + len(known)))
    if points.shape[1] > T + 1 or not highest > lowest:
        stairs[0] = -np.inf
        return 0, 0.0, 0.0
    scale = 0.999 * bins / (highest - lowest)
    place, best = 0, -np.inf
    for i in range(len(known) - 1, -1, -1):
        end = min(float(bins + 2), (known[i, 1] - lowest) * scale + 1.0)
        while place < end:
            stairs[place] = best
            place += 1
        best = known[i, 0]
    stairs[place : bins + 2] = best
    _settle(known, bins, lowest, scale, stairs)
    return bins, lowest, scale


@njit(cache=True, nogil=True)
def _settle(known, bins, lowest, scale, stairs):
    """Let no sum pass whose t is where nothing is missing: from known[i, 1] to the t before it.

    Steps at the ends stay as they are: they may reach beyond.
    """
    i = len(known) - 1
    while i >= 0:
        first = max(0.0, (known[i, 1] - lowest) * scale + 2.0)
        is_settled = False
        while i >= 0 and known[i, 2] > 0.0:
            is_settled = True
            i -= 1
        if not is_settled:
            i -= 1
            continue
        last = float(bins + 2)
        if i >= 0:
            last = min(last, (known[i, 1] - lowest) * scale - 1.0)
        for place in range(int(min(first, last)), int(last)):
            stairs[place] = np.inf


@njit(cache=True, nogil=True)
def _corners(points, ends):
    """The highest h and the lowest t_j of each block of a list (blocks, 1 + m)."""
    low, high = ends
    out = np.empty(((high - low + BLOCK - 1) // BLOCK, points.shape[1]))
    for i in range(low, high):
        block = (i - low) // BLOCK
        is_first = (i - low) % BLOCK == 0
        for column in range(points.shape[1]):
            own, held = points[i, column], out[block, column]
            better = own > held if column == H else own < held
            out[block, column] = own if is_first or better else held
    return out


@njit(cache=True, nogil=True)
def _best_of(points, ends, corners, weights, prices, k, hint):
    """The state that reference k likes best, perhaps like state `hint`, and its value."""
    highest, state = projected(points, hint, weights, prices, k), hint
    for block in range(len(corners)):
        if projected(corners, block, weights, prices, k) <= highest:
            continue
        first = ends[0] + block * BLOCK
        for i in range(first, min(first + BLOCK, ends[1])):
            value = projected(points, i, weights, prices, k)
            if value > highest:
                highest, state = value, i
    return state, highest


@njit(cache=True, nogil=True)
def _near_states(points, ends, corners, weights, prices, k, best, budget, side):
    """Put the states whose loss at reference k is within its budget in bins of their loss.

    `best` is that of the list. side[0] receives the state, its h, t_1 and its loss, in the order of
    the list within a bin; side[1] where each bin begins; side[2] is scratch.
    """
    found, starts, (states, bins, losses) = side
    scale = (1.0 - 1e-9) * LEVELS / max(budget, 1e-300)
    starts[:] = 0
    count = 0
    for block in range(len(corners)):
        if best - projected(corners, block, weights, prices, k) > budget:
            continue
        first = ends[0] + block * BLOCK
        for i in range(first, min(first + BLOCK, ends[1])):
            loss = best - projected(points, i, weights, prices, k)
            if loss <= budget:
                level = int(loss * scale)
                states[count], bins[count], losses[count] = i, level, loss
                starts[level + 1] += 1
                count += 1
    for level in range(LEVELS):
        starts[level + 1] += starts[level]
    for c in range(count - 1, -1, -1):
        i = states[c]
        place = starts[bins[c] + 1] - 1
        starts[bins[c] + 1] = place
        found[0, place], found[1, place], found[2, place] = i, points[i, H], points[i, T]
        found[3, place] = losses[c]
    for level in range(LEVELS):
        starts[level] = starts[level + 1]
    starts[LEVELS] = count


@njit(cache=True, nogil=True)
def _room_for(size):
    """What `_near_states` writes of a list of so many states."""
    scratch = (np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))
    return np.zeros((4, size)), np.zeros(LEVELS + 1, np.int64), scratch


@njit(cache=True, nogil=True)
def _strips(weights, prices, needs, active):
    """Which reference to ask about a sum of which t: (reference, lowest t, highest t) of each.

    One is near where h >= need_k + mu_k t, for some k: for the k of which that line is lowest at
    its t. References come by rising mu, that of t alone last: near it is whatever has t <= -need.
    With several constraints there is no such order, and every reference is asked about every sum.
    """
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


@njit(inner=True, nogil=True)
def _is_new(points, state, asked):
    """With several constraints: whether the reference before has not called a sum near."""
    weights, prices, needs, k = asked
    if prices.shape[1] == 1 or k == 0:
        return True
    return projected(points, state, weights, prices, k - 1) < needs[k - 1]


@njit(cache=True, nogil=True)
def _make_room(points, parts, top, more, space):
    """Thin the sums where `more` might not fit: the new top, -1 on overflow.

    `space` is where they begin, where they are thinned, and the end of the space.
    """
    start, limit, hard = space[0], space[1], space[2]
    if top + more <= limit:
        return top
    top = kept_states(points, parts, start, top)
    if top + more > hard - (hard - start) // 4:
        return -1
    space[1] = min(hard, max(limit, start + 4 * (top + more - start)))
    return top


@njit(cache=True, nogil=True)
def _seen_sums(right, first, last, h, t, within, stairs, scale, hits):
    """The states of `right` whose sum with one of h, t is near and not dominated: how many.

    Written without branches: which ones they are cannot be foreseen.
    """
    count = 0
    for y in range(first, last):
        stair = int((t + right[2, y]) * scale)
        is_good = (right[3, y] <= within) & (stairs[stair] < h + right[1, y])
        hits[count] = y
        count += 1 if is_good else 0
    return count


@njit(cache=True, nogil=True)
def _add_bins(points, node, parts, top, space, one, two, level, strip, asked, stairs, steps, hits):
    """Sums of a bin of one list and one of the other whose numbers add up to `level`: the new top.

    `strip` is the budget and the range of t, `asked` the reference (`_is_new`). -1 on overflow; the
    number of sums looked at is added to space[3].
    """
    (left, left_starts, _), (right, right_starts, _) = one, two
    bins, lowest, scale = steps
    budget, low, high = strip
    for own in range(level + 1):
        first, last = right_starts[level - own], right_starts[level - own + 1]
        end, after = first, left_starts[own + 1]
        for x in range(after - 1, (left_starts[own] if last > first else after) - 1, -1):
            t = left[2, x]
            while first < last and right[2, first] > high - t:
                first += 1
            end = max(first, end)
            while end < last and right[2, end] >= low - t:
                end += 1
            top = _make_room(points, parts, top, end - first, space)
            if top < 0:
                return -1
            space[3] += end - first
            count = _seen_sums(
                right, first, end, left[1, x], t - lowest, budget - left[3, x], stairs, scale, hits
            )
            for c in range(count):
                y = hits[c]
                value = left[1, x] + right[1, y]
                stair = int((t - lowest + right[2, y]) * scale)
                if stairs[stair] >= value:
                    continue
                add_sum(points, node, parts, top, int(left[0, x]), int(right[0, y]))
                if not _is_new(points, top, asked):
                    continue
                top += 1
                stair += 1
                while stair <= bins and stairs[stair] < value:
                    stairs[stair] = value
                    stair += 1
    return top


@njit(inner=True, nogil=True)
def combine(points, node, parts, sizes, a, b, weights, prices, needs, active, known, stairs):
    """Sums of a state of list a and one of list b that some reference calls near, on top.

    A sum stays where weight_k h - price_k . t >= needs_k for one of the first `active` references.
    `known` (h, t, ..), by falling h: what these dominate need not stay, nor what has a t from that
    of one up to that of the one before, where the third column says so. `stairs` is scratch. Sums
    that fill the space are thinned (`kept_states`); False on overflow. sizes[2] counts the sums
    that were looked at, of which sizes[3] are allowed.
    """
    if (a[1] - a[0]) * (b[1] - b[0]) <= FEW:
        return all_sums(points, node, parts, sizes, a, b, weights, prices, needs, active)
    top, hard = sizes[0], len(points) - 2
    space = np.array([top, min(hard, top + THINNED), hard, 0])
    steps = _stairs(points, a, b, known, stairs)
    corners = (_corners(points, a), _corners(points, b))
    one, two = _room_for(a[1] - a[0]), _room_for(b[1] - b[0])
    hits, i, j = np.empty(b[1] - b[0], dtype=np.int64), a[0], b[0]
    which, lows, highs = _strips(weights, prices, needs, active)
    for s in range(len(which)):
        k = which[s]
        i, best = _best_of(points, a, corners[0], weights, prices, k, i)
        j, other = _best_of(points, b, corners[1], weights, prices, k, j)
        budget = best + other - needs[k]
        if not budget >= 0.0 or sizes[2] + space[3] > sizes[3]:
            continue
        _near_states(points, a, corners[0], weights, prices, k, best, budget, one)
        _near_states(points, b, corners[1], weights, prices, k, other, budget, two)
        strip, asked, begin = (budget, lows[s], highs[s]), (weights, prices, needs, k), top
        for level in range(LEVELS):
            top = _add_bins(
                points, node, parts, top, space, one, two, level, strip, asked, stairs, steps, hits
            )
            if top < 0:
                return False
        if begin < top and prices.shape[1] == 1:  # strips are in order: sorted, all nearly is
            top = kept_states(points, parts, begin, top)
    sizes[0] = top
    sizes[2] += space[3]
    return sizes[2] <= sizes[3]
