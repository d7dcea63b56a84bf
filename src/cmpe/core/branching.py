"""Compiled depth-first branch and bound on soft consistency.

A node is the state of `consistency` with some values taken away. It is propagated; if something is
left, a variable is chosen: the one that failed last (last conflict: Lecoutre, Sais, Tabary and
Vidal 2009), or by few values, many failures (dom/wdeg: Boussemart, Hemery, Lecoutre and Sais 2004)
and, among equals, many tables. It is set to its best value; later that value is taken away and the
rest explored.
The search can be stopped and continued. Below MOST levels nothing is kept to come back to; what is
lost there counts with its bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.consistency import ENOUGH, MARGIN, TOTAL, favourite, propagate, touch

DEPTH, GOING_BACK, NODES, DONE, CONFLICT = range(5)  # of Tree.counts; the last: who failed, or -1
LOST, BEST = range(2)  # of Tree.levels
MORE = 1e-3  # failures that a table counts for
ROUNDS = 2  # of propagation at a node


class Tree(NamedTuple):
    """Levels that can be returned to, what was found, and how the search stands."""

    size: np.ndarray  # (D, n)
    left: np.ndarray  # (D, V)
    belief: np.ndarray  # (D, V)
    message: np.ndarray  # (D, M)
    best: np.ndarray  # (D, n + F)
    total: np.ndarray  # (D,)
    chosen: np.ndarray  # (D, 2) variable and value
    failures: np.ndarray  # (n,)
    counts: np.ndarray  # (5,) DEPTH, GOING_BACK, NODES, DONE, CONFLICT
    levels: np.ndarray  # (2,) LOST: the greatest bound not come back to, BEST: h of the answer
    leaf: np.ndarray  # (n,) scratch
    answer: np.ndarray  # (n,)


class Judged(NamedTuple):
    """The functions themselves, for complete assignments."""

    alone: np.ndarray  # (1 + m, V)
    values: np.ndarray  # (1 + m, E)
    base: np.ndarray  # (1 + m,)
    limits: np.ndarray  # (m,) with a margin: who asks judges what is near


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _value(net, judged, which, z):
    """Function `which` at the assignment z."""
    total = judged.base[which]
    for v in range(len(z)):
        total += judged.alone[which, net.place[v] + z[v]]
    for f in range(len(net.offsets) - 1):
        at = net.offsets[f]
        for s in range(net.starts[f], net.starts[f + 1]):
            at += net.stride[s] * z[net.variable[s]]
        total += judged.values[which, at]
    return total


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _is_promising(net, judged, tree, z):
    """Whether z may be feasible and better than the best; then it is the answer to look at."""
    for j in range(len(judged.limits)):
        if _value(net, judged, j + 1, z) > judged.limits[j]:
            return False
    h = _value(net, judged, 0, z)
    if not h > tree.levels[BEST]:
        return False
    _copy(z, tree.answer)
    return True


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _choose(net, state, tree):
    """The one that failed last, or that with the fewest values for its failures; -1 if none."""
    chosen, least = tree.counts[CONFLICT], np.inf
    if chosen >= 0 and state.size[chosen] > 1:
        return chosen
    chosen = -1
    for v in range(len(state.size)):
        if state.size[v] > 1:
            degree = net.own[v + 1] - net.own[v]
            key = state.size[v] / (1.0 + tree.failures[v] + MORE * degree)
            if key < least:
                chosen, least = v, key
    return chosen


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _keep_only(net, state, v, a):
    """Leave value a alone."""
    p = net.place[v]
    for i in range(state.size[v]):
        if state.left[p + i] == a:
            state.left[p + i] = state.left[p]
            state.left[p] = a
    state.size[v] = 1
    state.levels[TOTAL] += state.belief[p + a] - state.best[v]
    state.best[v] = state.belief[p + a]
    state.dirty[v] = 1
    touch(net, state, v)


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _without(net, state, v, a):
    """Take value a away."""
    p, last = net.place[v], state.size[v] - 1
    best = -np.inf
    for i in range(last, -1, -1):
        if state.left[p + i] == a:
            state.left[p + i] = state.left[p + last]
            state.left[p + last] = a
    state.size[v] = last
    for i in range(last):
        best = max(best, state.belief[p + state.left[p + i]])
    if last > 0:
        state.levels[TOTAL] += best - state.best[v]
        state.best[v] = best
        state.dirty[v] = 1
        touch(net, state, v)


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _push(net, state, tree, v, a):
    """Keep the state to come back to, or where there is no room, its bound."""
    depth = tree.counts[DEPTH]
    if depth == len(tree.total):
        tree.levels[LOST] = max(tree.levels[LOST], state.levels[TOTAL])
        return
    _copy(state.size, tree.size[depth])
    _copy(state.left, tree.left[depth])
    _copy(state.belief, tree.belief[depth])
    _copy(state.message, tree.message[depth])
    _copy(state.best, tree.best[depth])
    tree.total[depth] = state.levels[TOTAL]
    tree.chosen[depth, 0], tree.chosen[depth, 1] = v, a
    tree.counts[DEPTH] = depth + 1


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _pop(net, state, tree):
    """Return to the last level kept, its chosen value taken away."""
    depth = tree.counts[DEPTH] - 1
    _copy(tree.size[depth], state.size)
    _copy(tree.left[depth], state.left)
    _copy(tree.belief[depth], state.belief)
    _copy(tree.message[depth], state.message)
    _copy(tree.best[depth], state.best)
    state.levels[TOTAL] = tree.total[depth]
    for v in range(len(state.dirty)):
        state.dirty[v] = 0
    tree.counts[DEPTH] = depth
    v = tree.chosen[depth, 0]
    _without(net, state, v, tree.chosen[depth, 1])
    return v


@njit(cache=True, nogil=True, counted=False)
def explore(net, judged, state, tree, nodes):
    """Go on for so many nodes, or until `answer` deserves a look (True); DONE is set when nothing
    is left to explore."""
    counts = tree.counts
    z = tree.leaf
    last = -1
    for _ in range(nodes):
        if counts[GOING_BACK]:
            if counts[DEPTH] == 0:
                counts[DONE] = 1
                return False
            last = _pop(net, state, tree)
            if state.size[last] == 0:
                continue
            counts[GOING_BACK] = 0
        counts[NODES] += 1
        if (
            state.levels[TOTAL] + state.levels[MARGIN] <= state.levels[ENOUGH]
            or propagate(net, state, ROUNDS) < 0
        ):
            if last >= 0:
                tree.failures[last] += 1.0
                counts[CONFLICT] = last
            counts[GOING_BACK] = 1
            continue
        v = _choose(net, state, tree)
        if v < 0:
            for u in range(len(z)):
                z[u] = state.left[net.place[u]]
            counts[GOING_BACK] = 1
            if _is_promising(net, judged, tree, z):
                return True
            continue
        a = favourite(net, state, v)
        _push(net, state, tree, v, a)
        _keep_only(net, state, v, a)
        last = v
    return False


@njit(cache=True, nogil=True, counted=False)
def open_bound(state, tree):
    """The greatest bound of what is not explored yet."""
    bound = tree.levels[LOST]
    if not tree.counts[DONE]:
        if not tree.counts[GOING_BACK]:
            bound = max(bound, state.levels[TOTAL] + state.levels[MARGIN])
        for d in range(tree.counts[DEPTH]):
            bound = max(bound, tree.total[d] + state.levels[MARGIN])
    return bound
