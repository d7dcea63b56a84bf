"""Sums of the states of two lists that some reference calls near.

At a reference, what a state lacks of the best of its list is its *loss*, and a sum is near where
both losses together are within a *budget*. So per reference only states whose own loss is within it
matter: they are few, and are put in LEVELS bins by their loss. Two bins whose numbers add up to
less than LEVELS hold only sums that are near; those whose numbers add up to more hold none. Bins
are taken by rising sum: what dominates a sum loses less than it at every reference, so that it is
there first, and dominated sums are seen at one look at the *stairs*, the highest h below each t.
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.tradeoffs.kernels.lists import H, T, kept_states, projected

BLOCK = 16  # states of a list that are passed over together
LEVELS, FEW_LEVELS = 16, 4  # bins of losses within a budget, for long lists and short ones
MANY = 1 << 14  # sums of two long lists
THINNED = 1 << 17  # sums from which on they are thinned while more are added
FEW = 2048  # sums up to which all are looked at
STEPS = 8  # of the stairs, for each state of the two lists


@njit(cache=True, nogil=True)
def _stairs(points, a, b, known, stairs):
    """Steps of t over the sums of two sorted lists: (how many, lowest t, per t).

    stairs[i] is the highest h of `known` points (h, t), by falling h, below step i.
    """
    (a_low, a_high), (b_low, b_high) = a, b
    lowest = points[a_high - 1, T] + points[b_high - 1, T]
    highest = points[a_low, T] + points[b_low, T]
    bins = min(len(stairs) - 2, STEPS * (a_high - a_low + b_high - b_low + len(known)))
    if not highest > lowest:
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
    return bins, lowest, scale


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
def _best_of(points, ends, corners, weights, prices, k, best, hint):
    """The state that reference k likes best, not unlike state `hint`; best[k] is its value."""
    highest, state = projected(points, hint, weights, prices, k), hint
    for block in range(len(corners)):
        if projected(corners, block, weights, prices, k) <= highest:
            continue
        first = ends[0] + block * BLOCK
        for i in range(first, min(first + BLOCK, ends[1])):
            value = projected(points, i, weights, prices, k)
            if value > highest:
                highest, state = value, i
    best[k] = highest
    return state


@njit(cache=True, nogil=True)
def _near_states(points, ends, corners, weights, prices, k, best, budget, side):
    """Put the states whose loss at reference k is within its budget in bins of their loss.

    `best` (K,) is that of the list. side[0] receives the state, its h, t_1, its loss here and at
    the reference before; side[1] where each bin begins; side[2] is scratch.
    """
    found, starts, (states, bins, losses) = side
    levels = len(starts) - 1
    scale = (1.0 - 1e-9) * levels / max(budget, 1e-300)
    starts[:] = 0
    count = 0
    for block in range(len(corners)):
        if best[k] - projected(corners, block, weights, prices, k) > budget:
            continue
        first = ends[0] + block * BLOCK
        for i in range(first, min(first + BLOCK, ends[1])):
            loss = best[k] - projected(points, i, weights, prices, k)
            if loss <= budget:
                level = int(loss * scale)
                states[count], bins[count], losses[count] = i, level, loss
                starts[level + 1] += 1
                count += 1
    for level in range(levels):
        starts[level + 1] += starts[level]
    for c in range(count - 1, -1, -1):
        i = states[c]
        place = starts[bins[c] + 1] - 1
        starts[bins[c] + 1] = place
        found[0, place], found[1, place], found[2, place] = i, points[i, H], points[i, T]
        found[3, place] = losses[c]
        if k > 0:
            found[4, place] = best[k - 1] - projected(points, i, weights, prices, k - 1)
    for level in range(levels):
        starts[level] = starts[level + 1]
    starts[levels] = count


@njit(cache=True, nogil=True)
def _room_for(size, levels):
    """What `_near_states` writes of a list of so many states."""
    scratch = (np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))
    return np.zeros((5, size)), np.zeros(levels + 1, np.int64), scratch


@njit(nogil=True, inline="always")
def _add_sum(points, node, parts, top, i, other):
    for column in range(points.shape[1]):
        points[top, column] = points[i, column] + points[other, column]
    parts[top, 0], parts[top, 1] = node[i], node[other]


@njit(cache=True, nogil=True)
def _make_room(points, parts, top, more, space):
    """Thin the sums where `more` might not fit: the new top, -1 on overflow.

    `space` is where they begin, where they are thinned, and the end of the space.
    """
    start, limit, hard = space
    if top + more <= limit:
        return top
    top = kept_states(points, parts, start, top)
    if top + more > hard - (hard - start) // 4:
        return -1
    space[1] = min(hard, max(limit, start + 4 * (top + more - start)))
    return top


@njit(cache=True, nogil=True)
def _add_bins(points, node, parts, top, space, one, two, level, budgets, stairs, steps):
    """Sums of a bin of one list and one of the other whose numbers add up to `level`: the new top.

    `budgets` are those of this reference and of the one before, which has its sums already. -1 on
    overflow.
    """
    (left, left_starts, _), (right, right_starts, _) = one, two
    bins, lowest, scale = steps
    value, stair = 0.0, 0
    for own in range(level + 1):
        first, last = right_starts[level - own], right_starts[level - own + 1]
        for x in range(left_starts[own], left_starts[own + 1] if last > first else 0):
            top = _make_room(points, parts, top, last - first, space)
            if top < 0:
                return -1
            h, t = left[1, x], left[2, x] - lowest
            within, before = budgets[0] - left[3, x], budgets[1] - left[4, x]
            for y in range(first, last):
                if right[4, y] <= before or right[3, y] > within:
                    continue
                if bins > 0:
                    value = h + right[1, y]
                    stair = int((t + right[2, y]) * scale)
                    if stairs[stair] >= value:
                        continue
                _add_sum(points, node, parts, top, int(left[0, x]), int(right[0, y]))
                top += 1
                stair += 1
                while stair <= bins and stairs[stair] < value:
                    stairs[stair] = value
                    stair += 1
    return top


@njit(cache=True, nogil=True)
def _highest(points, ends, weights, prices, active):
    """What the best state of a list reaches at each reference."""
    out = np.full(active, -np.inf)
    for state in range(ends[0], ends[1]):
        for k in range(active):
            value = projected(points, state, weights, prices, k)
            out[k] = value if value > out[k] else out[k]
    return out


@njit(cache=True, nogil=True)
def _all_sums(points, node, parts, sizes, a, b, weights, prices, needs, active):
    """The same for short lists: every sum of a state that may be near is looked at."""
    top = sizes[0]
    if top + FEW + 2 >= len(points):
        return False
    highest = _highest(points, b, weights, prices, active)
    near, left = np.empty(active, dtype=np.int64), np.empty(active)
    for i in range(a[0], a[1]):
        count = 0
        for k in range(active):
            lacks = needs[k] - projected(points, i, weights, prices, k)
            near[count], left[count] = k, lacks
            count += 1 if highest[k] >= lacks else 0
        for other in range(b[0], b[1] if count > 0 else 0):
            for c in range(count):
                if projected(points, other, weights, prices, near[c]) >= left[c]:
                    _add_sum(points, node, parts, top, i, other)
                    top += 1
                    break
    sizes[0] = top
    sizes[2] += (a[1] - a[0]) * (b[1] - b[0])
    return True


@njit(cache=True, nogil=True)
def _looked_at(one, two):
    """How many sums the bins hold."""
    total, levels = 0, len(one[1]) - 1
    for level in range(levels):
        total += (one[1][level + 1] - one[1][level]) * two[1][levels - level]
    return total


@njit(inner=True, nogil=True)
def combine(points, node, parts, sizes, a, b, weights, prices, needs, active, known, stairs):
    """Sums of a state of list a and one of list b that some reference calls near, on top.

    A sum stays where weight_k h - price_k . t >= needs_k for one of the first `active` references.
    `known` (h, t), by falling h: what these dominate need not stay. `stairs` is scratch. Sums that
    fill the space are thinned (`kept_states`); False on overflow. sizes[2] counts the sums that
    were looked at, of which sizes[3] are allowed.
    """
    product = (a[1] - a[0]) * (b[1] - b[0])
    if product <= FEW:
        return _all_sums(points, node, parts, sizes, a, b, weights, prices, needs, active)
    top, hard, levels = sizes[0], len(points) - 2, FEW_LEVELS if product < MANY else LEVELS
    space = np.array([top, min(hard, top + THINNED), hard])
    steps = _stairs(points, a, b, known, stairs) if points.shape[1] == T + 1 else (0, 0.0, 0.0)
    best, corners = (np.empty(active), np.empty(active)), (_corners(points, a), _corners(points, b))
    one, two = _room_for(a[1] - a[0], levels), _room_for(b[1] - b[0], levels)
    budget, before, i, j = -1.0, -1.0, a[0], b[0]
    for k in range(active):
        i = _best_of(points, a, corners[0], weights, prices, k, best[0], i)
        j = _best_of(points, b, corners[1], weights, prices, k, best[1], j)
        budget, before = best[0][k] + best[1][k] - needs[k], max(-1.0, budget)
        if not budget >= 0.0:
            continue
        _near_states(points, a, corners[0], weights, prices, k, best[0], budget, one)
        _near_states(points, b, corners[1], weights, prices, k, best[1], budget, two)
        sizes[2] += _looked_at(one, two)
        for level in range(levels if sizes[2] <= sizes[3] else 0):
            top = _add_bins(
                points, node, parts, top, space, one, two, level, (budget, before), stairs, steps
            )
            if top < 0:
                return False
    sizes[0] = top
    return sizes[2] <= sizes[3]
