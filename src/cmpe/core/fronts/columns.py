"""Lists of partial assignments as columns of sums, all of which must be high enough.

A state is a row of numbers, one per *column*: h, then -t_1..-t_m, then h - s mu . t for several s.
Each is a sum over the assignment's table entries, so states are joined by adding rows. What is
looked for has h >= H and t_j <= q_j, so that column r of it is at least need_r, where

    need = H,    -q_j,    H - s mu . q.

A partial assignment is dropped where, in some column, it and the best rest do not reach the need.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import replace_highest

H, T = 0, 1  # columns: h, and the first -t
BLOCK = 16  # states of a list that are passed over together
RUN = 8  # numbers that are sorted by insertion
FREE = -1  # a node of nothing


@njit(inner=True, nogil=True)
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
            for left in range(middle - 1, a - 1, -1):  # what is left of the first goes last
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


@njit(inner=True, nogil=True)
def move(points, node, source, target):
    """State `target` becomes state `source` (a loop: a slice would cost more)."""
    for r in range(points.shape[1]):
        points[target, r] = points[source, r]
    node[target] = node[source]


@njit(inner=True, nogil=True)
def sort_list(points, node, low, high, column, scratch):
    """Sort states low..high by falling `column`."""
    keys, order, spare, moved, own = scratch[0], scratch[1], scratch[2], scratch[3], scratch[4]
    count = high - low
    for i in range(count):
        keys[i] = points[low + i, column]
        for r in range(points.shape[1]):
            moved[i, r] = points[low + i, r]
        own[i] = node[low + i]
    sort_rows(keys, order, spare, count)
    for i in range(count):
        for r in range(points.shape[1]):
            points[low + i, r] = moved[order[i], r]
        node[low + i] = own[order[i]]


@njit(inner=True, nogil=True)
def thinned(points, node, low, high, rank, scratch):
    """Keep of states low..high what fewer than `rank` others dominate in h and -t_1: the new end.

    In the order of falling h, a heap holds the `rank` lowest t_1 so far.
    """
    sort_list(points, node, low, high, H, scratch)
    heap = scratch[5]
    heap[:rank] = np.inf
    kept = low
    for i in range(low, high):
        own = -points[i, T]
        if heap[0] <= own:
            continue
        replace_highest(heap, rank, own)
        move(points, node, i, kept)
        kept += 1
    return kept


@njit(inner=True, nogil=True)
def reaches(points, state, need):
    """Whether every column of a state is high enough; the last ones say no most often."""
    for r in range(len(need) - 1, -1, -1):
        if points[state, r] < need[r]:
            return False
    return True


@njit(inner=True, nogil=True)
def add_node(nodes, sizes, left, right):
    """A node of two parts, or of -1 - value and -1 - bucket; -1 without room."""
    count = sizes[1]
    if count >= len(nodes):
        return -1
    nodes[count, 0], nodes[count, 1] = left, right
    sizes[1] = count + 1
    return count


@njit(inner=True, nogil=True)
def combine(points, node, nodes, sizes, a, b, need, scratch):
    """Sums of a state of list a and one of b that reach the need, on top; False without room."""
    (a_low, a_high), (b_low, b_high) = a, b
    rest, highest = scratch[6], scratch[7]
    columns, top = points.shape[1], sizes[0]
    blocks = (b_high - b_low + BLOCK - 1) // BLOCK
    for block in range(blocks):
        first = b_low + block * BLOCK
        for r in range(columns):
            highest[block, r] = points[first, r]
        for other in range(first + 1, min(first + BLOCK, b_high)):
            for r in range(columns):
                highest[block, r] = max(highest[block, r], points[other, r])
    for i in range(a_low, a_high):
        for r in range(columns):
            rest[r] = need[r] - points[i, r]
        for block in range(blocks):
            if not reaches(highest, block, rest):
                continue
            first = b_low + block * BLOCK
            last = min(first + BLOCK, b_high)
            sizes[2] += last - first
            if top + BLOCK >= len(points):
                return False
            for other in range(first, last):
                if reaches(points, other, rest):
                    made = add_node(nodes, sizes, node[i], node[other])
                    if made < 0:
                        return False
                    for r in range(columns):
                        points[top, r] = points[i, r] + points[other, r]
                    node[top] = made
                    top += 1
        if sizes[2] > sizes[3]:
            return False
    sizes[0] = top
    return True
