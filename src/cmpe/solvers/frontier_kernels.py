"""States and frontiers: the dynamic programme over one row's losses (see `exact_kernels`).

A state is a partial assignment as (loss, t); a list of states is sorted by t and holds only
those that are not dominated. Nodes remember which two states made a state, so that the
assignment can be read back.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cmpe.elimination_kernels import (
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    PAIRS,
    SIZE,
    STEP,
    begin,
    step,
)

OVERFLOW = -1
MOST_PRODUCTS = 1 << 15  # of one combination
TILT = 0.2  # of mu: the two further multipliers that prune merged states


@njit(cache=True, nogil=True)
def _sort(loss, t, node, low, high, mu):  # type: ignore[no-untyped-def]
    """Shell sort of states low..high by t, then by falling h (= mu t - loss)."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            a, b, c = loss[i], t[i], node[i]
            j = i
            while j - gap >= low and (t[j - gap] > b or (t[j - gap] == b and loss[j - gap] > a)):
                loss[j], t[j], node[j] = loss[j - gap], t[j - gap], node[j - gap]
                j -= gap
            loss[j], t[j], node[j] = a, b, c
        gap //= 3


@njit(cache=True, nogil=True)
def _undominated(loss, t, node, low, high, mu):  # type: ignore[no-untyped-def]
    """Sort states low..high by t and keep those with a higher h than all before; the new end."""
    if high - low < 2:
        return high
    _sort(loss, t, node, low, high, mu)
    kept = low + 1
    best = mu * t[low] - loss[low]
    for i in range(low + 1, high):
        h = mu * t[i] - loss[i]
        if h > best:
            best = h
            loss[kept], t[kept], node[kept] = loss[i], t[i], node[i]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _combine(loss, t, node, left, right, sizes, a_low, a_high, b_low, b_high, budget, tilt, tilted):  # type: ignore[no-untyped-def]
    """All sums of a state of list a and one of list b within the budgets, behind the last state.

    A sum stays if its loss is at most `budget` and its loss -+ tilt * t at most `tilted[0 or 1]`.
    sizes[0] is the number of states, sizes[1] of nodes. False on overflow.
    """
    top, count = sizes[0], sizes[1]
    products = (a_high - a_low) * (b_high - b_low)
    if products > MOST_PRODUCTS or top + products > len(loss) or count + products > len(left):
        return False
    for i in range(a_low, a_high):
        own_loss, own_t, own_node = loss[i], t[i], node[i]
        for j in range(b_low, b_high):
            both, both_t = own_loss + loss[j], own_t + t[j]
            if (
                both <= budget
                and both - tilt * both_t <= tilted[0]
                and both + tilt * both_t <= tilted[1]
            ):
                loss[top], t[top], node[top] = both, both_t, count
                left[count], right[count] = own_node, node[j]
                top += 1
                count += 1
    sizes[0], sizes[1] = top, count
    return True


@njit(cache=True, nogil=True)
def _move(loss, t, node, low, high, to):  # type: ignore[no-untyped-def]
    """Copy states low..high down to `to`; return the new end."""
    for i in range(high - low):
        loss[to + i], t[to + i], node[to + i] = loss[low + i], t[low + i], node[low + i]
    return to + high - low


@njit(cache=True, nogil=True)
def _component_states(
    buckets, inputs, strides, axis_cards, members, first_message, lane, tables, losses, reach,
    mu, most, loss, t, node, left, right, sizes, starts, ends, digits, offsets,
):  # type: ignore[no-untyped-def]  # fmt: skip
    """The undominated states of a component with loss <= most: (first, end), -1 on overflow.

    Arrays come one by one: numba counts references for every array of a tuple it unpacks.
    """
    low = 0
    for b in range(len(members)):
        k = members[b]
        first, count, card = buckets[k, INPUTS], buckets[k, INPUT_COUNT], buckets[k, CARD]
        begin(buckets, inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            here = buckets[k, MESSAGE] + entry - first_message
            low = sizes[0]
            budget = most - reach[here, lane]
            for a in range(card if budget >= 0.0 else 0):
                pair = buckets[k, PAIRS] + entry * card + a
                if losses[pair, lane] > budget:
                    continue
                bottom, leaf = sizes[0], sizes[1]
                if bottom >= len(loss) or leaf >= len(left):
                    return -1, -1
                own = 0.0
                for i in range(count):
                    if inputs[first + i, CHILD] < 0:
                        own += tables[offsets[i] + a * inputs[first + i, STEP], lane]
                loss[bottom], t[bottom], node[bottom] = losses[pair, lane], own, leaf
                left[leaf], right[leaf] = -1 - pair, -1 - k
                sizes[0], sizes[1] = bottom + 1, leaf + 1
                for i in range(count):
                    if inputs[first + i, CHILD] < 0:
                        continue
                    child = offsets[i] + a * inputs[first + i, STEP] - first_message
                    high, other = sizes[0], starts[child]
                    if high - bottom == 1 and ends[child] - other == 1:  # the usual case
                        loss[bottom] += loss[other]
                        t[bottom] += t[other]
                        leaf = sizes[1]
                        if leaf >= len(left):
                            return -1, -1
                        left[leaf], right[leaf] = node[bottom], node[other]
                        node[bottom] = leaf
                        sizes[1] = leaf + 1
                        if loss[bottom] > budget:
                            sizes[0] = bottom
                            break
                        continue
                    if not _combine(
                        loss, t, node, left, right, sizes, bottom, high, other, ends[child],
                        budget, 0.0, (np.inf, np.inf),
                    ):  # fmt: skip
                        return -1, -1
                    end = _move(loss, t, node, high, sizes[0], bottom)
                    sizes[0] = _undominated(loss, t, node, bottom, end, mu)
                    if sizes[0] == bottom:
                        break
            if sizes[0] - low > 1:
                sizes[0] = _undominated(loss, t, node, low, sizes[0], mu)
            starts[here], ends[here] = low, sizes[0]
            step(buckets, inputs, strides, axis_cards, k, digits, offsets)
    return low, sizes[0]


@njit(cache=True, nogil=True)
def _join(loss, t, node, a_low, a_high, b_low, b_high, limit, mu):  # type: ignore[no-untyped-def]
    """The pair of states with the least loss - mu t and t <= limit, by one scan of each list.

    Both lists are sorted by t, and h rises with t; (loss, t, node, node), loss = inf if none.
    """
    best, best_loss, best_t, best_a, best_b = np.inf, np.inf, 0.0, -1, -1
    j = b_high - 1
    for i in range(a_low, a_high):
        while j >= b_low and t[i] + t[j] > limit:
            j -= 1
        if j < b_low:
            break
        both_loss, both_t = loss[i] + loss[j], t[i] + t[j]
        if both_loss - mu * both_t < best:
            best = both_loss - mu * both_t
            best_loss, best_t, best_a, best_b = both_loss, both_t, node[i], node[j]
    return best_loss, best_t, best_a, best_b


@njit(cache=True, nogil=True)
def search(plan, lane, tables, carried, losses, reach, second, limit, mu, most, work, found):  # type: ignore[no-untyped-def]
    """The best assignment of loss <= most: (loss, t), loss = inf if none, OVERFLOW if too many.

    `found` receives the nodes of its states. A component that has no other assignment within
    `most` than its maximiser is a constant.
    """
    loss, t, node, left, right, sizes, starts, ends, digits, offsets, lows, highs, least = work
    buckets, inputs, strides, axis_cards = plan.buckets, plan.inputs, plan.strides, plan.axis_cards
    sizes[0], sizes[1] = 0, 0
    rest = limit - tables[0, lane]
    active = 0
    for c in range(len(plan.component_start) - 1):
        members = plan.component_buckets[plan.component_start[c] : plan.component_start[c + 1]]
        if second[c, lane] > most:
            rest -= carried[buckets[members[-1], MESSAGE], lane]
            continue
        lows[active], highs[active] = _component_states(
            buckets, inputs, strides, axis_cards, members, plan.entries, lane, tables, losses,
            reach, mu, most, loss, t, node, left, right, sizes, starts, ends, digits, offsets,
        )  # fmt: skip
        if lows[active] < 0:
            return float(OVERFLOW), 0.0
        active += 1
    if not _merge_components(
        loss, t, node, left, right, sizes, lows, highs, active, rest, mu, most, least
    ):
        return float(OVERFLOW), 0.0
    active = min(active, 2)
    while active < 2:  # an empty sum is one state of loss 0 and t 0
        top = sizes[0]
        if top >= len(loss):
            return float(OVERFLOW), 0.0
        loss[top], t[top], node[top] = 0.0, 0.0, -1
        sizes[0] += 1
        lows[active], highs[active] = top, top + 1
        active += 1
    best_loss, best_t, found[0], found[1] = _join(
        loss, t, node, lows[0], highs[0], lows[1], highs[1], rest, mu
    )
    return best_loss, best_t + (limit - rest)


@njit(cache=True, nogil=True)
def _least_tilted(loss, t, low, high, tilt):  # type: ignore[no-untyped-def]
    """The least loss - tilt * t and the least loss + tilt * t of a list."""
    down, up = np.inf, np.inf
    for i in range(low, high):
        down = min(down, loss[i] - tilt * t[i])
        up = min(up, loss[i] + tilt * t[i])
    return down, up


@njit(cache=True, nogil=True)
def _merge_components(
    loss, t, node, left, right, sizes, lows, highs, active, rest, mu, most, least
):  # type: ignore[no-untyped-def]
    """Merge the lists of all components into two, shortest first; False on overflow.

    For any |tilt| <= mu, a whole assignment with t <= rest and loss + mu (rest - t) <= most has
    loss - tilt t <= most - tilt rest. A partial one may use that budget less the least that the
    other lists can take: a bound at the multiplier mu - tilt. Two of them, mu -+ tilt.
    """
    tilt = TILT * mu
    down, up = 0.0, 0.0
    for c in range(active):
        least[0, c], least[1, c] = _least_tilted(loss, t, lows[c], highs[c], tilt)
        down += least[0, c]
        up += least[1, c]
    for c in range(active):
        kept = lows[c]
        for i in range(lows[c], highs[c]):
            if loss[i] - tilt * t[i] <= most - tilt * rest - (down - least[0, c]) and loss[
                i
            ] + tilt * t[i] <= most + tilt * rest - (up - least[1, c]):
                loss[kept], t[kept], node[kept] = loss[i], t[i], node[i]
                kept += 1
        highs[c] = kept
    while active > 2:
        _smallest_last(lows, highs, least, active)
        top = sizes[0]
        a, b = active - 1, active - 2
        down -= least[0, a] + least[0, b]
        up -= least[1, a] + least[1, b]
        if not _combine(
            loss, t, node, left, right, sizes, lows[a], highs[a], lows[b], highs[b], most,
            tilt, (most - tilt * rest - down, most + tilt * rest - up),
        ):  # fmt: skip
            return False
        sizes[0] = _undominated(loss, t, node, top, sizes[0], mu)
        lows[b], highs[b] = top, sizes[0]
        least[0, b], least[1, b] = _least_tilted(loss, t, top, sizes[0], tilt)
        down += least[0, b]
        up += least[1, b]
        active -= 1
    return True


@njit(cache=True, nogil=True)
def _smallest_last(lows, highs, least, active):  # type: ignore[no-untyped-def]
    """Bring the two shortest lists to the end."""
    for place in (active - 1, active - 2):
        shortest = place
        for c in range(place):
            if highs[c] - lows[c] < highs[shortest] - lows[shortest]:
                shortest = c
        lows[place], lows[shortest] = lows[shortest], lows[place]
        highs[place], highs[shortest] = highs[shortest], highs[place]
        for side in range(2):
            least[side, place], least[side, shortest] = least[side, shortest], least[side, place]
