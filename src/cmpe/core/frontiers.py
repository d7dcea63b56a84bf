"""Frontiers: the dynamic programme over one row's losses (see `proof`).

Arrays are handed over one by one: numba counts references for every array of a tuple that a
function unpacks, which costs more than the work of a small list.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.buckets import CARD, CHILD, INPUT_COUNT, INPUTS, MESSAGE, PAIRS, SIZE, STEP
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import begin, step
from cmpe.core.states import (
    COST,
    LOSS,
    TILT,
    T,
    add_leaf,
    add_single,
    combine,
    copy_state,
    settled,
    undominated,
    within,
)

OVERFLOW = -1


@njit(cache=True, nogil=True)
def _leaf(inputs, first, count, a, k, offsets, tables, lane, lost, mu, states, node, nodes, sizes):
    """A state of bucket k's value a alone, behind the last one; False if full."""
    bottom = sizes[0]
    if not add_leaf(states, node, nodes, sizes, lost, a, k):
        return False
    for j in range(states.shape[1] - T):
        own = 0.0
        for i in range(count):
            if inputs[first + i, CHILD] < 0:
                own += tables[j, offsets[i] + a * inputs[first + i, STEP], lane]
        states[bottom, T + j] = own
        states[bottom, COST] -= mu[j] * own
    return True


@njit(cache=True, nogil=True)
def _risen(inputs, first, count, a, offsets, first_message, drift, lane):
    """By how much a bucket's incoming messages are higher at either further multiplier."""
    below, above = 0.0, 0.0
    for i in range(count):
        if inputs[first + i, CHILD] >= 0:
            child = offsets[i] + a * inputs[first + i, STEP] - first_message
            below += drift[0, child, lane]
            above += drift[1, child, lane]
    return below, above


@njit(cache=True, nogil=True)
def _join_child(
    states, node, nodes, sizes, bottom, low, high, budget, share, under, over, rank, heap
):
    """The states from `bottom` on become their sums with those of a list; False if full."""
    top = sizes[0]
    if top - bottom == 1 and high - low == 1:  # the usual case
        if not add_single(states, node, nodes, sizes, bottom, low):
            return False
        if not within(states, bottom, budget, share, under, over):
            sizes[0] = bottom
        return True
    if not combine(
        states, node, nodes, sizes, bottom, top, low, high, budget, share, (under, over)
    ):
        return False
    for state in range(top, sizes[0]):
        copy_state(states, node, state, bottom + state - top)
    sizes[0] = settled(states, node, bottom, bottom + sizes[0] - top, rank, heap)
    return True


@njit(cache=True, nogil=True)
def _component_states(
    buckets, inputs, strides, axis_cards, members, first_message, lane, tables, losses, reach,
    mu, most, rank, share, tilted, drift, away, states, node, nodes, sizes, starts, ends, digits,
    offsets, heap,
):  # fmt: skip
    """The states of a component with loss <= most that the `rank` best answers may need.

    With a `share` above 0 they must be within `tilted` at the multipliers (1 -+ share) mu, too:
    `drift` (2, messages, L) is by how much a message is higher there than at mu, and `away` that
    and the least loss that reaches the entry there. Returns (first, end), -1 on overflow.
    """
    low, under, over = 0, np.inf, np.inf
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
                bottom = sizes[0]
                if not _leaf(
                    inputs, first, count, a, k, offsets, tables, lane, losses[pair, lane], mu,
                    states, node, nodes, sizes,
                ):  # fmt: skip
                    return -1, -1
                if share > 0.0:
                    under, over = _risen(
                        inputs, first, count, a, offsets, first_message, drift, lane
                    )
                    under += tilted[0] - away[0, here, lane]
                    over += tilted[1] - away[1, here, lane]
                    if not within(states, bottom, budget, share, under, over):
                        sizes[0] = bottom
                        continue
                for i in range(count):
                    if inputs[first + i, CHILD] < 0:
                        continue
                    child = offsets[i] + a * inputs[first + i, STEP] - first_message
                    if share > 0.0:
                        under -= drift[0, child, lane]
                        over -= drift[1, child, lane]
                    if not _join_child(
                        states, node, nodes, sizes, bottom, starts[child], ends[child], budget,
                        share, under, over, rank, heap,
                    ):  # fmt: skip
                        return -1, -1
                    if sizes[0] == bottom:
                        break
            if sizes[0] - low > 1:
                sizes[0] = settled(states, node, low, sizes[0], rank, heap)
            starts[here], ends[here] = low, sizes[0]
            step(buckets, inputs, strides, axis_cards, k, digits, offsets)
    return low, sizes[0]


@njit(cache=True, nogil=True)
def _fits(states, i, other, limits):
    for j in range(states.shape[1] - T):
        if states[i, T + j] + states[other, T + j] > limits[j]:
            return False
    return True


@njit(cache=True, nogil=True)
def _join(states, a_low, a_high, b_low, b_high, limits):
    """The two states of least cost together whose t_j fit into `limits`: numbers, -1 if none."""
    best, best_a, best_b = np.inf, -1, -1
    if states.shape[1] == T + 1:  # both lists fall in t: one scan of each
        other = b_high
        for i in range(a_low, a_high):
            while other > b_low and states[i, T] + states[other - 1, T] <= limits[0]:
                other -= 1
            if other < b_high and states[i, COST] + states[other, COST] < best:
                best, best_a, best_b = states[i, COST] + states[other, COST], i, other
        return best_a, best_b
    for i in range(a_low, a_high):
        for other in range(b_low, b_high):
            if states[i, COST] + states[other, COST] >= best:
                break
            if _fits(states, i, other, limits):
                best, best_a, best_b = states[i, COST] + states[other, COST], i, other
                break
    return best_a, best_b


@njit(cache=True, nogil=True)
def _least_tilted(states, low, high):
    """The least loss - tilt and the least loss + tilt of a list, tilt = TILT sum mu_j t_j."""
    down, up = np.inf, np.inf
    for i in range(low, high):
        tilt = TILT * (states[i, LOSS] - states[i, COST])
        down = min(down, states[i, LOSS] - tilt)
        up = min(up, states[i, LOSS] + tilt)
    return down, up


@njit(cache=True, nogil=True)
def _merge_components(states, node, nodes, sizes, lows, highs, active, price, most, least):
    """Merge the lists of all components into two, shortest first; False on overflow.

    Let price = sum mu_j rest_j. A whole assignment with t_j <= rest_j and loss + price -
    sum mu_j t_j <= most has loss -+ tilt <= most -+ TILT price. A partial one may use that
    budget less the least that the other lists can take: bounds at the multipliers
    (1 -+ TILT) mu.
    """
    down, up = 0.0, 0.0
    for c in range(active):
        least[0, c], least[1, c] = _least_tilted(states, lows[c], highs[c])
        down += least[0, c]
        up += least[1, c]
    below, above = most - TILT * price, most + TILT * price
    for c in range(active):
        kept = lows[c]
        for i in range(lows[c], highs[c]):
            tilt = TILT * (states[i, LOSS] - states[i, COST])
            if states[i, LOSS] - tilt <= below - (down - least[0, c]) and states[
                i, LOSS
            ] + tilt <= above - (up - least[1, c]):
                copy_state(states, node, i, kept)
                kept += 1
        highs[c] = kept
    while active > 2:
        _smallest_last(lows, highs, least, active)
        top = sizes[0]
        a, b = active - 1, active - 2
        down -= least[0, a] + least[0, b]
        up -= least[1, a] + least[1, b]
        if not combine(
            states, node, nodes, sizes, lows[a], highs[a], lows[b], highs[b], most, TILT,
            (below - down, above - up),
        ):  # fmt: skip
            return False
        sizes[0] = undominated(states, node, top, sizes[0])
        lows[b], highs[b] = top, sizes[0]
        least[0, b], least[1, b] = _least_tilted(states, top, sizes[0])
        down += least[0, b]
        up += least[1, b]
        active -= 1
    return True


@njit(cache=True, nogil=True)
def _smallest_last(lows, highs, least, active):
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


@njit(inner=True, nogil=True)
def list_components(
    plan, lane, tables, carried, losses, reach, second, limits, mu, most, rank, tilts, work
):
    """The states of every component that has several of loss <= most: how many lists, or OVERFLOW.

    `rest` receives what the others, at their maximisers, leave of the limits. `tilts` are share,
    budgets, drift and away of `_component_states`.
    """
    share, tilted, drift, away = tilts
    (states, node, nodes, sizes, starts, ends, digits, offsets, lows, highs, _, rest,
     heap) = work  # fmt: skip
    buckets, inputs, strides, axis_cards = plan.buckets, plan.inputs, plan.strides, plan.axis_cards
    sizes[0], sizes[1] = 0, 0
    active = np.int64(0)  # not 0: numba would compile what is called for that number, too
    for j in range(len(limits)):
        rest[j] = limits[j] - tables[j, 0, lane]
    for c in range(len(plan.component_start) - 1 if len(buckets) > 0 else 0):
        members = plan.component_buckets[plan.component_start[c] : plan.component_start[c + 1]]
        if second[c, lane] > most:
            for j in range(len(limits)):
                rest[j] -= carried[j, buckets[members[-1], MESSAGE], lane]
            continue
        lows[active], highs[active] = _component_states(
            buckets, inputs, strides, axis_cards, members, plan.entries, lane, tables, losses,
            reach, mu, most, rank, share, tilted, drift, away, states, node, nodes, sizes, starts,
            ends, digits, offsets, heap,
        )  # fmt: skip
        if lows[active] < 0:
            return OVERFLOW
        active += 1
    return active


@njit(inner=True, nogil=True)
def search(plan, lane, tables, carried, losses, reach, second, limits, mu, most, work, found):
    """The least loss + sum mu_j (limit_j - t_j) of an assignment of loss <= most within limits.

    inf if there is none, OVERFLOW if there are too many states. `found` receives the nodes of
    its states. A component that has no other assignment within `most` than its maximiser is a
    constant.
    """
    states, node, nodes, sizes, lows, highs = work[0], work[1], work[2], work[3], work[8], work[9]
    least, rest = work[10], work[11]
    none = np.zeros((2, 0, 0))
    active = list_components(
        plan, lane, tables, carried, losses, reach, second, limits, mu, most, np.int64(1),
        (0.0, (np.inf, np.inf), none, none), work,
    )  # fmt: skip
    if active < 0:
        return float(OVERFLOW)
    price = 0.0
    for j in range(len(limits)):
        price += mu[j] * rest[j]
    if not _merge_components(states, node, nodes, sizes, lows, highs, active, price, most, least):
        return float(OVERFLOW)
    active = min(active, np.int64(2))
    while active < 2:  # an empty sum is one state of loss 0 and t 0
        top = sizes[0]
        if top + 1 >= len(states):
            return float(OVERFLOW)
        states[top, LOSS], states[top, COST], node[top] = 0.0, 0.0, -1
        states[top] = 0.0
        sizes[0] += 1
        lows[active], highs[active] = top, top + 1
        active += 1
    a, b = _join(states, lows[0], highs[0], lows[1], highs[1], rest)
    if a < 0:
        return np.inf
    found[0], found[1] = node[a], node[b]
    return states[a, COST] + states[b, COST] + price
