"""The lists of one component: dynamic programming over its buckets (see `columns`).

`work` is `ranks.workspace`: points, nodes, sizes, lists by message entry and by component, scratch.
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.elimination.kernels import (
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
from cmpe.tradeoffs.kernels.columns import (
    SHORT,
    T,
    add_node,
    combine,
    reaches,
    sort_list,
    thinned,
)


@njit(inner=True, nogil=True)
def settle(low, rank, is_thinned, work):
    """Bring the list from `low` to the top in order: short enough, sorted by falling -t_1."""
    points, node, sizes = work[0], work[1], work[3]
    if is_thinned and sizes[0] - low > 4 * rank:
        sizes[0] = thinned(points, node, low, sizes[0], rank, work[7][2], work[6])
    if sizes[0] - low > SHORT:
        sort_list(points, node, low, sizes[0], T, work[6])


@njit(cache=True, nogil=True)
def _join_list(bottom, child, need, rank, is_thinned, work):
    """The states from `bottom` on become their sums with a list; False without room."""
    points, node, nodes, sizes = work[0], work[1], work[2], work[3]
    high = sizes[0]
    if high - bottom == 1 and child[1] - child[0] == 1:  # the usual case
        made = add_node(nodes, sizes, node[bottom], node[child[0]])
        for r in range(points.shape[1]):
            points[bottom, r] += points[child[0], r]
        node[bottom] = made
        if not reaches(points, bottom, need):
            sizes[0] = bottom
        return made >= 0
    if not combine(points, node, nodes, sizes, (bottom, high), child, need, work[7][0], work[7][1]):
        return False
    for state in range(high, sizes[0]):
        points[bottom + state - high] = points[state]
        node[bottom + state - high] = node[state]
    sizes[0] += bottom - high
    settle(bottom, rank, is_thinned, work)
    return True


@njit(cache=True, nogil=True)
def _pair_list(plan, k, a, offsets, values, base, need, rank, is_thinned, work):
    """The states of one value of one bucket entry, on top; False without room.

    `base` is what the whole pair needs.
    """
    points, node, nodes, sizes, lists = work[0], work[1], work[2], work[3], work[4]
    inputs, columns = plan.inputs, points.shape[1]
    first, count = plan.buckets[k, INPUTS], plan.buckets[k, INPUT_COUNT]
    bottom = sizes[0]
    leaf = add_node(nodes, sizes, -1 - a, -1 - k)
    if leaf < 0 or bottom + 1 >= len(points):
        return False
    points[bottom] = 0.0
    node[bottom] = leaf
    sizes[0] = bottom + 1
    for i in range(count):
        place = offsets[i] + a * inputs[first + i, STEP]
        if inputs[first + i, CHILD] < 0:
            for r in range(columns):
                points[bottom, r] += values[place, r]
        else:
            for r in range(columns):
                base[r] -= values[place, r]
    for i in range(count):
        if inputs[first + i, CHILD] < 0:
            continue
        place = offsets[i] + a * inputs[first + i, STEP]
        for r in range(columns):
            base[r] += values[place, r]
            need[r] = base[r]
        here = place - plan.entries
        if not _join_list(bottom, (lists[0, here], lists[1, here]), need, rank, is_thinned, work):
            return False
        if sizes[0] == bottom:
            break
    return True


@njit(inner=True, nogil=True)
def component_list(plan, c, tables, budget, rank, is_thinned, work):
    """The states of component c that may belong to an answer, on top; False without room."""
    values, loss, reach = tables
    points, node, sizes, lists = work[0], work[1], work[3], work[4]
    buckets, columns = plan.buckets, points.shape[1]
    digits = np.zeros(plan.widest, dtype=np.int64)
    offsets = np.zeros(plan.most_inputs, dtype=np.int64)
    base, need = np.empty(columns), np.empty(columns)
    bottom, low = sizes[0], sizes[0]
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
                is_near = True
                for r in range(columns):
                    is_near &= loss[pair, r] + reach[here, r] <= budget[r]
                    base[r] = values[target, r] + reach[here, r] - budget[r]
                if is_near and not _pair_list(
                    plan, k, a, offsets, values, base, need, rank, is_thinned, work
                ):
                    return False
            settle(low, rank, is_thinned, work)
            lists[0, here], lists[1, here] = low, sizes[0]
            step(buckets, plan.inputs, plan.strides, plan.axis_cards, k, digits, offsets)
    for state in range(low, sizes[0]):  # only the root's list is needed any more
        points[bottom + state - low] = points[state]
        node[bottom + state - low] = node[state]
    sizes[0] += bottom - low
    return True
