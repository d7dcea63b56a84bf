"""Frontiers: the dynamic programme over one row's losses (see `proof`)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.buckets import CARD, CHILD, INPUT_COUNT, INPUTS, MESSAGE, PAIRS, SIZE, STEP
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import begin, step
from cmpe.core.settings import EXACT
from cmpe.core.states import (
    ABOVE,
    BELOW,
    COST,
    LOSS,
    NODE_COUNT,
    PRODUCT_LIMIT,
    STATE_COUNT,
    SUM_LIMIT,
    LossBudget,
    States,
    T,
    TreeWalk,
    add_leaf,
    add_single,
    combine,
    copy_state,
    settled,
    shortest_last,
    undominated,
    within,
)

OVERFLOW = -1


class Space(NamedTuple):
    """What one row's dynamic programme works in."""

    states: States
    walk: TreeWalk
    least: Floats  # (components + 1, 2) least loss -+ tilt of each component's list
    rest: Floats  # (m,) what the limits leave for the components with lists
    heap: Floats  # (rank,)
    roots: Integers  # (2,) nodes of the best answer
    stack: Integers


class Tilt(NamedTuple):
    """Two further multipliers, (1 -+ share) mu, that prune the lists where share > 0."""

    share: float
    below: float  # what a whole assignment may lose at (1 - share) mu
    above: float  # and at (1 + share) mu
    drift: Floats  # (2, messages, L) by how much a message is higher there than at mu
    away: Floats  # (2, messages, L) that and the least loss that reaches the entry there


@njit(inner=True, nogil=True)
def make_space(plan, walk, constraints, states, rank, products):
    """Room for so many states of one row, for its `rank` best answers.

    One combination of lists may form so many products. `walk` is of `make_walk`.
    """
    counts = np.zeros(5, dtype=np.int64)
    counts[SUM_LIMIT], counts[PRODUCT_LIMIT] = 1 << 62, products
    return Space(
        States(
            np.empty((states, T + constraints)),
            np.empty(states, dtype=np.int64),
            np.empty((2 * states, 2), dtype=np.int32),
            counts,
        ),
        walk,
        np.zeros((len(plan.component_start) + 1, 2)),
        np.zeros(constraints),
        np.empty(rank),
        np.zeros(2, dtype=np.int64),
        np.zeros(2 * len(plan.buckets) + 2, dtype=np.int64),
    )


@njit(cache=True, nogil=True, counted=False)
def _add_value(plan, k, a, lane, block, offsets, loss, states):
    """A state of bucket k's value a alone, on top; False if full."""
    top = states.counts[STATE_COUNT]
    if not add_leaf(states, a, k):
        return False
    states.values[top, LOSS] = states.values[top, COST] = loss
    first, count = plan.buckets[k, INPUTS], plan.buckets[k, INPUT_COUNT]
    for j in range(states.values.shape[1] - T):
        t = 0.0
        for i in range(count):
            if plan.inputs[first + i, CHILD] < 0:
                t += block.t[j, offsets[i] + a * plan.inputs[first + i, STEP], lane]
        states.values[top, T + j] = t
        states.values[top, COST] -= block.mu[lane, j] * t
    return True


@njit(cache=True, nogil=True, counted=False)
def _rise(plan, k, a, lane, offsets, drift):
    """By how much a bucket's incoming messages are higher at either further multiplier."""
    below, above = 0.0, 0.0
    for i in range(plan.buckets[k, INPUT_COUNT]):
        source = plan.buckets[k, INPUTS] + i
        if plan.inputs[source, CHILD] >= 0:
            child = offsets[i] + a * plan.inputs[source, STEP] - plan.entries
            below += drift[BELOW, child, lane]
            above += drift[ABOVE, child, lane]
    return below, above


@njit(cache=True, nogil=True, counted=False)
def _join_child(states, bottom, low, high, budget, heap):
    """The states from `bottom` on become their sums with list low..high; False if full."""
    counts = states.counts
    top = counts[STATE_COUNT]
    if top - bottom == 1 and high - low == 1:  # the usual case
        if not add_single(states, bottom, low):
            return False
        if not within(states, bottom, budget):
            counts[STATE_COUNT] = bottom
        return True
    if not combine(states, bottom, top, low, high, budget):
        return False
    for state in range(top, counts[STATE_COUNT]):
        copy_state(states, state, bottom + state - top)
    counts[STATE_COUNT] = settled(states, bottom, bottom + counts[STATE_COUNT] - top, heap)
    return True


@njit(cache=True, nogil=True, counted=False)
def _join_children(plan, k, a, lane, budget, tilt, space):
    """Join the state on top, bucket k's value a, with the incoming messages; False on overflow.

    The tilted part of `budget` already contains the drift of these messages, which is taken off
    message by message.
    """
    states, walk = space.states, space.walk
    offsets = walk.offsets
    bottom = states.counts[STATE_COUNT] - 1
    below, above = budget.below, budget.above
    for i in range(plan.buckets[k, INPUT_COUNT]):
        source = plan.buckets[k, INPUTS] + i
        if plan.inputs[source, CHILD] < 0:
            continue
        child = offsets[i] + a * plan.inputs[source, STEP] - plan.entries
        if tilt.share > 0.0:
            below -= tilt.drift[BELOW, child, lane]
            above -= tilt.drift[ABOVE, child, lane]
        left = LossBudget(budget.loss, tilt.share, below, above)
        low, high = walk.starts[child], walk.ends[child]
        if not _join_child(states, bottom, low, high, left, space.heap):
            return False
        if states.counts[STATE_COUNT] == bottom:
            break
    return True


@njit(cache=True, nogil=True, counted=False)
def _component_states(plan, c, lane, block, most, tilt, space):
    """The states of component c with loss <= most that the best answers may need.

    Returns (first, end), -1 on overflow.
    """
    buckets, states, walk = plan.buckets, space.states, space.walk
    digits, offsets = walk.digits, walk.offsets
    counts, low = states.counts, np.int64(0)
    for b in range(plan.component_start[c], plan.component_start[c + 1]):
        k = plan.component_buckets[b]
        card = buckets[k, CARD]
        begin(buckets, plan.inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            here = buckets[k, MESSAGE] + entry - plan.entries
            low = counts[STATE_COUNT]
            limit = most - block.reach[here, lane]
            for a in range(card if limit >= 0.0 else 0):
                loss = block.losses[buckets[k, PAIRS] + entry * card + a, lane]
                if loss > limit:
                    continue
                bottom = counts[STATE_COUNT]
                if not _add_value(plan, k, a, lane, block, offsets, loss, states):
                    return -1, -1
                budget = LossBudget(limit, tilt.share, np.inf, np.inf)
                if tilt.share > 0.0:
                    below, above = _rise(plan, k, a, lane, offsets, tilt.drift)
                    below += tilt.below - tilt.away[BELOW, here, lane]
                    above += tilt.above - tilt.away[ABOVE, here, lane]
                    budget = LossBudget(limit, tilt.share, below, above)
                    if not within(states, bottom, budget):
                        counts[STATE_COUNT] = bottom
                        continue
                if not _join_children(plan, k, a, lane, budget, tilt, space):
                    return -1, -1
            if counts[STATE_COUNT] - low > 1:
                counts[STATE_COUNT] = settled(states, low, counts[STATE_COUNT], space.heap)
            walk.starts[here], walk.ends[here] = low, counts[STATE_COUNT]
            step(buckets, plan.inputs, plan.strides, plan.axis_cards, k, digits, offsets)
    return low, counts[STATE_COUNT]


@njit(cache=True, nogil=True, counted=False)
def _fits(values, i, other, limits):
    for j in range(len(limits)):
        if values[i, T + j] + values[other, T + j] > limits[j]:
            return False
    return True


@njit(cache=True, nogil=True, counted=False)
def _join(values, a_low, a_high, b_low, b_high, limits):
    """The two states of least cost together whose t_j fit into `limits`: numbers, -1 if none."""
    best, best_a, best_b = np.inf, -1, -1
    if len(limits) == 1:  # both lists fall in t: one scan of each
        other = b_high
        for i in range(a_low, a_high):
            while other > b_low and values[i, T] + values[other - 1, T] <= limits[0]:
                other -= 1
            if other < b_high and values[i, COST] + values[other, COST] < best:
                best, best_a, best_b = values[i, COST] + values[other, COST], i, other
        return best_a, best_b
    for i in range(a_low, a_high):
        for other in range(b_low, b_high):
            if values[i, COST] + values[other, COST] >= best:
                break
            if _fits(values, i, other, limits):
                best, best_a, best_b = values[i, COST] + values[other, COST], i, other
                break
    return best_a, best_b


@njit(cache=True, nogil=True, counted=False)
def _least_tilted(values, low, high, least):
    """The least loss - tilt and loss + tilt of a list, where tilt is `EXACT.tilt` sum mu_j t_j."""
    least[0] = least[1] = np.inf
    for i in range(low, high):
        tilt = EXACT.tilt * (values[i, LOSS] - values[i, COST])
        least[0] = min(least[0], values[i, LOSS] - tilt)
        least[1] = min(least[1], values[i, LOSS] + tilt)


@njit(cache=True, nogil=True, counted=False)
def _merge_components(active, price, most, space):
    """Merge the lists of all components into two, shortest first; False on overflow.

    Let price = sum mu_j rest_j. A whole assignment with t_j <= rest_j and loss + price -
    sum mu_j t_j <= most has loss -+ tilt <= most -+ EXACT.tilt price. A partial one may use that
    budget less the least that the other lists can take: bounds at the multipliers
    (1 -+ EXACT.tilt) mu.
    """
    states, least, walk = space.states, space.least, space.walk
    lows, highs, order, counts = walk.lows, walk.highs, walk.order, states.counts
    down, up = 0.0, 0.0
    for c in range(active):
        order[c] = c
        _least_tilted(states.values, lows[c], highs[c], least[c])
        down += least[c, BELOW]
        up += least[c, ABOVE]
    below, above = most - EXACT.tilt * price, most + EXACT.tilt * price
    for c in range(active):
        spare_below, spare_above = below - (down - least[c, BELOW]), above - (up - least[c, ABOVE])
        left = LossBudget(np.inf, EXACT.tilt, spare_below, spare_above)
        end = lows[c]
        for i in range(lows[c], highs[c]):
            if within(states, i, left):
                copy_state(states, i, end)
                end += 1
        highs[c] = end
    while active > 2:
        shortest_last(lows, highs, order, active)
        top = counts[STATE_COUNT]
        a, b = order[active - 1], order[active - 2]
        down -= least[a, BELOW] + least[b, BELOW]
        up -= least[a, ABOVE] + least[b, ABOVE]
        left = LossBudget(most, EXACT.tilt, below - down, above - up)
        if not combine(states, lows[a], highs[a], lows[b], highs[b], left):
            return False
        counts[STATE_COUNT] = undominated(states, top, counts[STATE_COUNT])
        lows[b], highs[b] = top, counts[STATE_COUNT]
        _least_tilted(states.values, top, highs[b], least[b])
        down += least[b, BELOW]
        up += least[b, ABOVE]
        active -= 1
    return True


@njit(inner=True, nogil=True, counted=False)
def list_components(plan, lane, block, limits, most, tilt, space):
    """The states of every component that has several of loss <= most: how many lists, or OVERFLOW.

    `space.rest` receives what the others, at their maximisers, leave of the limits.
    """
    rest, counts, walk = space.rest, space.states.counts, space.walk
    counts[STATE_COUNT], counts[NODE_COUNT] = 0, 0
    active = np.int64(0)  # not 0: numba would compile what is called for that number, too
    for j in range(len(limits)):
        rest[j] = limits[j] - block.t[j, 0, lane]
    for c in range(len(plan.component_start) - 1 if len(plan.buckets) > 0 else 0):
        if block.second[c, lane] > most:
            root = plan.component_buckets[plan.component_start[c + 1] - 1]
            for j in range(len(limits)):
                rest[j] -= block.carried[j, plan.buckets[root, MESSAGE], lane]
            continue
        low, high = _component_states(plan, c, lane, block, most, tilt, space)
        if low < 0:
            return OVERFLOW
        walk.lows[active], walk.highs[active] = low, high
        active += 1
    return active


@njit(inner=True, nogil=True)
def search(plan, lane, block, limits, most, space):
    """The least loss + sum mu_j (limit_j - t_j) of an assignment of loss <= most within limits.

    inf if there is none, OVERFLOW if there are too many states. `space.roots` receives the nodes
    of its states. A component that has no other assignment within `most` than its maximiser is a
    constant.
    """
    states, walk, rest = space.states, space.walk, space.rest
    values, counts = states.values, states.counts
    lows, highs, order = walk.lows, walk.highs, walk.order
    none = np.zeros((2, 0, 0))
    tilt = Tilt(0.0, np.inf, np.inf, none, none)
    active = list_components(plan, lane, block, limits, most, tilt, space)
    if active < 0:
        return float(OVERFLOW)
    price = 0.0
    for j in range(len(limits)):
        price += block.mu[lane, j] * rest[j]
    if not _merge_components(active, price, most, space):
        return float(OVERFLOW)
    active = min(active, np.int64(2))
    while active < 2:  # an empty sum is one state of zeros
        top = counts[STATE_COUNT]
        if top + 1 >= len(values):
            return float(OVERFLOW)
        values[top] = 0.0
        states.node[top] = -1
        counts[STATE_COUNT] += 1
        order[active], lows[active], highs[active] = active, top, top + 1
        active += 1
    one, two = order[0], order[1]
    a, b = _join(values, lows[one], highs[one], lows[two], highs[two], rest)
    if a < 0:
        return np.inf
    space.roots[0], space.roots[1] = states.node[a], states.node[b]
    return values[a, COST] + values[b, COST] + price
