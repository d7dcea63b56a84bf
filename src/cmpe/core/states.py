"""States of the dynamic programmes over a bucket tree, and lists of them.

A state is a partial assignment: a row of numbers, one per column. A node records how it was made:
of the nodes of two other states, or of one value of one bucket, so that the assignment can be read
back. The columns of the exact engine are the state's loss, its cost = loss - sum mu_j t_j (a low
cost is a high h) and its t_1..t_m. Its lists are sorted by cost and hold undominated states only:
no other state has a cost and all t_j as low. For the k best answers a list holds the states that
fewer than k others dominate.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.loops import replace_highest

LEFT, RIGHT = range(2)  # columns of nodes: the two parts of each
BELOW, ABOVE = range(2)  # the multipliers (1 -+ share) mu that prune lists, where there are two
LOSS, COST, T = range(3)  # columns of the exact engine's states; t_j is in column T + j
# Places of `States.counts`.
STATE_COUNT, NODE_COUNT, SUM_COUNT, SUM_LIMIT, PRODUCT_LIMIT = range(5)


class States(NamedTuple):
    """All states of one row and their nodes. A list is a range of states."""

    values: Floats  # (S, columns)
    node: Integers  # (S,) the node of each state, -1 for an empty assignment
    nodes: Integers  # (N, 2) the nodes of two parts, or -1 - value and -1 - bucket
    counts: Integers  # (5,) states, nodes and sums formed; the limit of sums, and of one `combine`


class TreeWalk(NamedTuple):
    """The lists of a dynamic programme over bucket trees, and the entry that its walk is at."""

    starts: Integers  # (messages,) the list of each message entry: first state
    ends: Integers  # and end
    lows: Integers  # (components + 1,) the list of each component: first state
    highs: Integers  # and end
    order: Integers  # (components + 1,) numbers of components
    digits: Integers  # of the entry, one for each axis of its bucket
    offsets: Integers  # of the bucket's inputs at the entry


@njit(inner=True, nogil=True)
def make_walk(plan):
    """Room for the lists of one row."""
    messages, lists = plan.total - plan.entries, len(plan.component_start) + 1
    return TreeWalk(
        np.zeros(messages, dtype=np.int64),
        np.zeros(messages, dtype=np.int64),
        np.zeros(lists, dtype=np.int64),
        np.zeros(lists, dtype=np.int64),
        np.zeros(lists, dtype=np.int64),
        np.zeros(plan.widest, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
    )


class LossBudget(NamedTuple):
    """How much a state may lose: at mu, and at the multipliers (1 -+ share) mu."""

    loss: float
    share: float
    below: float
    above: float


@njit(inner=True, nogil=True, counted=False)
def copy_state(states, source, target):
    """State `target` becomes state `source` (a loop: a slice would cost more)."""
    states.node[target] = states.node[source]
    for column in range(states.values.shape[1]):
        states.values[target, column] = states.values[source, column]


@njit(cache=True, nogil=True, counted=False)
def _sort(states, low, high):
    """Shell sort of states low..high by cost, then by t_1 (state `high` is a spare place)."""
    values, gap = states.values, 1
    while gap < (high - low) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(low + gap, high):
            cost, first = values[i, COST], values[i, T]
            j = i
            if values[j - gap, COST] < cost or (
                values[j - gap, COST] == cost and values[j - gap, T] <= first
            ):
                continue
            copy_state(states, i, high)
            while j - gap >= low and (
                values[j - gap, COST] > cost
                or (values[j - gap, COST] == cost and values[j - gap, T] > first)
            ):
                copy_state(states, j - gap, j)
                j -= gap
            copy_state(states, high, j)
        gap //= 3


@njit(inner=True, nogil=True, counted=False)
def undominated(states, low, high):
    """Sort states low..high by cost and keep those with some t_j lower than each before."""
    if high - low < 2:
        return high
    _sort(states, low, high)
    values, end = states.values, low + 1
    if values.shape[1] == T + 1:
        least = values[low, T]
        for i in range(low + 1, high):
            if values[i, T] < least:
                least = values[i, T]
                copy_state(states, i, end)
                end += 1
        return end
    for i in range(low + 1, high):
        dominated = False
        for other in range(low, end):
            dominated = True
            for j in range(values.shape[1] - T):
                if values[i, T + j] < values[other, T + j]:
                    dominated = False
                    break
            if dominated:
                break
        if not dominated:
            copy_state(states, i, end)
            end += 1
    return end


@njit(inner=True, nogil=True, counted=False)
def thin(states, low, high, column, sign, heap):
    """Of sorted states low..high keep those that fewer than len(heap) before them dominate.

    One dominates another if sign times its `column` is as low. Returns the new end. The heap holds
    the lowest of these numbers so far.
    """
    for i in range(len(heap)):
        heap[i] = np.inf
    end = low
    for i in range(low, high):
        value = sign * states.values[i, column]
        if heap[0] <= value:
            continue
        replace_highest(heap, len(heap), value)
        copy_state(states, i, end)
        end += 1
    return end


@njit(inner=True, nogil=True, counted=False)
def settled(states, low, high, heap):
    """Of states low..high those that may belong to one of the len(heap) best: the new end."""
    rank = len(heap)
    if rank == 1:
        return undominated(states, low, high)
    if states.values.shape[1] == T + 1 and high - low > 4 * rank:
        _sort(states, low, high)
        return thin(states, low, high, T, 1.0, heap)
    return high


@njit(inner=True, nogil=True, counted=False)
def add_node(states, left, right):
    """A node of two parts, or of -1 - value and -1 - bucket; -1 without room."""
    count = states.counts[NODE_COUNT]
    if count >= len(states.nodes):
        return -1
    states.nodes[count, LEFT], states.nodes[count, RIGHT] = left, right
    states.counts[NODE_COUNT] = count + 1
    return count


@njit(inner=True, nogil=True, counted=False)
def add_leaf(states, a, k):
    """A state of zeros on top: bucket k takes value a. False without room."""
    top = states.counts[STATE_COUNT]
    if top + 2 >= len(states.values):
        return False
    leaf = add_node(states, -1 - a, -1 - k)
    if leaf < 0:
        return False
    for column in range(states.values.shape[1]):
        states.values[top, column] = 0.0
    states.node[top] = leaf
    states.counts[STATE_COUNT] = top + 1
    return True


@njit(inner=True, nogil=True, counted=False)
def add_single(states, state, other):
    """`state` becomes its sum with `other`; False without room for the node."""
    both = add_node(states, states.node[state], states.node[other])
    if both < 0:
        return False
    for column in range(states.values.shape[1]):
        states.values[state, column] += states.values[other, column]
    states.node[state] = both
    return True


@njit(inner=True, nogil=True, counted=False)
def within(states, state, budget):
    """Whether a state is within the budget."""
    loss = states.values[state, LOSS]
    tilt = budget.share * (loss - states.values[state, COST])
    return loss <= budget.loss and loss - tilt <= budget.below and loss + tilt <= budget.above


@njit(inner=True, nogil=True, counted=False)
def combine(states, a_low, a_high, b_low, b_high, budget):
    """All sums of a state of list a and one of list b within the budget, on top.

    False on overflow of the space or of a limit in `counts`.
    """
    values, node, nodes, counts = states.values, states.node, states.nodes, states.counts
    most, share, below, above = budget.loss, budget.share, budget.below, budget.above
    top, count = counts[STATE_COUNT], counts[NODE_COUNT]
    products = (a_high - a_low) * (b_high - b_low)
    counts[SUM_COUNT] += products
    if products > counts[PRODUCT_LIMIT] or counts[SUM_COUNT] > counts[SUM_LIMIT]:
        return False
    for i in range(a_low, a_high):
        loss, cost, part = values[i, LOSS], values[i, COST], node[i]
        if top + b_high - b_low >= len(values) or count + b_high - b_low > len(nodes):
            return False
        for other in range(b_low, b_high):
            both, both_cost = loss + values[other, LOSS], cost + values[other, COST]
            tilt = share * (both - both_cost)
            if both <= most and both - tilt <= below and both + tilt <= above:
                values[top, LOSS], values[top, COST], node[top] = both, both_cost, count
                for j in range(values.shape[1] - T):
                    values[top, T + j] = values[i, T + j] + values[other, T + j]
                nodes[count, LEFT], nodes[count, RIGHT] = part, node[other]
                top += 1
                count += 1
    counts[STATE_COUNT], counts[NODE_COUNT] = top, count
    return True


@njit(inner=True, nogil=True, counted=False)
def shortest_last(lows, highs, order, active):
    """Bring the numbers of the two shortest of `active` lists to the end of `order`."""
    for place in (active - 1, active - 2):
        shortest = place
        for c in range(place):
            length = highs[order[shortest]] - lows[order[shortest]]
            if highs[order[c]] - lows[order[c]] < length:
                shortest = c
        number = order[place]
        order[place] = order[shortest]
        order[shortest] = number


@njit(inner=True, nogil=True, counted=False)
def read(nodes, root, stack, block, lane):
    """What a node decides, into column `lane` of `block` (buckets, lanes); -1: nothing."""
    depth = 0
    if root >= 0:
        stack[0] = root
        depth = 1
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if nodes[here, RIGHT] < 0:
            block[-1 - nodes[here, RIGHT], lane] = -1 - nodes[here, LEFT]
        else:
            stack[depth], stack[depth + 1] = nodes[here, LEFT], nodes[here, RIGHT]
            depth += 2
