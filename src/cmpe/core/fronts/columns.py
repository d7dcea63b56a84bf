"""Lists of partial assignments as columns of sums, all of which must be high enough.

A state is a row of numbers, one per *column*: h, then -t_1..-t_m, then h - s mu . t for several s.
Each is a sum over the assignment's table entries, so states are joined by adding rows. An
assignment with h >= H and t_j <= q_j has at least need_r in column r, where

    need = H,    -q_j,    H - s mu . q.

A partial assignment is dropped where, in some column, it and the best rest do not reach the need.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.states import (
    STATE_COUNT,
    SUM_COUNT,
    SUM_LIMIT,
    add_node,
    thin,
)

H, T = 0, 1  # columns: h, and the first -t
BLOCK = 16  # states of a list that are skipped together
RUN = 8  # numbers that are sorted by insertion
FREE = -1  # the node of an empty assignment


class ColumnRoom(NamedTuple):
    """What lists are sorted and combined with."""

    keys: Floats
    order: Integers
    spare: Integers
    moved: Floats  # (S, columns)
    node: Integers
    heap: Floats  # (rank,)
    rest: Floats  # (columns,)
    highest: Floats  # (blocks, columns) of the states of each block


@njit(inner=True, nogil=True, counted=False)
def sort_rows(keys, order, spare, count):
    """`order` becomes the numbers 0..count by falling key (merge sort, of runs by insertion)."""
    for i in range(count):
        place, low = i, i // RUN * RUN
        while place > low and keys[order[place - 1]] < keys[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    width = RUN
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            if middle >= high or keys[order[middle - 1]] >= keys[order[middle]]:
                continue  # in order already
            a, b, place = low, middle, low
            while a < middle and b < high:
                if keys[order[a]] >= keys[order[b]]:
                    spare[place] = order[a]
                    a += 1
                else:
                    spare[place] = order[b]
                    b += 1
                place += 1
            for left in range(middle - 1, a - 1, -1):  # the rest of the first run goes last
                order[left + high - middle] = order[left]
            for i in range(low, place):
                order[i] = spare[i]
        width *= 2


@njit(inner=True, nogil=True)
def falling(values):
    """The numbers of `values` by falling value; equal ones stay in order."""
    count = len(values)
    keys, order = np.empty(count), np.empty(count, dtype=np.int64)
    keys[:] = values
    sort_rows(keys, order, np.empty(count, dtype=np.int64), count)
    return order


@njit(inner=True, nogil=True, counted=False)
def sort_list(states, low, high, column, scratch):
    """Sort states low..high by falling `column`."""
    values, node, moved = states.values, states.node, scratch.moved
    keys, order, count = scratch.keys, scratch.order, high - low
    for i in range(count):
        keys[i] = values[low + i, column]
        for r in range(values.shape[1]):
            moved[i, r] = values[low + i, r]
        scratch.node[i] = node[low + i]
    sort_rows(keys, order, scratch.spare, count)
    for i in range(count):
        for r in range(values.shape[1]):
            values[low + i, r] = moved[order[i], r]
        node[low + i] = scratch.node[order[i]]


@njit(inner=True, nogil=True, counted=False)
def thinned(states, low, high, scratch):
    """Keep what fewer than len(heap) of states low..high dominate in h and -t_1: the new end."""
    sort_list(states, low, high, H, scratch)
    return thin(states, low, high, T, -1.0, scratch.heap)


@njit(inner=True, nogil=True, counted=False)
def reaches(values, state, need):
    """Whether every column of a state is high enough; the last ones fail most often."""
    for r in range(len(need) - 1, -1, -1):
        if values[state, r] < need[r]:
            return False
    return True


@njit(inner=True, nogil=True, counted=False)
def combine(states, a_low, a_high, b_low, b_high, need, scratch):
    """Sums of a state of list a and one of b that reach the need, on top; False without room."""
    values, node, counts = states.values, states.node, states.counts
    rest, highest = scratch.rest, scratch.highest
    columns, top = values.shape[1], counts[STATE_COUNT]
    blocks = (b_high - b_low + BLOCK - 1) // BLOCK
    for block in range(blocks):
        first = b_low + block * BLOCK
        for r in range(columns):
            highest[block, r] = values[first, r]
        for other in range(first + 1, min(first + BLOCK, b_high)):
            for r in range(columns):
                highest[block, r] = max(highest[block, r], values[other, r])
    for i in range(a_low, a_high):
        for r in range(columns):
            rest[r] = need[r] - values[i, r]
        for block in range(blocks):
            if not reaches(highest, block, rest):
                continue
            first = b_low + block * BLOCK
            last = min(first + BLOCK, b_high)
            counts[SUM_COUNT] += last - first
            if top + BLOCK >= len(values):
                return False
            for other in range(first, last):
                if reaches(values, other, rest):
                    both = add_node(states, node[i], node[other])
                    if both < 0:
                        return False
                    for r in range(columns):
                        values[top, r] = values[i, r] + values[other, r]
                    node[top] = both
                    top += 1
        if counts[SUM_COUNT] > counts[SUM_LIMIT]:
            return False
    counts[STATE_COUNT] = top
    return True
