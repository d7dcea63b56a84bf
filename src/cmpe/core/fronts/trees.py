"""The dynamic programme over the bucket trees: lists of states near some reference.

A partial assignment is kept if, at one of the references, its loss and the least loss that the rest
of the row must add are within that reference's budget. What another of its entry dominates goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.core.buckets import CARD, CHILD, INPUT_COUNT, INPUTS, MESSAGE, PAIRS, SIZE, STEP
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import begin, step
from cmpe.core.fronts.lists import H, T, copy_state, kept_states, name_states, projected
from cmpe.core.fronts.pairs import combine


def workspace(states: int, messages: int, constraints: int, plan: Any) -> Any:
    """Arrays that all rows of one thread share; of the large ones only what is used is there."""
    components = len(plan.component_start) - 1
    return (
        np.empty((states, T + constraints)),  # points
        np.empty(states, dtype=np.int32),  # node of each
        np.empty((states, 2), dtype=np.int32),  # parts of those that have no node yet
        np.empty((4 * states, 2), dtype=np.int32),  # nodes: two parts, or a value and a bucket
        np.zeros(4, dtype=np.int64),  # how many states, nodes, sums looked at, sums allowed
        np.zeros(messages, dtype=np.int64),  # the list of each message entry: first
        np.zeros(messages, dtype=np.int64),  # and end
        np.zeros(plan.widest, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
        np.zeros(components + 1, dtype=np.int64),  # the list of each component: first
        np.zeros(components + 1, dtype=np.int64),  # and end
        np.empty(max(1 << 18, states // 4)),  # the highest h below each t
    )


@njit(cache=True, nogil=True)
def _add_leaf(points, node, parts, nodes, sizes, value, k):
    """A state for a value of bucket k, on top, with no h and t yet; False without room."""
    top, count = sizes[0], sizes[1]
    if top + 2 >= len(points) or count >= len(nodes):
        return False
    points[top] = 0.0
    nodes[count, 0], nodes[count, 1] = -1 - value, -1 - k
    parts[top, 0], parts[top, 1] = nodes[count, 0], nodes[count, 1]
    node[top] = count
    sizes[0], sizes[1] = top + 1, count + 1
    return True


@njit(cache=True, nogil=True)
def _join_single(points, node, nodes, sizes, state, other):
    """`state` becomes its sum with `other`; False without room."""
    count = sizes[1]
    if count >= len(nodes):
        return False
    for column in range(points.shape[1]):
        points[state, column] += points[other, column]
    nodes[count, 0], nodes[count, 1] = node[state], node[other]
    node[state] = count
    sizes[1] = count + 1
    return True


@njit(cache=True, nogil=True)
def _add_child(points, node, parts, nodes, sizes, bottom, child, scan, stairs):
    """Join the states from `bottom` on with a child's list: True, or False without room.

    `scan` is (weights, prices, needs, active): the references that are still near.
    """
    weights, prices, needs, active = scan
    high = sizes[0]
    if high - bottom == 1 and child[1] - child[0] == 1:  # the usual case
        if not _join_single(points, node, nodes, sizes, bottom, child[0]):
            return False
        parts[bottom] = nodes[node[bottom]]
        if not _is_near(points, bottom, weights, prices, needs, active):
            sizes[0] = bottom
        return True
    if not combine(
        points, node, parts, sizes, (bottom, high), child, weights, prices, needs, active,
        np.empty((0, 3)), stairs,
    ):  # fmt: skip
        return False
    end = kept_states(points, parts, high, sizes[0])
    for state in range(high, end):
        copy_state(points, parts, state, bottom + state - high)
    sizes[0] = bottom + end - high
    return name_states(parts, node, nodes, sizes, bottom, sizes[0])


@njit(cache=True, nogil=True)
def _pair_states(plan, k, a, h, t, values, near, scan, base, work):
    """The states of one value of one bucket entry, on top; False on overflow.

    `near` are the numbers of the references in `scan`; `base` is what each asks of the pair.
    """
    (points, node, parts, nodes, sizes, starts, ends, _, offsets, _, _, stairs) = work
    inputs, entries, active = plan.inputs, plan.entries, scan[3]
    first, count = plan.buckets[k, INPUTS], plan.buckets[k, INPUT_COUNT]
    bottom = sizes[0]
    if not _add_leaf(points, node, parts, nodes, sizes, a, k):
        return False
    for i in range(count):
        place = offsets[i] + a * inputs[first + i, STEP]
        if inputs[first + i, CHILD] < 0:
            points[bottom, H] += h[place]
            for j in range(t.shape[0]):
                points[bottom, T + j] += t[j, place]
        else:
            for r in range(active):
                base[r] -= values[place, near[r]]
    for i in range(count):
        if inputs[first + i, CHILD] < 0:
            continue
        place = offsets[i] + a * inputs[first + i, STEP]
        for r in range(active):
            base[r] += values[place, near[r]]
            scan[2][r] = base[r]
        child = (starts[place - entries], ends[place - entries])
        if not _add_child(points, node, parts, nodes, sizes, bottom, child, scan, stairs):
            return False
        if sizes[0] == bottom:
            break
    return True


@njit(inner=True, nogil=True)
def component_list(plan, c, h, t, tables, weight, price, budget, work):
    """The states of component c that are near some reference: (first, end), -1 on overflow.

    `tables` are values (total, K), loss (pairs, K) and reach (messages, K) of the references.
    """
    values, loss, reach = tables
    points, node, parts, sizes = work[0], work[1], work[2], work[4]
    starts, ends, digits, offsets = work[5], work[6], work[7], work[8]
    buckets = plan.buckets
    references = len(weight)
    weights, prices = np.zeros(references), np.zeros((references, t.shape[0]))
    base, needs = np.zeros(references), np.zeros(references)
    near = np.zeros(references, dtype=np.int64)
    bottom_of_all, low = sizes[0], sizes[0]
    for b in range(plan.component_start[c], plan.component_start[c + 1]):
        k = plan.component_buckets[b]
        card = buckets[k, CARD]
        begin(buckets, plan.inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            target = buckets[k, MESSAGE] + entry
            here = target - plan.entries
            low = sizes[0]
            for a in range(card):
                pair = buckets[k, PAIRS] + entry * card + a
                active = np.int64(0)  # not 0: numba would compile callees for that number, too
                for r in range(references):
                    if loss[pair, r] + reach[here, r] <= budget[r]:
                        weights[active] = weight[r]
                        for j in range(t.shape[0]):  # a slice would cost more
                            prices[active, j] = price[r, j]
                        base[active] = values[target, r] + reach[here, r] - budget[r]
                        near[active] = r
                        active += 1
                scan = (weights, prices, needs, active)
                if active > 0 and not _pair_states(
                    plan, k, a, h, t, values, near, scan, base, work
                ):
                    return -1, -1
            if sizes[0] - low > 1:
                _reorder(points, node, parts, low, sizes)
            starts[here], ends[here] = low, sizes[0]
            step(buckets, plan.inputs, plan.strides, plan.axis_cards, k, digits, offsets)
    for state in range(low, sizes[0]):  # only the root's list is needed any more
        points[bottom_of_all + state - low] = points[state]
        node[bottom_of_all + state - low] = node[state]
    sizes[0] = bottom_of_all + sizes[0] - low
    return bottom_of_all, sizes[0]


@njit(cache=True, nogil=True)
def _is_near(points, state, weights, prices, needs, active):
    for r in range(active):
        if projected(points, state, weights, prices, r) >= needs[r]:
            return True
    return False


@njit(cache=True, nogil=True)
def _reorder(points, node, parts, low, sizes):
    """Keep what is not dominated of states that have nodes."""
    for i in range(low, sizes[0]):
        parts[i, 0], parts[i, 1] = node[i], -1
    sizes[0] = kept_states(points, parts, low, sizes[0])
    for i in range(low, sizes[0]):
        node[i] = parts[i, 0]


@njit(cache=True, nogil=True)
def _least_of(points, low, high, column):
    least = np.inf
    for i in range(low, high):
        least = min(least, points[i, column])
    return least


@njit(cache=True, nogil=True)
def _merge_two(a, b, roots, least, rest, weight, price, budget, known, work):
    """The sums of lists a and b that may stay, on top: False on overflow."""
    (points, node, parts, nodes, sizes, _, _, _, _, lows, highs, stairs) = work
    needs = np.empty(len(weight))
    for r in range(len(weight)):
        needs[r] = roots[a, r] + roots[b, r] - budget[r]
    top = sizes[0]
    small, big = (a, b) if highs[a] - lows[a] <= highs[b] - lows[b] else (b, a)
    if not combine(
        points, node, parts, sizes, (lows[small], highs[small]), (lows[big], highs[big]),
        weight, price, needs, len(weight), known, stairs,
    ):  # fmt: skip
        return False
    kept = top
    for i in range(top, sizes[0]):
        fits = True
        for j in range(points.shape[1] - T):
            fits = fits and points[i, T + j] - least[a, j] - least[b, j] <= rest[j]
        if fits:
            copy_state(points, parts, i, kept)
            kept += 1
    sizes[0] = kept_states(points, parts, top, kept)
    return name_states(parts, node, nodes, sizes, top, sizes[0])


@njit(inner=True, nogil=True)
def merge_lists(active, roots, weight, price, budget, limits, known, work):
    """Merge the lists of `active` components into one: (first, end), -1 on overflow.

    roots (components, K): what each component reaches at each reference. Sums whose t_j exceeds
    limit_j whatever the other lists add are dropped, and whole ones that `known` ones dominate.
    """
    points, sizes, lows, highs = work[0], work[4], work[9], work[10]
    constraints = points.shape[1] - T
    least, rest = np.zeros((active, constraints)), np.zeros(constraints)
    for j in range(constraints):
        for c in range(active):
            least[c, j] = _least_of(points, lows[c], highs[c], T + j)
        rest[j] = limits[j]
        for c in range(active):
            rest[j] -= least[c, j]
    while active > 1:
        a, b = _two_shortest(lows, highs, active)
        top = sizes[0]
        others = known if active == 2 else known[:0]
        if not _merge_two(a, b, roots, least, rest, weight, price, budget, others, work):
            return -1, -1
        if sizes[0] == top:
            return top, top
        lows[a], highs[a] = top, sizes[0]
        for j in range(constraints):
            rest[j] += least[a, j] + least[b, j]
            least[a, j] = _least_of(points, top, sizes[0], T + j)
            rest[j] -= least[a, j]
        for r in range(len(weight)):
            roots[a, r] += roots[b, r]
        last = active - 1
        if b != last:
            lows[b], highs[b] = lows[last], highs[last]
            roots[b], least[b] = roots[last], least[last]
        active -= 1
    return lows[0], highs[0]


@njit(cache=True, nogil=True)
def _two_shortest(lows, highs, active):
    """The numbers of the two shortest lists, the lower number first."""
    a, b = 0, 1
    if highs[1] - lows[1] < highs[0] - lows[0]:
        a, b = 1, 0
    for c in range(2, active):
        if highs[c] - lows[c] < highs[a] - lows[a]:
            a, b = c, a
        elif highs[c] - lows[c] < highs[b] - lows[b]:
            b = c
    return min(a, b), max(a, b)


@njit(inner=True, nogil=True)
def row_list(plan, h, t, tables, weight, price, budget, limits, known, settled, work):
    """The states of a whole row that are near some reference: (first, end), -1 on overflow.

    A budget of -inf: nothing near that reference is wanted. What `known` points (h, t_1), by
    falling h, dominate may be left out, and so may what has its t between one that is `settled` and
    the one before. Constants (entry 0 of h and t) are added. A bucket-free
    row is one state.
    """
    points, node, sizes, lows, highs = work[0], work[1], work[4], work[9], work[10]
    sizes[0], sizes[1] = 0, 0
    components = len(plan.component_start) - 1 if len(plan.buckets) > 0 else 0
    wanted, count = np.empty(len(budget), dtype=np.int64), 0
    for r in range(len(budget)):
        if budget[r] > -np.inf:
            wanted[count] = r
            count += 1
    weights, prices, budgets = np.zeros(count), np.zeros((count, t.shape[0])), np.zeros(count)
    roots, rest = np.zeros((components, count)), np.zeros(t.shape[0])
    for r in range(count):
        weights[r], budgets[r] = weight[wanted[r]], budget[wanted[r]]
        for j in range(t.shape[0]):
            prices[r, j] = price[wanted[r], j]
    for j in range(t.shape[0]):
        rest[j] = limits[j] - t[j, 0]
    for c in range(components):
        lows[c], highs[c] = component_list(plan, c, h, t, tables, weight, price, budget, work)
        if lows[c] < 0:
            return -1, -1
        if lows[c] == highs[c]:
            return 0, 0
        root = plan.buckets[plan.component_buckets[plan.component_start[c + 1] - 1], MESSAGE]
        for r in range(count):
            roots[c, r] = tables[0][root, wanted[r]]
    if components == 0:
        points[0] = 0.0
        node[0] = -1
        sizes[0] = 1
        lows[0], highs[0] = 0, 1
    others, lists = np.empty((len(known), 3)), max(1, components)
    for i in range(len(known)):
        others[i, 0], others[i, 1] = known[i, 0] - h[0], known[i, 1] - t[0, 0]
        others[i, 2] = 1.0 if settled[i] else 0.0
    low, high = merge_lists(lists, roots, weights, prices, budgets, rest, others, work)
    for i in range(max(low, 0), max(high, 0)):
        points[i, H] += h[0]
        for j in range(t.shape[0]):
            points[i, T + j] += t[j, 0]
    return low, high
