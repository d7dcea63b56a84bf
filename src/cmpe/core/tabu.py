"""Compiled tabu search on one row, with a few good answers that runs begin from.

A step takes the move (one variable, one value) of the greatest merit

    change of h  -  sum_k price_k (change of violation k),

where violations are the number of potentials of 0 and the excess of each t_j over its limit. The
value that is left is barred for a random while (Glover 1989), unless going back to it would be the
best answer so far. Prices rise while steps end outside and fall while they end inside (strategic
oscillation: Glover 1989). A run that no longer improves ends; its best answer joins the elite if it
is better than one of them, and the next run begins at a shaken elite or at a mixture of two
(Moscato 1989).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy
from cmpe.core.moves import DROP, SLOT, Point, load, move
from cmpe.core.repair import draw

STEP, SINCE, OUTSIDE, INSIDE, TENURE, BEGUN = range(6)  # of Walk.counts
BEST, RUN = range(2)  # of Walk.levels
DEARER, CHEAPER, CHANGE = 1.3, 0.8, 8  # prices change after so many steps in a row
PATIENCE = 4  # steps per slot without a better answer end a run
MIXED = 128  # of 256 runs begin at a mixture of two


class Walk(NamedTuple):
    """How the search of one row stands."""

    barred: Any  # (S,): the step up to which a move is barred
    prices: Any  # (1 + m,): of a potential of 0, of each constraint's excess
    best: Any  # (F,): the best answer of all
    run: Any  # (F,): of this run
    elite: Any  # (K, F)
    worth: Any  # (K,): h of the elite, -inf where there is none
    levels: Any  # (2,): h of `best` and of `run`
    counts: Any  # (6,)
    state: Any  # (1,): of the random numbers


def room(graph: Any, values: Any) -> Point:
    """Room for a point of these tables (E, C), made by numpy: Python calls it once a row."""
    width, slots, channels = len(graph.free), len(graph.owner), values.shape[1]
    return Point(
        values,
        np.zeros(width, dtype=np.uint64),
        np.zeros(len(graph.offsets) - 1, dtype=np.uint64),
        np.zeros(channels),
        np.zeros((slots + 1, channels)),
    )


@njit(inner=True, nogil=True, forceinline=True)
def _violation(slot, rules, point, prices):
    """What a move leads to: violations times their prices."""
    total, delta, zeros = point.total, point.delta, rules.zeros
    away = 0.0
    if zeros[0] >= 0:
        away = prices[0] * (total[zeros[0]] + delta[slot, zeros[0]])
    for j in range(len(rules.limits)):
        c = zeros[j + 1]
        if c >= 0 and total[c] + delta[slot, c] > 0.5:
            continue
        over = total[j + 1] + delta[slot, j + 1] - rules.limits[j]
        if over > DROP:
            away += prices[j + 1] * over
    return away


@njit(inner=True, nogil=True)
def _choose(graph, rules, point, walk):
    """The move of the greatest merit that is not barred, ties at random; the last slot if none."""
    owner, variables, z, delta = graph.owner, graph.variables, point.z, point.delta
    slots, step = len(owner), walk.counts[STEP]
    plain = rules.zeros[0] < 0 and len(rules.limits) == 0
    now = _violation(slots, rules, point, walk.prices)
    above = walk.levels[BEST] - point.total[0] + rules.gain
    chosen, most, ties = slots, -np.inf, 0
    for slot in range(slots):
        merit = delta[slot, 0]
        away = 0.0
        if not plain:
            away = _violation(slot, rules, point, walk.prices)
            merit += now - away
        if merit < most:
            continue
        if walk.barred[slot] > step and not (away <= 0.0 and delta[slot, 0] > above):
            continue
        v = owner[slot]
        if np.uint64(slot) == variables[v, SLOT] + z[v]:
            continue
        if merit > most:
            chosen, most, ties = slot, merit, 1
        else:
            ties += 1
            if draw(walk.state, ties) == np.uint64(0):
                chosen = slot
    return chosen


@njit(inner=True, nogil=True)
def _adapt(rules, point, walk):
    """Prices after a step; whether it ended inside."""
    counts = walk.counts
    inside = True
    for k in range(len(walk.prices)):
        c = rules.zeros[k]
        if k == 0:
            if c < 0:
                continue
            broken = point.total[c] > 0.5
        else:
            broken = point.total[k] > rules.limits[k - 1] + DROP
            broken = broken and not (c >= 0 and point.total[c] > 0.5)
        if broken:
            inside = False
            if counts[OUTSIDE] >= CHANGE:
                walk.prices[k] *= DEARER
        elif counts[INSIDE] >= CHANGE:
            walk.prices[k] *= CHEAPER
    changed = counts[OUTSIDE] >= CHANGE or counts[INSIDE] >= CHANGE
    counts[OUTSIDE] = 0 if inside or changed else counts[OUTSIDE] + 1
    counts[INSIDE] = 0 if not inside or changed else counts[INSIDE] + 1
    return inside


@njit(inner=True, nogil=True)
def _enter(walk):
    """Let the best answer of the run join the elite: for its like, or for the worst of them."""
    if walk.levels[RUN] == -np.inf:
        return
    worst = 0
    for k in range(len(walk.worth)):
        if abs(walk.worth[k] - walk.levels[RUN]) <= 1e-9 * (1.0 + abs(walk.levels[RUN])):
            worst = k
            break
        if walk.worth[k] < walk.worth[worst]:
            worst = k
    if walk.levels[RUN] > walk.worth[worst]:
        walk.worth[worst] = walk.levels[RUN]
        copy(walk.run, walk.elite[worst])


@njit(inner=True, nogil=True)
def _member(walk):
    """One of the elite at random, -1 if there is none."""
    count = 0
    for k in range(len(walk.worth)):
        count += walk.worth[k] > -np.inf
    if count == 0:
        return -1
    left = np.int64(draw(walk.state, count))
    for k in range(len(walk.worth)):
        if walk.worth[k] > -np.inf:
            if left == 0:
                return k
            left -= 1
    return -1


@njit(inner=True, nogil=True)
def _shake(graph, point, walk):
    """Set some variables at random: few of them more often than many."""
    z, variables = point.z, graph.variables
    most = 2 + np.int64(draw(walk.state, max(1, len(z) // 2)))
    for _ in range(2 + np.int64(draw(walk.state, most))):
        v = draw(walk.state, len(z))
        z[v] = draw(walk.state, variables[v, SLOT + 1] - variables[v, SLOT])


@njit(inner=True, nogil=True)
def _begin(graph, point, walk):
    """Where the next run begins: a mixture of two of the elite, or one of them shaken."""
    z, variables = point.z, graph.variables
    one, two = _member(walk), _member(walk)
    if one >= 0:
        copy(walk.elite[one], z)
    else:
        for v in range(len(z)):
            z[v] = draw(walk.state, variables[v, SLOT + 1] - variables[v, SLOT])
    if one != two and draw(walk.state, 256) < np.uint64(MIXED):
        for v in range(len(z)):
            if draw(walk.state, 2) == np.uint64(0):
                z[v] = walk.elite[two, v]
    elif one >= 0 and walk.counts[BEGUN] > 0:
        _shake(graph, point, walk)
    load(graph, point)
    walk.levels[RUN] = -np.inf
    walk.counts[SINCE] = walk.counts[STEP]
    walk.counts[TENURE] = 2 + np.int64(draw(walk.state, 4 + len(z) // 8))
    walk.counts[BEGUN] += 1


@njit(cache=True, nogil=True)
def go(steps, graph, rules, point, walk):
    """So many steps more; runs end and begin on the way."""
    counts, variables = walk.counts, graph.variables
    patience = PATIENCE * len(graph.owner)
    if counts[BEGUN] == 0:
        _begin(graph, point, walk)
    for _ in range(steps):
        counts[STEP] += 1
        slot = _choose(graph, rules, point, walk)
        if slot < len(graph.owner):
            v = graph.owner[slot]
            pause = 1 + counts[TENURE] + np.int64(draw(walk.state, 1 + counts[TENURE]))
            walk.barred[variables[v, SLOT] + point.z[v]] = counts[STEP] + pause
            move(np.uint64(slot), graph, point)
        if _adapt(rules, point, walk) and point.total[0] > walk.levels[RUN] + rules.gain:
            walk.levels[RUN], counts[SINCE] = point.total[0], counts[STEP]
            copy(point.z, walk.run)
            if walk.levels[RUN] > walk.levels[BEST] + rules.gain:
                walk.levels[BEST] = walk.levels[RUN]
                copy(point.z, walk.best)
        if counts[STEP] - counts[SINCE] > patience:
            _enter(walk)
            _begin(graph, point, walk)
