"""Lists of partial assignments by their values, as fronts are built of them.

A state is a row of `points`: h, then t_1..t_m. `node` says how it was made: of two nodes, or of one
bucket's value. A list is sorted by falling h. While states are being collected their two parts wait
in `parts`; those that stay get a node. What is called for every pair of blocks is written in place
(`inline`): the calls took a quarter of the time.
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.tradeoffs.kernels.columns import falling

H, T = 0, 1  # columns of a state; t_j is in column T + j
BLOCK = 8  # states of a list that are passed over together
GROUP = 8  # blocks that are passed over together, and groups of these
LEVELS = 4  # states by block, group, group of groups, and all
THINNED = 1 << 17  # sums from which on they are thinned while more are added
MANY = 64  # sums from which on dominated ones are looked for at once
SMALL = 24  # states up to which a list is sorted by insertion


@njit(inner=True, nogil=True)
def copy_state(points, parts, source, target):
    """State `target` becomes state `source`."""
    parts[target, 0] = parts[source, 0]
    parts[target, 1] = parts[source, 1]
    for column in range(points.shape[1]):
        points[target, column] = points[source, column]


@njit(inner=True, nogil=True)
def sort_states(points, parts, low, high):
    """Sort states low..high by falling h, then by rising t_1."""
    if high - low <= SMALL:
        for i in range(low + 1, high):  # state `high` is a spare place
            j = i
            own, first = points[i, H], points[i, T]
            copy_state(points, parts, i, high)
            while j > low and (
                points[j - 1, H] < own or (points[j - 1, H] == own and points[j - 1, T] > first)
            ):
                copy_state(points, parts, j - 1, j)
                j -= 1
            copy_state(points, parts, high, j)
        return
    for column in (T, H):  # stable: by h, and where h is equal by t_1
        order = falling(points[low:high, column] if column == H else -points[low:high, column])
        moved, kept = points[low:high].copy(), parts[low:high].copy()
        for i in range(high - low):
            points[low + i] = moved[order[i]]
            parts[low + i] = kept[order[i]]


@njit(inner=True, nogil=True)
def kept_states(points, parts, low, high):
    """Sort states low..high; keep each that no kept one dominates: the new end of the list.

    A state dominates another that has no higher h and no lower t_j.
    """
    if high - low < 2:
        return high
    if points.shape[1] == T + 1 and high - low > SMALL:
        return _front_of_many(points, parts, low, high)
    sort_states(points, parts, low, high)
    kept = low + 1
    for i in range(low + 1, high):
        dominated = False
        for other in range(kept - 1, low - 1, -1):
            dominated = True
            for j in range(T, points.shape[1]):
                if points[i, j] < points[other, j]:
                    dominated = False
                    break
            if dominated or points.shape[1] == T + 1:
                break
        if not dominated:
            copy_state(points, parts, i, kept)
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _front_of_many(points, parts, low, high):
    """The same for one t: a sweep in the order of falling h."""
    order = falling(points[low:high, H])
    kept = np.empty(high - low, dtype=np.int64)
    count = 0
    least = np.inf
    last = np.inf
    for i in range(len(order)):
        state = low + order[i]
        if points[state, T] < least:
            if count > 0 and points[state, H] == last:
                count -= 1  # the same h with a lower t
            kept[count] = state
            count += 1
            least, last = points[state, T], points[state, H]
    moved, own = np.empty((count, T + 1)), np.empty((count, 2), dtype=parts.dtype)
    for i in range(count):
        state = kept[i]
        moved[i, H], moved[i, T] = points[state, H], points[state, T]
        own[i, 0], own[i, 1] = parts[state, 0], parts[state, 1]
    for i in range(count):
        points[low + i, H], points[low + i, T] = moved[i, H], moved[i, T]
        parts[low + i, 0], parts[low + i, 1] = own[i, 0], own[i, 1]
    return low + count


@njit(inner=True, nogil=True)
def name_states(parts, node, nodes, sizes, low, high):
    """Give states low..high nodes of their own; False without room."""
    count = sizes[1]
    if count + high - low > len(nodes):
        return False
    for i in range(low, high):
        nodes[count, 0], nodes[count, 1] = parts[i, 0], parts[i, 1]
        node[i] = count
        count += 1
    sizes[1] = count
    return True


@njit(nogil=True, inline="always")
def projected(points, state, weights, prices, k):
    """weight_k h - price_k . t of a state."""
    value = weights[k] * points[state, H]
    for j in range(prices.shape[1]):
        value -= prices[k, j] * points[state, T + j]
    return value


@njit(cache=True, nogil=True)
def _stairs(points, a, b, known, stairs):
    """Steps of t over the sums of two sorted lists: (how many, lowest t, per t).

    stairs[i] is the highest h of `known` points (h, t), by falling h, below step i.
    """
    (a_low, a_high), (b_low, b_high) = a, b
    lowest = points[a_high - 1, T] + points[b_high - 1, T]
    highest = points[a_low, T] + points[b_low, T]
    bins = min(len(stairs) - 2, 32 * (a_high - a_low + b_high - b_low))
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
def _raise(points, state, weights, prices, active, room, start):
    """Let room[start:] be at least what a state reaches at each reference."""
    h = points[state, H]
    if prices.shape[1] == 1:  # written so that it vectorises
        t = points[state, T]
        for k in range(active):
            value = weights[k] * h - prices[k, 0] * t
            room[start + k] = value if value > room[start + k] else room[start + k]
        return
    for k in range(active):
        room[start + k] = max(room[start + k], projected(points, state, weights, prices, k))


@njit(inner=True, nogil=True)
def room_of(states, references):
    """How many numbers `combine` needs of its `room` for a list of so many states."""
    return references * (states // BLOCK + states // (BLOCK * (GROUP - 1)) + 2 * LEVELS)


@njit(cache=True, nogil=True)
def _reaches(points, b, weights, prices, active, room):
    """What each block of list b reaches, each group of blocks, and so on up to one: (., active).

    Returns where the blocks, the groups, .. begin (LEVELS + 1,), in rows of `active` numbers.
    """
    b_low, b_high = b
    starts = np.zeros(LEVELS + 1, dtype=np.int64)
    count = (b_high - b_low + BLOCK - 1) // BLOCK
    for level in range(LEVELS):
        starts[level + 1] = starts[level] + count
        count = (count + GROUP - 1) // GROUP if level + 2 < LEVELS else 1
    for place in range(starts[LEVELS] * active):
        room[place] = -np.inf
    for state in range(b_low, b_high):
        start = (state - b_low) // BLOCK * active
        _raise(points, state, weights, prices, active, room, start)
    for level in range(1, LEVELS):
        size = GROUP if level + 1 < LEVELS else starts[level]
        for below in range(starts[level] - starts[level - 1]):
            own = (starts[level] + below // size) * active
            part = (starts[level - 1] + below) * active
            for k in range(active):
                room[own + k] = max(room[own + k], room[part + k])
    return starts


@njit(nogil=True, inline="always")
def _is_reached(room, start, near, left, count):
    for c in range(count):
        if room[start + near[c]] >= left[c]:
            return True
    return False


@njit(nogil=True, inline="always")
def _add_block(
    points, node, parts, top, i, inside, weights, prices, near, left, count, stairs, steps
):  # fmt: skip
    """Sums of state i and states `inside` (first, last) that a reference keeps: the new top."""
    bins, lowest, scale = steps
    value, stair = 0.0, 0
    for other in range(inside[0], inside[1] + 1):
        if bins > 0:
            value = points[i, H] + points[other, H]
            stair = int((points[i, T] + points[other, T] - lowest) * scale)
            if stairs[stair] >= value:
                continue
        for c in range(count):
            if projected(points, other, weights, prices, near[c]) >= left[c]:
                for column in range(points.shape[1]):
                    points[top, column] = points[i, column] + points[other, column]
                parts[top, 0], parts[top, 1] = node[i], node[other]
                top += 1
                stair += 1
                while stair <= bins and stairs[stair] < value:
                    stairs[stair] = value
                    stair += 1
                break
    return top


@njit(nogil=True, inline="always")
def _is_below(points, a, b, stairs, steps):
    """Whether the sum of states a (first, last) and b of two lists can only be dominated.

    The highest h is that of the first ones, the lowest t that of the last.
    """
    stair = int((points[a[1], T] + points[b[1], T] - steps[1]) * steps[2])
    return stairs[stair] >= points[a[0], H] + points[b[0], H]


@njit(cache=True, nogil=True)
def _near_ones(points, a, weights, prices, needs, active, room, whole, near, left):
    """The references that some sum with states a (first, last) may be near: how many.

    `left` is what each still needs of list b, whose best is in room[whole:].
    """
    count = 0
    for k in range(active):
        own = projected(points, a[0], weights, prices, k)
        for i in range(a[0] + 1, a[1] + 1):
            own = max(own, projected(points, i, weights, prices, k))
        if room[whole + k] >= needs[k] - own:
            near[count], left[count] = k, needs[k] - own
            count += 1
    return count


@njit(cache=True, nogil=True)
def _chosen_blocks(points, a, b, starts, active, room, near, left, count, stairs, steps, chosen):
    """The blocks of list b, of which some sum with states a (first, last) may stay: how many."""
    level, place, found = LEVELS - 2, 0, 0
    while count > 0 and place < starts[level + 1] - starts[level]:
        size = BLOCK * GROUP**level
        first = b[0] + place * size
        inside = (first, min(first + size, b[1]) - 1)
        if (steps[0] == 0 or not _is_below(points, a, inside, stairs, steps)) and (
            _is_reached(room, (starts[level] + place) * active, near, left, count)
        ):
            if level > 0:
                level -= 1
                place *= GROUP
                continue
            chosen[found] = place
            found += 1
        place += 1
        while level < LEVELS - 2 and place % GROUP == 0:
            level += 1
            place //= GROUP
    return found


@njit(inner=True, nogil=True)
def combine(points, node, parts, sizes, a, b, weights, prices, needs, active, known, room, stairs):
    """Sums of a state of list a and one of list b that some reference calls near, on top.

    A sum stays where weight_k h - price_k . t >= needs_k for one of the first `active` references.
    `known` (h, t), by falling h: what these dominate need not stay. `room` and `stairs` are
    scratch: what each block of b reaches; the highest h below each t. Sums that fill the space are
    thinned (`kept_states`); False on overflow. sizes[2] counts the sums that were looked at, of
    which sizes[3] are allowed.
    """
    top = start = sizes[0]
    if room_of(b[1] - b[0], active) > room.size:
        return False
    starts = _reaches(points, b, weights, prices, active, room)
    whole = (starts[LEVELS] - 1) * active
    hard = len(points) - BLOCK - 2
    limit = min(hard, start + THINNED)
    near, left = np.empty(active, dtype=np.int64), np.empty(active)
    chosen, found = np.arange(starts[1]), starts[1]
    steps = (0, 0.0, 0.0)
    if points.shape[1] == T + 1 and (a[1] - a[0]) * (b[1] - b[0]) > MANY:
        steps = _stairs(points, a, b, known, stairs)
    for i in range(a[0], a[1]):
        if starts[1] >= GROUP and (i - a[0]) % BLOCK == 0:
            some = (i, min(i + BLOCK, a[1]) - 1)
            count = _near_ones(
                points, some, weights, prices, needs, active, room, whole, near, left
            )
            found = _chosen_blocks(
                points, some, b, starts, active, room, near, left, count, stairs, steps, chosen
            )
        if found == 0:
            continue
        count = _near_ones(points, (i, i), weights, prices, needs, active, room, whole, near, left)
        for c in range(found if count > 0 else 0):
            first = b[0] + chosen[c] * BLOCK
            inside = (first, min(first + BLOCK, b[1]) - 1)
            if (steps[0] > 0 and _is_below(points, (i, i), inside, stairs, steps)) or (
                not _is_reached(room, chosen[c] * active, near, left, count)
            ):
                continue
            if top >= limit:
                top = kept_states(points, parts, start, top)
                if top >= hard - (hard - start) // 4:
                    sizes[0] = top
                    return False
                limit = min(hard, max(limit, start + 4 * (top - start)))
            top = _add_block(
                points, node, parts, top, i, inside, weights, prices, near, left, count,
                stairs, steps,
            )  # fmt: skip
            sizes[2] += inside[1] + 1 - first
        if sizes[2] > sizes[3]:
            return False
    sizes[0] = top
    return True
