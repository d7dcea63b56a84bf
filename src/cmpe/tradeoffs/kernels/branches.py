"""The lists of one component: dynamic programming over its buckets (see `columns`).

Arrays are handed over one by one where a call does little: numba counts references for every array
that a function takes out of a tuple.
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.elimination.kernels import (
    AXES,
    AXIS_COUNT,
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    OFFSET,
    PAIRS,
    SIZE,
    STEP,
    STRIDES,
    begin,
    step,
)
from cmpe.tradeoffs.kernels.columns import (
    SHORT,
    T,
    add_node,
    combine,
    move_down,
    reaches,
    sort_list,
    thinned,
)


@njit(inner=True, nogil=True)
def settle(points, node, sizes, low, rank, scratch):
    """Bring the list from `low` to the top in order: short enough, sorted by falling -t_1.

    A `rank` of 0: nothing is left out.
    """
    if 0 < 4 * rank < sizes[0] - low:
        sizes[0] = thinned(points, node, low, sizes[0], rank, scratch)
    if sizes[0] - low > SHORT:
        sort_list(points, node, low, sizes[0], T, scratch)


@njit(cache=True, nogil=True)
def _join_list(points, node, nodes, sizes, bottom, first, end, need, rank, scratch):
    """The states from `bottom` on become their sums with those of a list; False without room."""
    high = sizes[0]
    if not combine(points, node, nodes, sizes, (bottom, high), (first, end), need, scratch):
        return False
    move_down(points, node, high, sizes, bottom)
    settle(points, node, sizes, bottom, rank, scratch)
    return True


@njit(cache=True, nogil=True)
def _pair_list(
    inputs, first, count, a, leaf, offsets, values, base, entries, points, node, nodes, sizes,
    starts, ends, rank, scratch,
):  # fmt: skip
    """The states of one value of one bucket entry, on top; False without room.

    `base` is what the whole pair needs; `leaf` its node.
    """
    bottom, columns = sizes[0], points.shape[1]
    if leaf < 0 or bottom + 1 >= len(points):
        return False
    node[bottom] = leaf
    sizes[0] = bottom + 1
    for r in range(columns):
        points[bottom, r] = 0.0
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
        low, end = starts[place - entries], ends[place - entries]
        if sizes[0] - bottom == 1 and end - low == 1:  # the usual case
            node[bottom] = add_node(nodes, sizes, node[bottom], node[low])
            for r in range(columns):
                points[bottom, r] += points[low, r]
            if node[bottom] < 0:
                return False
            if not reaches(points, bottom, base):
                sizes[0] = bottom
        elif not _join_list(points, node, nodes, sizes, bottom, low, end, base, rank, scratch):
            return False
        if sizes[0] == bottom:
            break
    return True


@njit(inner=True, nogil=True)
def component_list(plan, c, values, loss, reach, budget, rank, work):
    """The states of component c that may belong to an answer, on top; False without room."""
    points, node, nodes, sizes, starts, ends, _, _, scratch, _, _ = work
    buckets, inputs, columns, entries = plan.buckets, plan.inputs, points.shape[1], plan.entries
    digits = np.zeros(plan.widest, dtype=np.int64)
    offsets = np.zeros(plan.most_inputs, dtype=np.int64)
    base = np.empty(columns)
    bottom, low = sizes[0], sizes[0]
    for b in range(plan.component_start[c], plan.component_start[c + 1]):
        k = plan.component_buckets[b]
        card = buckets[k, CARD]
        begin(buckets, inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            target = buckets[k, MESSAGE] + entry
            here = target - entries
            low = sizes[0]
            for a in range(card):
                pair = buckets[k, PAIRS] + entry * card + a
                is_near = True
                for r in range(columns):
                    is_near &= loss[pair, r] + reach[here, r] <= budget[r]
                if not is_near:
                    continue
                for r in range(columns):
                    base[r] = values[target, r] + reach[here, r] - budget[r]
                if not _pair_list(
                    inputs, buckets[k, INPUTS], buckets[k, INPUT_COUNT], a,
                    add_node(nodes, sizes, -1 - a, -1 - k), offsets, values, base, entries,
                    points, node, nodes, sizes, starts, ends, rank, scratch,
                ):  # fmt: skip
                    return False
            if sizes[0] - low > SHORT:
                settle(points, node, sizes, low, rank, scratch)
            starts[here], ends[here] = low, sizes[0]
            step(buckets, inputs, plan.strides, plan.axis_cards, k, digits, offsets)
    move_down(points, node, low, sizes, bottom)  # only the root's list is needed any more
    return True


@njit(inner=True, nogil=True)
def component_maximiser(plan, c, values, loss, column, choice, total):
    """Add the columns of component c's maximiser in `column` to `total`; `choice` says it.

    The first value of no loss is the maximiser. Parents come before children.
    """
    buckets, inputs, strides = plan.buckets, plan.inputs, plan.strides
    axis_buckets, axis_strides = plan.axis_buckets, plan.axis_strides
    for b in range(plan.component_start[c + 1] - 1, plan.component_start[c] - 1, -1):
        k = plan.component_buckets[b]
        axes, card, entry = buckets[k, AXES], buckets[k, CARD], 0
        for axis in range(buckets[k, AXIS_COUNT]):
            entry += axis_strides[axes + axis] * choice[axis_buckets[axes + axis]]
        pair = buckets[k, PAIRS] + entry * card
        a = 0
        while a < card - 1 and loss[pair + a, column] > 0.0:
            a += 1
        choice[k] = a
        for i in range(buckets[k, INPUTS], buckets[k, INPUTS] + buckets[k, INPUT_COUNT]):
            if inputs[i, CHILD] >= 0:
                continue
            place = inputs[i, OFFSET] + a * inputs[i, STEP]
            for axis in range(buckets[k, AXIS_COUNT]):
                stride = strides[inputs[i, STRIDES] + axis]
                if stride > 0:
                    place += stride * choice[axis_buckets[axes + axis]]
            for r in range(len(total)):
                total[r] += values[place, r]
