"""Compiled branch and bound on soft consistency: best first, in dives.

An open node is a set of values for each variable and a bound. A dive begins at the open node with
the greatest bound, from the messages of the root, and goes down: the node is propagated
(`consistency`); if something is left, a variable is set to a value, and the node without that value
becomes an open node. A dive ends where nothing better than the incumbent is left. (Hybrid best-first
search: Allouche, de Givry, Katsirelos, Schiex and Zytnicki 2015.)

Two rules choose variable and value, one dive each in turn:

- by conflicts: the variable that failed last (last conflict: Lecoutre, Sais, Tabary and Vidal 2009),
  or that of few values, many failures (dom/wdeg: Boussemart, Hemery, Lecoutre and Sais 2004) and,
  among equals, many tables; its favourite value;
- by slack: decode z. Bound and value of z differ by the sum of the tables' slacks, each the
  greatest entry less the entry at z (less messages). The variable of the greatest slack times
  (1 + failures) / size is set to z's value. z is looked at as an answer, too.

The search can be stopped and continued. Where there is no room for another open node, its bound
counts as that of what is lost. Where room becomes scarce, dives begin at the latest open node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.consistency import ENOUGH, MARGIN, TOTAL, begin, decode, favourite, propagate, touch

OPEN, DEPTH, STAGE, NODES, DONE, CONFLICT, DIVES, LAST, LOOKED, BACKTRACKS, MOST, RULE = range(12)
POPPING, BACK, DOWN = range(3)  # of Tree.counts[STAGE]
LOST, BEST, BOUND = range(3)  # of Tree.levels
MORE = 1e-3  # failures that a table counts for
ROUNDS = 2  # of propagation at a node
HUGE = 1e30  # the slack of an entry without weight


class Tree(NamedTuple):
    """Open nodes, the levels of the present dive, and how the search stands."""

    domains: np.ndarray  # (C, bytes) a bit for each value that is left
    bounds: np.ndarray  # (C,)
    branched: np.ndarray  # (C,) the variable that lost a value last, or -1
    root: np.ndarray  # (M,) messages of the root
    size: np.ndarray  # (D, n)
    left: np.ndarray  # (D, V)
    belief: np.ndarray  # (D, V)
    message: np.ndarray  # (D, M)
    best: np.ndarray  # (D, n + F)
    levels_total: np.ndarray  # (D, 2) TOTAL and the bound
    chosen: np.ndarray  # (D, 2) variable and value
    failures: np.ndarray  # (n,)
    counts: np.ndarray  # (8,) OPEN nodes, DIVING: whether the state is a node, NODES and DIVES so
    # far, DONE: whether nothing is left, CONFLICT: which variable failed last, LAST: which was
    # branched on, LOOKED: whether the state's z was looked at
    levels: np.ndarray  # (3,) LOST: the greatest bound of what is lost, BEST: h of the answer,
    # BOUND of the node that is the state
    leaf: np.ndarray  # (n,) scratch
    sizes: np.ndarray  # (n,) scratch
    answer: np.ndarray  # (n,)


class Judged(NamedTuple):
    """The functions themselves, for complete assignments."""

    alone: np.ndarray  # (1 + m, V)
    values: np.ndarray  # (1 + m, E)
    base: np.ndarray  # (1 + m,)
    limits: np.ndarray  # (m,) with a margin: who asks judges what is near


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _value(net, judged, which, z):
    """Function `which` at the assignment z."""
    total = judged.base[which]
    for v in range(len(z)):
        total += judged.alone[which, net.place[v] + z[v]]
    for f in range(len(net.offsets) - 1):
        total += judged.values[which, _entry(net, f, z)]
    return total


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _entry(net, f, z):
    """Where the assignment z is in table f."""
    at = net.offsets[f]
    for s in range(net.starts[f], net.starts[f + 1]):
        at += net.stride[s] * z[net.variable[s]]
    return at


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _is_promising(net, judged, tree, z):
    """Whether z may be feasible and better than the best; then it is the answer to look at."""
    h = _value(net, judged, 0, z)
    if not h > tree.levels[BEST]:
        return False
    for j in range(len(judged.limits)):
        if _value(net, judged, j + 1, z) > judged.limits[j]:
            return False
    for v in range(len(z)):
        tree.answer[v] = z[v]
    return True


# --- open nodes, and the levels of a dive ---


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _copy(source, target):
    for i in range(len(source)):
        target[i] = source[i]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _open(net, tree, size, left, bound, v, a):
    """These values without a of v become an open node."""
    at = tree.counts[OPEN]
    if at == len(tree.bounds):
        tree.levels[LOST] = max(tree.levels[LOST], bound)
        return
    for i in range(tree.domains.shape[1]):
        tree.domains[at, i] = 0
    for u in range(len(size)):
        p = net.place[u]
        for k in range(size[u]):
            if u != v or left[p + k] != a:
                i = p + left[p + k]
                tree.domains[at, i >> 3] |= np.uint8(1 << (i & 7))
    tree.bounds[at], tree.branched[at] = bound, v
    tree.counts[OPEN] = at + 1


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _pop(net, state, tree):
    """The open node to go on with becomes the state; whether there is one."""
    last = tree.counts[OPEN] - 1
    chosen, room = last, len(tree.bounds) - last
    if room > len(state.left) or room > len(tree.bounds) // 2:
        for i in range(last):
            if tree.bounds[i] > tree.bounds[chosen]:
                chosen = i
    if last < 0:
        return False
    tree.levels[BOUND], tree.counts[LAST] = tree.bounds[chosen], tree.branched[chosen]
    for v in range(len(state.size)):
        p, end = net.place[v], net.place[v + 1]
        size, rest = 0, end - p
        for a in range(end - p):
            i = p + a
            if tree.domains[chosen, i >> 3] >> (i & 7) & 1:
                state.left[p + size] = a
                size += 1
            else:
                rest -= 1
                state.left[p + rest] = a
        state.size[v] = size
    _copy(tree.root, state.message)
    tree.bounds[chosen], tree.branched[chosen] = tree.bounds[last], tree.branched[last]
    _copy(tree.domains[last], tree.domains[chosen])
    tree.counts[OPEN] = last
    return True


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _descend(net, state, tree, v, a):
    """Set v to a; the state without a becomes a level, or an open node where there is no room."""
    depth = tree.counts[DEPTH]
    if depth == len(tree.size):
        _open(net, tree, state.size, state.left, tree.levels[BOUND], v, a)
    else:
        _copy(state.size, tree.size[depth])
        _copy(state.left, tree.left[depth])
        _copy(state.belief, tree.belief[depth])
        _copy(state.message, tree.message[depth])
        _copy(state.best, tree.best[depth])
        tree.levels_total[depth, 0] = state.levels[TOTAL]
        tree.levels_total[depth, 1] = tree.levels[BOUND]
        tree.chosen[depth, 0], tree.chosen[depth, 1] = v, a
        tree.counts[DEPTH] = depth + 1
    _keep_only(net, state, v, a)
    tree.counts[LAST], tree.counts[LOOKED] = v, 0


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _ascend(net, state, tree):
    """Return to the last level, its chosen value taken away; whether any of its variable is left."""
    depth = tree.counts[DEPTH] - 1
    _copy(tree.size[depth], state.size)
    _copy(tree.left[depth], state.left)
    _copy(tree.belief[depth], state.belief)
    _copy(tree.message[depth], state.message)
    _copy(tree.best[depth], state.best)
    state.levels[TOTAL], tree.levels[BOUND] = tree.levels_total[depth]
    for v in range(len(state.dirty)):
        state.dirty[v] = 0
    v, a = tree.chosen[depth]
    tree.counts[DEPTH], tree.counts[LAST], tree.counts[LOOKED] = depth, v, 0
    return _without(net, state, v, a)


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _without(net, state, v, a):
    """Take value a of v away; whether another is left."""
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
    return last > 0


# --- which variable, which value ---


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _by_conflicts(net, state, tree):
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
def _by_slack(net, state, tree, z):
    """The one with the greatest slack for its values and failures; -1 if z has none."""
    chosen, most, n = -1, 0.0, len(z)
    for f in range(len(net.offsets) - 1):
        low, high = net.starts[f], net.starts[f + 1]
        slack = state.best[n + f] - net.values[_entry(net, f, z)]
        for s in range(low, high):
            slack += state.message[net.sends[s] + z[net.variable[s]]]
        slack = min(slack, HUGE)
        for s in range(low, high):
            v = net.variable[s]
            if state.size[v] > 1:
                key = slack * (1.0 + tree.failures[v]) / state.size[v]
                if key > most:
                    chosen, most = v, key
    for v in range(n):
        if state.size[v] > 1:
            slack = min(HUGE, state.best[v] - state.belief[net.place[v] + z[v]])
            key = slack * (1.0 + tree.failures[v]) / state.size[v]
            if key > most:
                chosen, most = v, key
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


# --- the search ---


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _propagated(net, state, tree):
    """Whether anything better than the incumbent may be left of the state, once propagated."""
    if state.levels[TOTAL] + state.levels[MARGIN] <= state.levels[ENOUGH]:
        return False
    if propagate(net, state, ROUNDS) < 0:
        return False
    bound = state.levels[TOTAL] + state.levels[MARGIN]
    tree.levels[BOUND] = min(tree.levels[BOUND], bound)
    return True


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _next(net, state, tree):
    """Go back a level, or begin another dive; whether a node is the state. DONE if none is left."""
    counts = tree.counts
    if counts[STAGE] == BACK and counts[BACKTRACKS] >= counts[MOST]:
        for d in range(counts[DEPTH]):
            if tree.levels_total[d, 1] > state.levels[ENOUGH]:
                v, a = tree.chosen[d]
                _open(net, tree, tree.size[d], tree.left[d], tree.levels_total[d, 1], v, a)
        counts[DEPTH] = 0
    if counts[STAGE] == BACK and counts[DEPTH] > 0:
        counts[BACKTRACKS] += 1
        return _ascend(net, state, tree)
    counts[DIVES] += 1
    counts[BACKTRACKS] = 0
    if not _pop(net, state, tree) or tree.levels[BOUND] <= state.levels[ENOUGH]:
        counts[DONE], counts[OPEN] = 1, 0
        return False
    counts[LOOKED] = 0
    counts[STAGE] = BACK
    return begin(net, state)


@njit(cache=True, nogil=True, counted=False)
def explore(net, judged, state, tree, nodes):
    """Go on for so many nodes, or until `answer` deserves a look (True); DONE is set when nothing
    is left to explore."""
    counts, z = tree.counts, tree.leaf
    for _ in range(nodes):
        if counts[STAGE] != DOWN:
            if not _next(net, state, tree):
                if counts[DONE]:
                    return False
                continue
            counts[STAGE] = DOWN
        counts[NODES] += 1
        if not _propagated(net, state, tree):
            if counts[LAST] >= 0:
                tree.failures[counts[LAST]] += 1.0
                counts[CONFLICT] = counts[LAST]
            counts[STAGE] = BACK
            continue
        v = -1
        if counts[RULE] == 2 or (counts[RULE] == 0 and counts[DIVES] & 1):
            decode(net, state, 0, z, tree.sizes)
            if not counts[LOOKED] and _is_promising(net, judged, tree, z):
                counts[LOOKED] = 1
                return True
            v = _by_slack(net, state, tree, z)
        if v >= 0:
            a = z[v]
        else:
            v = _by_conflicts(net, state, tree)
            if v < 0:
                for u in range(len(z)):
                    z[u] = state.left[net.place[u]]
                counts[STAGE] = BACK
                if _is_promising(net, judged, tree, z):
                    return True
                continue
            a = favourite(net, state, v)
        _descend(net, state, tree, v, a)
    return False


@njit(cache=True, nogil=True, counted=False)
def open_bound(tree):
    """The greatest bound of what is not explored yet."""
    bound = tree.levels[LOST]
    if not tree.counts[DONE]:
        if tree.counts[STAGE] == DOWN:
            bound = max(bound, tree.levels[BOUND])
        for d in range(tree.counts[DEPTH]):
            bound = max(bound, tree.levels_total[d, 1])
        for i in range(tree.counts[OPEN]):
            bound = max(bound, tree.bounds[i])
    return bound
