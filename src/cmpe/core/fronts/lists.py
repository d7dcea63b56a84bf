"""Lists of partial assignments by their values, of which fronts are built.

A state is a row of `values`: h, then t_1..t_m. A list is sorted by falling h. While states are
being collected their two parts wait in `parts`; the states that remain get a node: a front forms
many sums for each that it keeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.columns import falling
from cmpe.core.fronts.settings import FRONTS
from cmpe.core.states import LEFT, NODE_COUNT, RIGHT, STATE_COUNT, SUM_COUNT, SUM_LIMIT

H, T = 0, 1  # columns of a state; t_j is in column T + j


class PointStates(NamedTuple):
    """All states of one row and their nodes (`states.States` with parts)."""

    values: Floats  # (S, 1 + m)
    node: Any  # (S,) the node of each state, -1 for an empty assignment
    parts: Any  # (S, 2) the parts of states without a node
    nodes: Any  # (N, 2) the nodes of two parts, or -1 - value and -1 - bucket
    counts: Integers  # states, nodes, sums formed, the limit of sums (`states.STATE_COUNT` ...)


class ListSpan(NamedTuple):
    """A list: states low..high."""

    low: int
    high: int


class Near(NamedTuple):
    """What is near a reference k < active: weight_k h - price_k . t >= need_k."""

    weights: Floats  # (K,)
    prices: Floats  # (K, m)
    needs: Floats  # (K,)
    active: Any  # how many references


@njit(inner=True, nogil=True, counted=False)
def copy_point(states, source, target):
    """State `target` becomes state `source`."""
    values, parts = states.values, states.parts
    parts[target, LEFT] = parts[source, LEFT]
    parts[target, RIGHT] = parts[source, RIGHT]
    for column in range(values.shape[1]):
        values[target, column] = values[source, column]


@njit(inner=True, nogil=True, counted=False)
def _insertion_sort(states, low, high):
    """Sort states low..high by falling h, then by rising t_1 (state `high` is a spare place)."""
    values = states.values
    for i in range(low + 1, high):
        j = i
        h, first = values[i, H], values[i, T]
        copy_point(states, i, high)
        while j > low and (
            values[j - 1, H] < h or (values[j - 1, H] == h and values[j - 1, T] > first)
        ):
            copy_point(states, j - 1, j)
            j -= 1
        copy_point(states, high, j)


@njit(inner=True, nogil=True)
def sort_states(states, low, high):
    """Sort states low..high by falling h, then by rising t_1."""
    if high - low <= FRONTS.inserted:
        _insertion_sort(states, low, high)
        return
    values, parts = states.values, states.parts
    for column in (T, H):  # stable: by h, and where h is equal by t_1
        order = falling(values[low:high, column] if column == H else -values[low:high, column])
        moved, moved_parts = values[low:high].copy(), parts[low:high].copy()
        for i in range(high - low):
            values[low + i] = moved[order[i]]
            parts[low + i] = moved_parts[order[i]]


@njit(inner=True, nogil=True)
def undominated_points(states, low, high):
    """Sort states low..high; keep each that no other dominates: the new end of the list.

    A state dominates another that has no higher h and no lower t_j.
    """
    if high - low < 2:
        return high
    values = states.values
    if values.shape[1] == T + 1 and high - low > FRONTS.inserted:
        return _front_of_many(states, low, high)
    sort_states(states, low, high)
    end = low + 1
    for i in range(low + 1, high):
        dominated = False
        for other in range(end - 1, low - 1, -1):
            dominated = True
            for j in range(T, values.shape[1]):
                if values[i, j] < values[other, j]:
                    dominated = False
                    break
            if dominated or values.shape[1] == T + 1:
                break
        if not dominated:
            copy_point(states, i, end)
            end += 1
    return end


@njit(cache=True, nogil=True)
def _by_falling_h(values, low, high):
    """The numbers of states low..high, from 0 on, by falling h; equal ones stay in order.

    A bucket sort into as many bins as states, each sorted by insertion; a merge sort if one bin
    is crowded.
    """
    count = high - low
    keys, bins, starts = np.empty(count), np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    least, most, crowd = np.inf, -np.inf, 0
    for i in range(count):
        keys[i] = values[low + i, H]
        least, most = min(least, keys[i]), max(most, keys[i])
    scale = (count - 1) / (most - least) if least < most else 0.0
    for i in range(count):
        bins[i] = int((most - keys[i]) * scale)
        starts[bins[i] + 1] += 1
        crowd = max(crowd, starts[bins[i] + 1])
    if crowd > FRONTS.inserted or not scale < np.inf:
        return falling(keys)
    for i in range(count):
        starts[i + 1] += starts[i]
    order = np.empty(count, dtype=np.int64)
    for i in range(count):
        order[starts[bins[i]]] = i
        starts[bins[i]] += 1
    for i in range(1, count):
        number, place = order[i], i
        while place > 0 and keys[order[place - 1]] < keys[number]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = number
    return order


@njit(cache=True, nogil=True)
def _front_of_many(states, low, high):
    """`undominated_points` for one t: a sweep in the order of falling h."""
    values, parts = states.values, states.parts
    order = _by_falling_h(values, low, high)
    chosen = np.empty(high - low, dtype=np.int64)
    count = 0
    least = np.inf
    last = np.inf
    for i in range(len(order)):
        state = low + order[i]
        if values[state, T] < least:
            if count > 0 and values[state, H] == last:
                count -= 1  # the same h with a lower t
            chosen[count] = state
            count += 1
            least, last = values[state, T], values[state, H]
    moved, moved_parts = np.empty((count, T + 1)), np.empty((count, 2), dtype=parts.dtype)
    for i in range(count):
        state = chosen[i]
        moved[i, H], moved[i, T] = values[state, H], values[state, T]
        moved_parts[i, LEFT], moved_parts[i, RIGHT] = parts[state, LEFT], parts[state, RIGHT]
    for i in range(count):
        values[low + i, H], values[low + i, T] = moved[i, H], moved[i, T]
        parts[low + i, LEFT], parts[low + i, RIGHT] = moved_parts[i, LEFT], moved_parts[i, RIGHT]
    return low + count


@njit(inner=True, nogil=True, counted=False)
def name_states(states, low, high):
    """Give states low..high nodes of their own; False without room."""
    nodes, parts, counts = states.nodes, states.parts, states.counts
    count = counts[NODE_COUNT]
    if count + high - low > len(nodes):
        return False
    for i in range(low, high):
        nodes[count, LEFT], nodes[count, RIGHT] = parts[i, LEFT], parts[i, RIGHT]
        states.node[i] = count
        count += 1
    counts[NODE_COUNT] = count
    return True


@njit(inner=True, nogil=True, counted=False)
def projected(values, state, near, k):
    """weight_k h - price_k . t of a state."""
    value = near.weights[k] * values[state, H]
    for j in range(near.prices.shape[1]):
        value -= near.prices[k, j] * values[state, T + j]
    return value


@njit(inner=True, nogil=True, counted=False)
def is_near(values, state, near):
    """Whether a state is near some reference."""
    for k in range(near.active):
        if projected(values, state, near, k) >= near.needs[k]:
            return True
    return False


@njit(inner=True, nogil=True, counted=False)
def add_sum(states, top, i, other):
    """State `top` becomes the sum of two others."""
    values, node = states.values, states.node
    for column in range(values.shape[1]):
        values[top, column] = values[i, column] + values[other, column]
    states.parts[top, LEFT], states.parts[top, RIGHT] = node[i], node[other]


@njit(inner=True, nogil=True, counted=False)
def _reach(values, state, near, out):
    """weight_k h - price_k . t at every reference (written so that it vectorises for one t)."""
    weights, prices = near.weights, near.prices
    h, t = values[state, H], values[state, T]
    for k in range(near.active):
        out[k] = weights[k] * h - prices[k, 0] * t
    for j in range(1, prices.shape[1]):
        t = values[state, T + j]
        for k in range(near.active):
            out[k] -= prices[k, j] * t


@njit(cache=True, nogil=True, counted=False)
def _references_left(near, reached, highest, numbers, left):
    """The references that a sum may be near, and what each still needs: how many."""
    count = 0
    for k in range(near.active):
        numbers[count], left[count] = k, near.needs[k] - reached[k]
        count += 1 if highest[k] >= left[count] else 0
    return count


@njit(inner=True, nogil=True)
def all_sums(states, a, b, near):
    """Form all near sums of two short lists, on top (as `pairs.combine`); False on overflow."""
    values, counts = states.values, states.counts
    top, last = counts[STATE_COUNT], 0
    numbers, left = np.empty(near.active, dtype=np.int64), np.empty(near.active)
    reached, highest = np.empty(near.active), np.full(near.active, -np.inf)
    for other in range(b.low, b.high):
        _reach(values, other, near, reached)
        for k in range(near.active):
            highest[k] = reached[k] if reached[k] > highest[k] else highest[k]
    for i in range(a.low, a.high):
        _reach(values, i, near, reached)
        count = _references_left(near, reached, highest, numbers, left)
        for other in range(b.low, b.high if count > 0 else 0):
            if top + 2 >= len(values):
                return False
            for c in range(count):  # first the reference that the state before was near
                place = last + c - (count if last + c >= count else 0)
                if projected(values, other, near, numbers[place]) >= left[place]:
                    add_sum(states, top, i, other)
                    top, last = top + 1, place
                    break
        last = 0
    counts[STATE_COUNT] = top
    counts[SUM_COUNT] += (a.high - a.low) * (b.high - b.low)
    return counts[SUM_COUNT] <= counts[SUM_LIMIT]
