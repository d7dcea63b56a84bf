"""The dynamic programme over the bucket trees: lists of states near some reference.

A partial assignment is kept if, at one of the references, its loss and the least loss that the rest
of the row must add are within that reference's budget. States that another one of their entry
dominates are dropped.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.buckets import (
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    PAIRS,
    SIZE,
    STEP,
    CompiledPlan,
)
from cmpe.core.compiler.functions import njit, uncompiled
from cmpe.core.elimination import begin, step
from cmpe.core.fronts.lists import (
    H,
    ListSpan,
    Near,
    PointStates,
    T,
    copy_point,
    is_near,
    name_states,
    undominated_points,
)
from cmpe.core.fronts.pairs import SETTLED, combine
from cmpe.core.states import (
    LEFT,
    NODE_COUNT,
    RIGHT,
    STATE_COUNT,
    TreeWalk,
    add_leaf,
    add_single,
    make_walk,
    shortest_last,
)


class Window(NamedTuple):
    """The values of t_1 that are of interest."""

    low: float
    high: float


class FrontRow(NamedTuple):
    """A row: its tables, and the part of its front that is required."""

    plan: CompiledPlan
    offsets: Integers  # where each table begins
    h: Floats  # (E,)
    t: Floats  # (m, E): the front is over t_1
    limits: Floats  # (m,)
    finite: bool  # no constraint but the first has an entry of -inf
    window: Window
    known: Floats  # (P, 2) h and t_1 of points that exist


class References(NamedTuple):
    """Multipliers by rising mu, that of t alone last, and the losses at each of them."""

    weight: Floats  # (K,) of h
    price: Floats  # (K, m) of each t
    values: Floats  # (total, K) weight h - price . t with its messages
    losses: Floats  # (pairs, K)
    reach: Floats  # (messages, K) the least loss that reaches each message entry
    totals: Floats  # (K,) W + lambda . q: the maximum, and what the other constraints add
    slack: Floats  # (K,) what rounding can move a sum by


class FrontSpace(NamedTuple):
    """What all rows of one thread share; of the large arrays only what is used takes memory."""

    states: PointStates
    walk: TreeWalk
    stairs: Floats  # the highest h below each t


class PairNeeds(NamedTuple):
    """The references near one value of a bucket entry, and what each of them needs of it."""

    near: Near
    numbers: Integers  # (K,) of the references
    base: Floats  # (K,) what is needed, less the messages that have not been joined


class Whole(NamedTuple):
    """What sums of the components' lists must reach."""

    roots: Floats  # (components, K) what each component reaches at each reference
    near: Near  # its needs are scratch
    budgets: Floats  # (K,)
    least: Floats  # (components, m) the least t_j of each list
    rest: Floats  # (m,) the limits less all these


def make_front_space(states: int, constraints: int, plan: Any) -> FrontSpace:
    """Room for so many states."""
    return FrontSpace(
        PointStates(
            np.empty((states, T + constraints)),
            np.empty(states, dtype=np.int32),
            np.empty((states, 2), dtype=np.int32),
            np.empty((4 * states, 2), dtype=np.int32),
            np.zeros(4, dtype=np.int64),
        ),
        uncompiled(make_walk)(plan),
        np.empty(max(1 << 18, states // 4)),
    )


@njit(cache=True, nogil=True)
def _add_child(states, bottom, child, near, stairs):
    """Join the states from `bottom` on with a child's list; False without room."""
    values, counts = states.values, states.counts
    high = counts[STATE_COUNT]
    if high - bottom == 1 and child.high - child.low == 1:  # the usual case
        if not add_single(states, bottom, child.low):
            return False
        if not is_near(values, bottom, near):
            counts[STATE_COUNT] = bottom
        return True
    if not combine(states, ListSpan(bottom, high), child, near, np.empty((0, 3)), stairs):
        return False
    end = undominated_points(states, high, counts[STATE_COUNT])
    for state in range(high, end):
        copy_point(states, state, bottom + state - high)
    counts[STATE_COUNT] = bottom + end - high
    return name_states(states, bottom, counts[STATE_COUNT])


@njit(cache=True, nogil=True)
def _pair_states(row, references, k, a, pair, space):
    """The states of one value of one bucket entry, on top; False on overflow."""
    inputs, states, walk = row.plan.inputs, space.states, space.walk
    offsets = walk.offsets
    h, t, values = row.h, row.t, references.values
    near, numbers, base = pair.near, pair.numbers, pair.base
    first, count = row.plan.buckets[k, INPUTS], row.plan.buckets[k, INPUT_COUNT]
    points, counts, active = states.values, states.counts, near.active
    bottom = counts[STATE_COUNT]
    if not add_leaf(states, a, k):
        return False
    for i in range(count):
        place = offsets[i] + a * inputs[first + i, STEP]
        if inputs[first + i, CHILD] < 0:
            points[bottom, H] += h[place]
            for j in range(t.shape[0]):
                points[bottom, T + j] += t[j, place]
        else:
            for r in range(active):
                base[r] -= values[place, numbers[r]]
    for i in range(count):
        if inputs[first + i, CHILD] < 0:
            continue
        place = offsets[i] + a * inputs[first + i, STEP]
        for r in range(active):
            base[r] += values[place, numbers[r]]
            near.needs[r] = base[r]
        message = place - row.plan.entries
        child = ListSpan(walk.starts[message], walk.ends[message])
        if not _add_child(states, bottom, child, near, space.stairs):
            return False
        if counts[STATE_COUNT] == bottom:
            break
    return True


@njit(inner=True, nogil=True)
def component_list(row, references, c, budget, space):
    """The states of component c that are near some reference: (first, end), -1 on overflow."""
    plan, weight, price = row.plan, references.weight, references.price
    losses, reach, buckets = references.losses, references.reach, row.plan.buckets
    states, walk = space.states, space.walk
    digits, offsets = walk.digits, walk.offsets
    points, node, counts = states.values, states.node, states.counts
    count, constraints = len(weight), row.t.shape[0]
    weights, prices, needs = np.zeros(count), np.zeros((count, constraints)), np.zeros(count)
    base, numbers = np.zeros(count), np.zeros(count, dtype=np.int64)
    bottom_of_all, low = counts[STATE_COUNT], counts[STATE_COUNT]
    for b in range(plan.component_start[c], plan.component_start[c + 1]):
        k = plan.component_buckets[b]
        card = buckets[k, CARD]
        begin(buckets, plan.inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            target = buckets[k, MESSAGE] + entry
            here = target - plan.entries
            low = counts[STATE_COUNT]
            for a in range(card):
                number = buckets[k, PAIRS] + entry * card + a
                active = np.int64(0)  # not 0: numba would compile callees for that number, too
                for r in range(count):
                    if losses[number, r] + reach[here, r] <= budget[r]:
                        weights[active] = weight[r]
                        for j in range(constraints):  # a slice would cost more
                            prices[active, j] = price[r, j]
                        base[active] = references.values[target, r] + reach[here, r] - budget[r]
                        numbers[active] = r
                        active += 1
                pair = PairNeeds(Near(weights, prices, needs, active), numbers, base)
                if active > 0 and not _pair_states(row, references, k, a, pair, space):
                    return -1, -1
            if counts[STATE_COUNT] - low > 1:
                _reorder(states, low)
            walk.starts[here], walk.ends[here] = low, counts[STATE_COUNT]
            step(buckets, plan.inputs, plan.strides, plan.axis_cards, k, digits, offsets)
    for state in range(low, counts[STATE_COUNT]):  # from here on only the root's list is needed
        points[bottom_of_all + state - low] = points[state]
        node[bottom_of_all + state - low] = node[state]
    counts[STATE_COUNT] = bottom_of_all + counts[STATE_COUNT] - low
    return bottom_of_all, counts[STATE_COUNT]


@njit(cache=True, nogil=True)
def _reorder(states, low):
    """Keep what is not dominated of the states from `low` on, which have nodes."""
    parts, node, counts = states.parts, states.node, states.counts
    for i in range(low, counts[STATE_COUNT]):
        parts[i, LEFT], parts[i, RIGHT] = node[i], -1
    counts[STATE_COUNT] = undominated_points(states, low, counts[STATE_COUNT])
    for i in range(low, counts[STATE_COUNT]):
        node[i] = parts[i, LEFT]


@njit(cache=True, nogil=True, counted=False)
def _least_of(values, low, high, column):
    least = np.inf
    for i in range(low, high):
        least = min(least, values[i, column])
    return least


@njit(cache=True, nogil=True)
def _merge_two(a, b, whole, known, space):
    """The sums of lists a and b that may be part of an answer, on top: False on overflow."""
    states, lows, highs = space.states, space.walk.lows, space.walk.highs
    values, counts, near, least = states.values, states.counts, whole.near, whole.least
    for r in range(near.active):
        near.needs[r] = whole.roots[a, r] + whole.roots[b, r] - whole.budgets[r]
    top = counts[STATE_COUNT]
    small, big = (a, b) if highs[a] - lows[a] <= highs[b] - lows[b] else (b, a)
    one, two = ListSpan(lows[small], highs[small]), ListSpan(lows[big], highs[big])
    if not combine(states, one, two, near, known, space.stairs):
        return False
    end = top
    for i in range(top, counts[STATE_COUNT]):
        fits = True
        for j in range(len(whole.rest)):
            fits = fits and values[i, T + j] - least[a, j] - least[b, j] <= whole.rest[j]
        if fits:
            copy_point(states, i, end)
            end += 1
    counts[STATE_COUNT] = undominated_points(states, top, end)
    return name_states(states, top, counts[STATE_COUNT])


@njit(inner=True, nogil=True)
def merge_lists(active, whole, known, space):
    """Merge the lists of `active` components into one: (first, end), -1 on overflow.

    Sums whose t_j exceeds limit_j whatever the other lists add are dropped, and whole ones that
    `known` points dominate. At first `whole.rest` has the limits.
    """
    values, counts = space.states.values, space.states.counts
    lows, highs, order = space.walk.lows, space.walk.highs, space.walk.order
    roots, least, rest = whole.roots, whole.least, whole.rest
    for c in range(active):
        order[c] = c
        for j in range(len(rest)):
            least[c, j] = _least_of(values, lows[c], highs[c], T + j)
            rest[j] -= least[c, j]
    while active > 1:
        shortest_last(lows, highs, order, active)
        a, b = order[active - 1], order[active - 2]
        top = counts[STATE_COUNT]
        others = known if active == 2 else known[:0]
        if not _merge_two(a, b, whole, others, space):
            return -1, -1
        if counts[STATE_COUNT] == top:
            return top, top
        lows[b], highs[b] = top, counts[STATE_COUNT]
        for j in range(len(rest)):
            rest[j] += least[a, j] + least[b, j]
            least[b, j] = _least_of(values, top, highs[b], T + j)
            rest[j] -= least[b, j]
        for r in range(roots.shape[1]):
            roots[b, r] += roots[a, r]
        active -= 1
    return lows[order[0]], highs[order[0]]


@njit(cache=True, nogil=True)
def _make_whole(row, references, budget, components):
    """The references with a budget above -inf, and the limits."""
    wanted, count = np.empty(len(budget), dtype=np.int64), 0
    for r in range(len(budget)):
        if budget[r] > -np.inf:
            wanted[count] = r
            count += 1
    constraints = row.t.shape[0]
    weights, prices, budgets = np.zeros(count), np.zeros((count, constraints)), np.zeros(count)
    roots, rest = np.zeros((components, count)), np.zeros(constraints)
    for r in range(count):
        weights[r], budgets[r] = references.weight[wanted[r]], budget[wanted[r]]
        for j in range(constraints):
            prices[r, j] = references.price[wanted[r], j]
    for j in range(constraints):
        rest[j] = row.limits[j] - row.t[j, 0]
    plan = row.plan
    for c in range(len(plan.component_start) - 1 if len(plan.buckets) > 0 else 0):
        last = plan.component_buckets[plan.component_start[c + 1] - 1]
        for r in range(count):
            roots[c, r] = references.values[plan.buckets[last, MESSAGE], wanted[r]]
    near = Near(weights, prices, np.empty(count), np.int64(count))
    return Whole(roots, near, budgets, np.zeros((components, constraints)), rest)


@njit(inner=True, nogil=True)
def row_list(row, references, budget, known, settled, space):
    """The states of a whole row that are near some reference: (first, end), -1 on overflow.

    A budget of -inf excludes its reference. States that `known` points (h, t_1), by
    falling h, dominate may be left out, and so may those with a t between that of a `settled` point
    and that of the point before. Constants (entry 0 of h and t) are added. A row without buckets is
    one state.
    """
    plan, h, t, states = row.plan, row.h, row.t, space.states
    values, counts = states.values, states.counts
    lows, highs = space.walk.lows, space.walk.highs
    counts[STATE_COUNT], counts[NODE_COUNT] = 0, 0
    components = len(plan.component_start) - 1 if len(plan.buckets) > 0 else 0
    lists = max(1, components)
    whole = _make_whole(row, references, budget, lists)
    for c in range(components):
        lows[c], highs[c] = component_list(row, references, c, budget, space)
        if lows[c] < 0:
            return -1, -1
        if lows[c] == highs[c]:
            return 0, 0
    if components == 0:
        values[0] = 0.0
        states.node[0] = -1
        counts[STATE_COUNT] = 1
        lows[0], highs[0] = 0, 1
    others = np.empty((len(known), 3))
    for i in range(len(known)):
        others[i, H], others[i, T] = known[i, H] - h[0], known[i, T] - t[0, 0]
        others[i, SETTLED] = 1.0 if settled[i] else 0.0
    low, high = merge_lists(lists, whole, others, space)
    for i in range(max(low, 0), max(high, 0)):
        values[i, H] += h[0]
        for j in range(t.shape[0]):
            values[i, T + j] += t[j, 0]
    return low, high
