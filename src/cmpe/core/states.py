"""States of the exact engine's dynamic programme, and lists of them.

A state is a partial assignment: its loss, its t_1..t_m, and its cost = loss - sum mu_j t_j
(a low cost is a high h). A list of states is sorted by cost and holds only those that are not
dominated: no other has a cost and all t_j as low. For the k best answers it holds those that
fewer than k others dominate. A node remembers which two nodes made a state, or is -1 - value and
-1 - bucket, so that the assignment can be read back.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import replace_highest

LOSS, COST, T = range(3)  # columns of a state; t_j is in column T + j
MOST_PRODUCTS = 1 << 16  # of one combination, where one answer is looked for
TILT = 0.2  # of mu: the two further multipliers that prune merged states


@njit(inner=True, nogil=True)
def copy_state(states, node, source, target):
    """State `target` becomes state `source`."""
    node[target] = node[source]
    for column in range(states.shape[1]):
        states[target, column] = states[source, column]


@njit(cache=True, nogil=True)
def _sort(states, node, low, high):
    """Shell sort of states low..high by cost, then by t_1 (state `high` is a spare place)."""
    gap = 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            own, first = states[i, COST], states[i, T]
            j = i
            if states[j - gap, COST] < own or (
                states[j - gap, COST] == own and states[j - gap, T] <= first
            ):
                continue
            copy_state(states, node, i, high)
            while j - gap >= low and (
                states[j - gap, COST] > own
                or (states[j - gap, COST] == own and states[j - gap, T] > first)
            ):
                copy_state(states, node, j - gap, j)
                j -= gap
            copy_state(states, node, high, j)
        gap //= 3


@njit(inner=True, nogil=True)
def undominated(states, node, low, high):
    """Sort states low..high by cost and keep those with some t_j lower than each before."""
    if high - low < 2:
        return high
    _sort(states, node, low, high)
    kept = low + 1
    if states.shape[1] == T + 1:
        least = states[low, T]
        for i in range(low + 1, high):
            if states[i, T] < least:
                least = states[i, T]
                copy_state(states, node, i, kept)
                kept += 1
        return kept
    for i in range(low + 1, high):
        dominated = False
        for other in range(low, kept):
            dominated = True
            for j in range(states.shape[1] - T):
                if states[i, T + j] < states[other, T + j]:
                    dominated = False
                    break
            if dominated:
                break
        if not dominated:
            copy_state(states, node, i, kept)
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _thinned(states, node, low, high, rank, heap):
    """Sort states low..high by cost; keep what fewer than `rank` before it dominate by t_1.

    A heap holds the `rank` lowest t_1 so far.
    """
    _sort(states, node, low, high)
    for i in range(rank):
        heap[i] = np.inf
    kept = low
    for i in range(low, high):
        own = states[i, T]
        if heap[0] <= own:
            continue
        replace_highest(heap, rank, own)
        copy_state(states, node, i, kept)
        kept += 1
    return kept


@njit(inner=True, nogil=True)
def settled(states, node, low, high, rank, heap):
    """Of states low..high what may belong to one of the `rank` best answers: the new end."""
    if rank == 1:
        return undominated(states, node, low, high)
    if states.shape[1] == T + 1 and high - low > 4 * rank:
        return _thinned(states, node, low, high, rank, heap)
    return high


@njit(inner=True, nogil=True)
def combine(states, node, nodes, sizes, a_low, a_high, b_low, b_high, budget, share, tilted):
    """All sums of a state of list a and one of list b within the budgets, behind the last state.

    A sum stays if its loss is at most `budget`, and loss -+ share (loss - cost) at most
    `tilted[0 or 1]`. sizes[0] counts states, sizes[1] nodes, sizes[2] sums; sizes[3] sums are
    allowed, and sizes[4] in one combination. False on overflow.
    """
    top, count = sizes[0], sizes[1]
    products = (a_high - a_low) * (b_high - b_low)
    sizes[2] += products
    if products > sizes[4] or sizes[2] > sizes[3]:
        return False
    for i in range(a_low, a_high):
        own_loss, own_cost, own_node = states[i, LOSS], states[i, COST], node[i]
        if top + b_high - b_low >= len(states) or count + b_high - b_low > len(nodes):
            return False
        for other in range(b_low, b_high):
            both, both_cost = own_loss + states[other, LOSS], own_cost + states[other, COST]
            tilt = share * (both - both_cost)
            if both <= budget and both - tilt <= tilted[0] and both + tilt <= tilted[1]:
                states[top, LOSS], states[top, COST], node[top] = both, both_cost, count
                for j in range(states.shape[1] - T):
                    states[top, T + j] = states[i, T + j] + states[other, T + j]
                nodes[count, 0], nodes[count, 1] = own_node, node[other]
                top += 1
                count += 1
    sizes[0], sizes[1] = top, count
    return True


@njit(inner=True, nogil=True)
def within(states, state, budget, share, under, over):
    """Whether a state is within the budgets, as in `combine`."""
    loss = states[state, LOSS]
    tilt = share * (loss - states[state, COST])
    return loss <= budget and loss - tilt <= under and loss + tilt <= over


@njit(inner=True, nogil=True)
def add_single(states, node, nodes, sizes, state, other):
    """`state` becomes its sum with `other`; False if there is no room for the node."""
    made = sizes[1]
    if made >= len(nodes):
        return False
    states[state, LOSS] += states[other, LOSS]
    states[state, COST] += states[other, COST]
    for j in range(states.shape[1] - T):
        states[state, T + j] += states[other, T + j]
    nodes[made, 0], nodes[made, 1] = node[state], node[other]
    node[state] = made
    sizes[1] = made + 1
    return True


@njit(inner=True, nogil=True)
def add_leaf(states, node, nodes, sizes, lost, a, k):
    """A new state behind the last one: bucket k takes value a; False if full."""
    bottom, leaf = sizes[0], sizes[1]
    if bottom + 1 >= len(states) or leaf >= len(nodes):
        return False
    states[bottom, LOSS], states[bottom, COST], node[bottom] = lost, lost, leaf
    nodes[leaf, 0], nodes[leaf, 1] = -1 - a, -1 - k
    sizes[0], sizes[1] = bottom + 1, leaf + 1
    return True


@njit(inner=True, nogil=True)
def read(nodes, root, stack, block, lane):
    """What a node decides, into column `lane` of `block` (buckets, lanes); -1: nothing."""
    depth = 0
    if root >= 0:
        stack[0] = root
        depth = 1
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if nodes[here, 1] < 0:
            block[-1 - nodes[here, 1], lane] = -1 - nodes[here, 0]
        else:
            stack[depth], stack[depth + 1] = nodes[here, 0], nodes[here, 1]
            depth += 2
