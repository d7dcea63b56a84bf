"""Compiled branch and bound on soft consistency: best first, in short dives.

An open node is a set of values for each variable, with a bound. A dive begins at the open node of
the greatest bound, with the messages of the root, and is a depth-first search that ends after a few
backtracks; what it has not explored by then becomes open nodes (hybrid best-first search: Allouche,
de Givry, Katsirelos, Schiex and Zytnicki 2015). Within a dive the states of all levels are stored,
so that going back costs no propagation.

Two rules choose a variable and its first value. Dives take them in turn, because each wins on other
families:

- by conflicts: the variable that failed last (last conflict: Lecoutre, Sais, Tabary and Vidal
  2009), or the one of few values, many failures (dom/wdeg: Boussemart, Hemery, Lecoutre and Sais
  2004) and, among equals, many tables; its favourite value.
- by slack: z is decoded. The slack of a table is its greatest entry less its entry at z (both less
  messages), and the bound exceeds the value of z by the sum of all slacks. The variable with the
  greatest slack times (1 + failures) / size is set to its value in z. z is a candidate as well.

With constraints the tables are h - sum_j mu_j (t_j - q_j). An open node has multipliers mu of its
own: at the beginning of a dive each takes a step along t_j(z) - q_j, and the step stays if the
bound falls.

The search can be stopped and continued. Where there is no room for another open node, its bound
counts as lost; where room becomes scarce, dives begin at the latest open node instead of the best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.consistency import (
    BASE,
    ENOUGH,
    MARGIN,
    TOTAL,
    begin,
    decode,
    favourite,
    propagate,
    touch,
)
from cmpe.core.loops import copy
from cmpe.core.settings import WIDE

OPEN, DEPTH, STAGE, NODES, DIVES, BACKTRACKS, CONFLICT, LAST, LOOKED = range(9)  # Tree.counts
BACK, DOWN, DONE = range(3)  # values of Tree.counts[STAGE]
LOST, BEST, BOUND = range(3)  # Tree.levels
HUGE = 1e30  # the slack of an entry without weight
ROUNDING = 1e-11  # this share of the tables' largest number is added to bounds


class Judged(NamedTuple):
    """The functions themselves, for complete assignments."""

    alone: np.ndarray  # (1 + m, V)
    values: np.ndarray  # (1 + m, E)
    base: np.ndarray  # (1 + m,)
    limits: np.ndarray  # (m,) with a margin: the caller judges what is near


class Opened(NamedTuple):
    """Open nodes: the first counts[OPEN] of C places."""

    domains: np.ndarray  # (C, bytes) a bit for each value that is left
    bound: np.ndarray  # (C,)
    branched: np.ndarray  # (C,) the variable that lost a value last
    multipliers: np.ndarray  # (C, m)


class Levels(NamedTuple):
    """The states above the present node of a dive: the first counts[DEPTH] of D places."""

    size: np.ndarray  # (D, n)
    left: np.ndarray  # (D, V)
    belief: np.ndarray  # (D, V)
    message: np.ndarray  # (D, M)
    best: np.ndarray  # (D, n + F)
    total: np.ndarray  # (D,)
    bound: np.ndarray  # (D,)
    variable: np.ndarray  # (D,) what was branched on
    value: np.ndarray  # (D,)


class Tree(NamedTuple):
    """Branch and bound on one network."""

    opened: Opened
    dive: Levels
    counts: np.ndarray  # (9,) OPEN nodes; DEPTH of the dive; STAGE: go BACK, DOWN: the state is a
    # node, or DONE; NODES and DIVES so far; BACKTRACKS of the dive; CONFLICT: the variable that
    # failed last, or -1; LAST: the one branched on last, or -1; LOOKED: whether the node's z was
    # evaluated
    levels: np.ndarray  # (3,) LOST: the greatest bound that was lost; BEST: h of the answer;
    # BOUND of the present node
    message: np.ndarray  # (M,) of the root
    failures: np.ndarray  # (n,)
    multipliers: np.ndarray  # (m,) of the state
    steps: np.ndarray  # (m,) how far a multiplier moves next
    moved: np.ndarray  # (m,) scratch
    leaf: np.ndarray  # (n,) scratch
    sizes: np.ndarray  # (n,) scratch
    answer: np.ndarray  # (n,)


# --- complete assignments ---


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _entry(net, f, z):
    """Where table f has its entry at the assignment z."""
    at = net.offsets[f]
    for s in range(net.starts[f], net.starts[f + 1]):
        at += net.stride[s] * z[net.variable[s]]
    return at


@njit(inner=True, nogil=True, counted=False)
def _value(net, judged, which, z):
    """Function `which` at the assignment z."""
    total = judged.base[which]
    for v in range(len(z)):
        total += judged.alone[which, net.place[v] + z[v]]
    for f in range(len(net.offsets) - 1):
        total += judged.values[which, _entry(net, f, z)]
    return total


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _is_promising(net, judged, tree, z):
    """Whether z may be feasible and better than the best; then it becomes the `answer`."""
    if not _value(net, judged, 0, z) > tree.levels[BEST]:
        return False
    for j in range(len(judged.limits)):
        if _value(net, judged, j + 1, z) > judged.limits[j]:
            return False
    copy(z, tree.answer)
    return True


# --- multipliers ---


@njit(cache=True, nogil=True, counted=False)
def price(net, judged, state, multipliers):
    """Make the tables of the network h - sum_j mu_j (t_j - q_j)."""
    size = 0.0
    base = judged.base[0]
    for i in range(len(net.alone)):
        net.alone[i] = judged.alone[0, i]
    for i in range(len(net.values)):
        net.values[i] = judged.values[0, i]
    for j in range(len(multipliers)):
        mu = multipliers[j]
        if mu > 0.0:
            base -= mu * (judged.base[1 + j] - judged.limits[j])
            for i in range(len(net.alone)):
                net.alone[i] -= mu * judged.alone[1 + j, i]
            for i in range(len(net.values)):
                net.values[i] -= mu * judged.values[1 + j, i]
    for i in range(len(net.alone)):
        if net.alone[i] > -np.inf:
            size = max(size, abs(net.alone[i]))
    for i in range(len(net.values)):
        if net.values[i] > -np.inf:
            size = max(size, abs(net.values[i]))
    state.levels[BASE] = base
    state.levels[MARGIN] = ROUNDING * (1.0 + abs(base) + size)


@njit(inner=True, nogil=True, counted=False)
def _begin_with(net, judged, state, tree, multipliers):
    """The state from the messages of the root and these multipliers; whether anything is left."""
    is_same = True
    for j in range(len(multipliers)):
        is_same = is_same and multipliers[j] == tree.multipliers[j]
    if not is_same:
        copy(multipliers, tree.multipliers)
        price(net, judged, state, multipliers)
    copy(tree.message, state.message)
    return begin(net, state)


@njit(inner=True, nogil=True, counted=False)
def _step_multipliers(net, judged, state, tree):
    """Move the multipliers along t(z) - q if the bound falls; whether anything is left.

    The bound of the node holds for any multipliers, so that a step in vain does no harm.
    """
    z, before = tree.leaf, tree.levels[BOUND]
    decode(net, state, 0, z, tree.sizes)
    if _value(net, judged, 0, z) == -np.inf:
        return True
    is_still = True
    for j in range(len(tree.moved)):
        is_above = _value(net, judged, 1 + j, z) > judged.limits[j]
        step = tree.steps[j] if is_above else -tree.steps[j]
        tree.moved[j] = max(0.0, tree.multipliers[j] + step)
        is_still = is_still and tree.moved[j] == tree.multipliers[j]
    if is_still:
        return True
    total = state.levels[TOTAL] + state.levels[MARGIN]
    for j in range(len(tree.moved)):  # `moved` becomes what the multipliers were
        tree.multipliers[j], tree.moved[j] = tree.moved[j], tree.multipliers[j]
    price(net, judged, state, tree.multipliers)
    if not begin(net, state) or propagate(net, state, WIDE.rounds) < 0:
        return False
    now = state.levels[TOTAL] + state.levels[MARGIN]
    tree.levels[BOUND] = min(before, now)
    factor = WIDE.longer if now < total else WIDE.shorter
    for j in range(len(tree.steps)):
        tree.steps[j] *= factor
    if now < total:
        return True
    copy(tree.moved, tree.multipliers)
    price(net, judged, state, tree.multipliers)
    return begin(net, state)


# --- open nodes, and the levels of a dive ---


@njit(inner=True, nogil=True, counted=False)
def _open(net, tree, size, left, bound, v, a):
    """These values without a of v become an open node."""
    opened, at = tree.opened, tree.counts[OPEN]
    if at == len(opened.bound):
        tree.levels[LOST] = max(tree.levels[LOST], bound)
        return
    for i in range(opened.domains.shape[1]):
        opened.domains[at, i] = 0
    for u in range(len(size)):
        p = net.place[u]
        for k in range(size[u]):
            if u != v or left[p + k] != a:
                i = p + left[p + k]
                opened.domains[at, i >> 3] |= np.uint8(1 << (i & 7))
    opened.bound[at], opened.branched[at] = bound, v
    copy(tree.multipliers, opened.multipliers[at])
    tree.counts[OPEN] = at + 1


@njit(inner=True, nogil=True, counted=False)
def _pop(net, judged, state, tree):
    """The open node to go on with becomes the state; whether anything is left of it."""
    opened, last = tree.opened, tree.counts[OPEN] - 1
    chosen, room = last, len(opened.bound) - last
    is_best_first = room > min(len(state.left), len(opened.bound) // 2)
    for i in range(last if is_best_first else 0):
        if opened.bound[i] > opened.bound[chosen]:
            chosen = i
    if opened.bound[chosen] <= state.levels[ENOUGH]:
        tree.counts[OPEN], tree.counts[LAST] = 0 if is_best_first else last, -1
        return False
    tree.levels[BOUND], tree.counts[LAST] = opened.bound[chosen], opened.branched[chosen]
    for v in range(len(state.size)):
        p, size, rest = net.place[v], 0, net.place[v + 1]
        for a in range(net.place[v + 1] - p):
            i = p + a
            if (opened.domains[chosen, i >> 3] >> (i & 7)) & 1:
                state.left[p + size] = a
                size += 1
            else:
                rest -= 1
                state.left[rest] = a
        state.size[v] = size
    copy(opened.multipliers[chosen], tree.moved)
    opened.bound[chosen], opened.branched[chosen] = opened.bound[last], opened.branched[last]
    copy(opened.domains[last], opened.domains[chosen])
    copy(opened.multipliers[last], opened.multipliers[chosen])
    tree.counts[OPEN] = last
    return _begin_with(net, judged, state, tree, tree.moved)


@njit(inner=True, nogil=True, counted=False)
def _descend(net, state, tree, v, a):
    """Set v to a; the state becomes a level, or where there is no room an open node without a."""
    depth, dive = tree.counts[DEPTH], tree.dive
    if depth == len(dive.total):
        _open(net, tree, state.size, state.left, tree.levels[BOUND], v, a)
    else:
        copy(state.size, dive.size[depth])
        copy(state.left, dive.left[depth])
        copy(state.belief, dive.belief[depth])
        copy(state.message, dive.message[depth])
        copy(state.best, dive.best[depth])
        dive.total[depth], dive.bound[depth] = state.levels[TOTAL], tree.levels[BOUND]
        dive.variable[depth], dive.value[depth] = v, a
        tree.counts[DEPTH] = depth + 1
    _keep_only(net, state, v, a)
    tree.counts[LAST], tree.counts[LOOKED] = v, 0


@njit(inner=True, nogil=True, counted=False)
def _ascend(net, state, tree):
    """Return to the last level without its chosen value; whether its variable has another."""
    depth, dive = tree.counts[DEPTH] - 1, tree.dive
    copy(dive.size[depth], state.size)
    copy(dive.left[depth], state.left)
    copy(dive.belief[depth], state.belief)
    copy(dive.message[depth], state.message)
    copy(dive.best[depth], state.best)
    state.levels[TOTAL], tree.levels[BOUND] = dive.total[depth], dive.bound[depth]
    for v in range(len(state.dirty)):
        state.dirty[v] = 0
    tree.counts[DEPTH], tree.counts[LAST] = depth, dive.variable[depth]
    return _without(net, state, dive.variable[depth], dive.value[depth])


@njit(inner=True, nogil=True, counted=False)
def _next(net, judged, state, tree):
    """Go back a level, or begin another dive; whether a node is the state. DONE if none is left."""
    counts, dive = tree.counts, tree.dive
    counts[LOOKED] = 0
    if counts[BACKTRACKS] >= WIDE.backtracks:
        for d in range(counts[DEPTH]):
            if dive.bound[d] > state.levels[ENOUGH]:
                v, a = dive.variable[d], dive.value[d]
                _open(net, tree, dive.size[d], dive.left[d], dive.bound[d], v, a)
        counts[DEPTH] = 0
    if counts[DEPTH] > 0:
        counts[BACKTRACKS] += 1
        return _ascend(net, state, tree)
    if counts[OPEN] == 0:
        counts[STAGE] = DONE
        return False
    counts[DIVES] += 1
    counts[BACKTRACKS] = 0
    if not _pop(net, judged, state, tree) or not _propagated(net, state, tree):
        return False
    return len(tree.multipliers) == 0 or _step_multipliers(net, judged, state, tree)


# --- which variable, which value ---


@njit(inner=True, nogil=True, counted=False)
def _by_conflicts(net, state, tree):
    """The one that failed last, or that with the fewest values for its failures; -1 if none."""
    chosen, least = tree.counts[CONFLICT], np.inf
    if chosen >= 0 and state.size[chosen] > 1:
        return chosen
    chosen = -1
    for v in range(len(state.size)):
        if state.size[v] > 1:
            degree = net.own[v + 1] - net.own[v]
            key = state.size[v] / (1.0 + tree.failures[v] + WIDE.degree_weight * degree)
            if key < least:
                chosen, least = v, key
    return chosen


@njit(inner=True, nogil=True, counted=False)
def _by_slack(net, state, tree, z):
    """The one of the greatest slack for its values and failures; -1 if z has no slack."""
    chosen, most, n = -1, 0.0, len(z)
    for f in range(len(net.offsets) - 1):
        slack = state.best[n + f] - net.values[_entry(net, f, z)]
        for s in range(net.starts[f], net.starts[f + 1]):
            slack += state.message[net.sends[s] + z[net.variable[s]]]
        slack = min(slack, HUGE)
        for s in range(net.starts[f], net.starts[f + 1]):
            v = net.variable[s]
            key = slack * (1.0 + tree.failures[v]) / state.size[v]
            if state.size[v] > 1 and key > most:
                chosen, most = v, key
    for v in range(n):
        slack = min(state.best[v] - state.belief[net.place[v] + z[v]], HUGE)
        key = slack * (1.0 + tree.failures[v]) / state.size[v]
        if state.size[v] > 1 and key > most:
            chosen, most = v, key
    return chosen


@njit(inner=True, nogil=True, counted=False)
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


@njit(inner=True, nogil=True, counted=False)
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


# --- the search ---


@njit(inner=True, nogil=True, counted=False)
def _propagated(net, state, tree):
    """Whether the state may have anything better than the incumbent, once propagated."""
    enough = state.levels[ENOUGH]
    if tree.levels[BOUND] <= enough or state.levels[TOTAL] + state.levels[MARGIN] <= enough:
        return False
    if propagate(net, state, WIDE.rounds) < 0:
        return False
    bound = state.levels[TOTAL] + state.levels[MARGIN]
    tree.levels[BOUND] = min(tree.levels[BOUND], bound)
    return True


@njit(cache=True, nogil=True, counted=False)
def explore(net, judged, state, tree, nodes):
    """Explore so many nodes, or until `answer` is a new candidate (True).

    The stage is DONE when nothing is left to explore."""
    counts, z = tree.counts, tree.leaf
    for _ in range(nodes):
        is_node = True
        if counts[STAGE] == BACK:
            is_node = _next(net, judged, state, tree)
            if counts[STAGE] == DONE:
                return False
        counts[STAGE] = DOWN
        counts[NODES] += 1
        if not is_node or not _propagated(net, state, tree):
            if counts[LAST] >= 0:
                tree.failures[counts[LAST]] += 1.0
                counts[CONFLICT] = counts[LAST]
            counts[STAGE] = BACK
            continue
        v = -1
        if counts[DIVES] % 2 == 0:
            decode(net, state, 0, z, tree.sizes)
            if not counts[LOOKED] and _is_promising(net, judged, tree, z):
                counts[LOOKED] = 1
                return True
            v = _by_slack(net, state, tree, z)
        if v >= 0:
            _descend(net, state, tree, v, z[v])
            continue
        v = _by_conflicts(net, state, tree)
        if v >= 0:
            _descend(net, state, tree, v, favourite(net, state, v))
            continue
        for u in range(len(z)):
            z[u] = state.left[net.place[u]]
        counts[STAGE] = BACK
        if _is_promising(net, judged, tree, z):
            return True
    return False


@njit(cache=True, nogil=True, counted=False)
def open_bound(tree):
    """The greatest bound of what is not explored yet."""
    bound, counts = tree.levels[LOST], tree.counts
    if counts[STAGE] != DONE:
        if counts[STAGE] == DOWN:
            bound = max(bound, tree.levels[BOUND])
        for d in range(counts[DEPTH]):
            bound = max(bound, tree.dive.bound[d])
        for i in range(counts[OPEN]):
            bound = max(bound, tree.opened.bound[i])
    return bound
