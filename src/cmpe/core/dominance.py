"""Compiled search for dominated values: another value of the variable is never worse.

Value b of v dominates value a if, whatever the others are,

    h(b, x) >= h(a, x)   and   t_j(b, x) <= t_j(a, x) for all j.

It is enough that the least differences of the tables add up to that (dead-end elimination:
Goldstein 1994; soft neighbourhood substitutability: Lecoutre, Roussel and Dehani 2012):

    sum over tables f of v of  min over x of (h_f(b, x) - h_f(a, x))  >= 0,

and the same for each t_j with max and <=. Entries of -inf at value a do not count. Equal values
dominate each other, and one of them is removed. One dominator costs one pass over the entries of
the variable's tables. Values are removed one after another, each compared with the values that are
left, so that some best assignment always stays.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.consistency import drop
from cmpe.core.settings import WIDE


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _compare(net, judged, state, v, b, gain):
    """gain (1 + m, k): of h and of each -t_j, the least that b has over each value left."""
    p, functions = net.place[v], len(judged.base)
    for k in range(state.size[v]):
        a = state.left[p + k]
        for c in range(functions):
            gain[c, k] = _over(judged.alone[c, p + b], judged.alone[c, p + a], c)
    for i in range(net.own[v], net.own[v + 1]):
        _compare_table(net, judged, state, net.slots[i], b, gain)


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _over(one, other, which):
    """How much better `one` is than `other`, in h (0) or in t."""
    if which == 0:
        if other == -np.inf:
            return np.inf
        return one - other
    if one == -np.inf:
        return np.inf
    return other - one


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _compare_table(net, judged, state, slot, b, gain):
    """Add the least differences of one table to `gain`; its second half is scratch."""
    f = net.table[slot]
    low, high = net.starts[f], net.starts[f + 1]
    v, functions = net.variable[slot], len(judged.base)
    p, stride, size = net.place[v], net.stride[slot], state.size[v]
    digits, at, work = state.axes[0], net.offsets[f], 1
    for s in range(low, high):
        digits[s - low] = 0
        if s != slot:
            u = net.variable[s]
            at += state.left[net.place[u]] * net.stride[s]
            work *= state.size[u]
    for c in range(functions):
        for k in range(size):
            gain[functions + c, k] = np.inf
    for _ in range(work):
        for k in range(size):
            here, there = at + b * stride, at + state.left[p + k] * stride
            if judged.values[0, there] > -np.inf:
                for c in range(functions):
                    x = _over(judged.values[c, here], judged.values[c, there], c)
                    gain[functions + c, k] = min(gain[functions + c, k], x)
        s = high - 1
        while s >= low:
            if s != slot:
                u, k = net.variable[s], digits[s - low]
                q = net.place[u]
                following = k + 1 if k + 1 < state.size[u] else 0
                at += (state.left[q + following] - state.left[q + k]) * net.stride[s]
                digits[s - low] = following
                if following > 0:
                    break
            s -= 1
    for c in range(functions):
        for k in range(size):
            # An infinite gain does not make up for an infinite loss.
            if gain[c, k] == -np.inf or gain[functions + c, k] == -np.inf:
                gain[c, k] = -np.inf
            else:
                gain[c, k] += gain[functions + c, k]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _take_away(net, judged, state, v, b, gain, instead):
    """The values of v that b dominates; how many."""
    p, count = net.place[v], 0
    _compare(net, judged, state, v, b, gain)
    k = state.size[v] - 1
    while k >= 0:
        a, dominated = state.left[p + k], True
        for c in range(len(judged.base)):
            dominated = dominated and gain[c, k] >= 0.0
        if dominated and a != b:
            drop(net, state, v, k)  # the last one takes its place: it has been compared
            instead[p + a] = b
            count += 1
        k -= 1
    return count


@njit(cache=True, nogil=True, counted=False)
def dominate(net, judged, state, first, last, gain, instead):
    """Take dominated values of the variables from `first` to `last` away; how many.

    `instead` (V,) gets the dominator of each value that goes; `gain` (2 + 2m, most values) is
    scratch.
    """
    count = 0
    for v in range(first, last):
        if state.size[v] < 2:
            continue
        p, best = net.place[v], 0
        for k in range(state.size[v]):
            if state.belief[p + state.left[p + k]] > state.belief[p + state.left[p + best]]:
                best = k
        if state.size[v] > WIDE.dominators:
            count += _take_away(net, judged, state, v, state.left[p + best], gain, instead)
            continue
        for b in range(net.place[v + 1] - p):
            is_left = False
            for k in range(state.size[v]):
                is_left = is_left or state.left[p + k] == b
            if is_left and state.size[v] > 1:
                count += _take_away(net, judged, state, v, b, gain, instead)
    return count
