"""Lists of partial assignments by their values, as fronts are built of them.

A state is a row of `points`: h, then t_1..t_m. `node` says how it was made: of two nodes, or of one
bucket's value. A list is sorted by falling h. While states are being collected their two parts wait
in `parts`; those that stay get a node.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.columns import falling

H, T = 0, 1  # columns of a state; t_j is in column T + j
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
def _by_falling_h(points, low, high):
    """The numbers of states low..high, from 0 on, by falling h; equal ones stay in order.

    Each goes to one of as many bins, which are sorted by insertion; by merging if one is crowded.
    """
    count = high - low
    keys, bins, starts = np.empty(count), np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    least, most, crowd = np.inf, -np.inf, 0
    for i in range(count):
        keys[i] = points[low + i, H]
        least, most = min(least, keys[i]), max(most, keys[i])
    scale = (count - 1) / (most - least) if least < most else 0.0
    for i in range(count):
        bins[i] = int((most - keys[i]) * scale)
        starts[bins[i] + 1] += 1
        crowd = max(crowd, starts[bins[i] + 1])
    if crowd > SMALL or not scale < np.inf:
        return falling(keys)
    for i in range(count):
        starts[i + 1] += starts[i]
    order = np.empty(count, dtype=np.int64)
    for i in range(count):
        order[starts[bins[i]]] = i
        starts[bins[i]] += 1
    for i in range(1, count):
        own, place = order[i], i
        while place > 0 and keys[order[place - 1]] < keys[own]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = own
    return order


@njit(cache=True, nogil=True)
def _front_of_many(points, parts, low, high):
    """The same for one t: a sweep in the order of falling h."""
    order = _by_falling_h(points, low, high)
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


@njit(inner=True, nogil=True)
def projected(points, state, weights, prices, k):
    """weight_k h - price_k . t of a state."""
    value = weights[k] * points[state, H]
    for j in range(prices.shape[1]):
        value -= prices[k, j] * points[state, T + j]
    return value


@njit(inner=True, nogil=True)
def add_sum(points, node, parts, top, i, other):
    """State `top` becomes the sum of two others."""
    for column in range(points.shape[1]):
        points[top, column] = points[i, column] + points[other, column]
    parts[top, 0], parts[top, 1] = node[i], node[other]


@njit(inner=True, nogil=True)
def _reach(points, state, weights, prices, active, out):
    """What a state reaches at each reference (written so that it vectorises for one constraint)."""
    h, t = points[state, H], points[state, T]
    for k in range(active):
        out[k] = weights[k] * h - prices[k, 0] * t
    for j in range(1, prices.shape[1]):
        t = points[state, T + j]
        for k in range(active):
            out[k] -= prices[k, j] * t


@njit(cache=True, nogil=True)
def _near_ones(reached, highest, needs, active, near, left):
    """The references that some sum may be near, and what each still needs: how many."""
    count = 0
    for k in range(active):
        near[count], left[count] = k, needs[k] - reached[k]
        count += 1 if highest[k] >= left[count] else 0
    return count


@njit(inner=True, nogil=True)
def all_sums(points, node, parts, sizes, a, b, weights, prices, needs, active):
    """Sums of short lists that some reference calls near (as `pairs.combine`), all looked at."""
    top, last = sizes[0], 0
    near, left = np.empty(active, dtype=np.int64), np.empty(active)
    reached, highest = np.empty(active), np.full(active, -np.inf)
    for other in range(b[0], b[1]):
        _reach(points, other, weights, prices, active, reached)
        for k in range(active):
            highest[k] = reached[k] if reached[k] > highest[k] else highest[k]
    for i in range(a[0], a[1]):
        _reach(points, i, weights, prices, active, reached)
        count = _near_ones(reached, highest, needs, active, near, left)
        for other in range(b[0], b[1] if count > 0 else 0):
            if top + 2 >= len(points):
                return False
            for c in range(count):  # from the one that the state before was near
                own = last + c - (count if last + c >= count else 0)
                if projected(points, other, weights, prices, near[own]) >= left[own]:
                    add_sum(points, node, parts, top, i, other)
                    top, last = top + 1, own
                    break
        last = 0
    sizes[0] = top
    sizes[2] += (a[1] - a[0]) * (b[1] - b[0])
    return sizes[2] <= sizes[3]
