"""The moves of `local`, compiled: one variable, chains of neighbours, exchanges of two.

One row at a time. Every function is a set of channels over the conditioned tables: the finite
parts of h and of each t_j and, where a function has potentials of 0, the count of its -inf
entries. So a move changes every channel by a finite amount, and -inf never meets -inf.

`delta[slot, c]` is what channel c gains by the one-variable move that `slot` stands for (every
value of every free variable is a slot; the slot of a current value gains 0; the last slot is
no move at all). A move corrects `delta` in time proportional to the variable's tables; every
scan over moves is then a plain loop. Channels are even in number and handled two at a time, and
indices are unsigned: no inner loops of two steps, no tests for negative indices, half the time.
Numba makes a float of signed plus unsigned, hence the casts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy
from cmpe.core.settings import LOCAL

FORBIDDEN = 1e6  # penalty of one -inf entry of h: leaving them comes first
DROP = 1e-12  # the least fall of the penalty that counts as one
# Columns of `Graph.variables`; of `places` (the first two) and `arcs`; rows of `Notes.trail`.
SLOT, END, ARC, ARC_END, PLACE, SHARED, PLACE_END = range(7)
TABLE, OWN_STRIDE, OTHER_STRIDE, NEIGHBOUR, FIRST_SLOT, END_SLOT = range(6)
VARIABLES, LEFT_SLOTS = range(2)


class Point(NamedTuple):
    """Where the search of one row stands."""

    values: Any  # (E, C): the channels' conditioned tables
    z: Any  # (F,): the value of each free variable
    position: Any  # (T,): where each table's current entry is
    total: Any  # (C,): the channels' sums
    delta: Any  # (S + 1, C): what each move adds to them


class Notes(NamedTuple):
    """Memory of the search of one row."""

    barred: Any  # (S,): the step up to which a move is barred
    kept: Any  # (F,): the best assignment so far
    trail: Any  # (2, F): the variables of a chain and the slots they left
    marked: Any  # (F,): whether a variable is in the chain
    state: Any  # (1,): of the random numbers


@njit(inner=True, nogil=True)
def place(graph, z, position):
    """Where each table's entry is at assignment z."""
    copy(graph.offsets, position)
    for v in range(len(z)):
        for i in range(graph.variables[v, PLACE], graph.variables[v, PLACE_END]):
            position[graph.places[i, TABLE]] += graph.places[i, OWN_STRIDE] * z[v]


@njit(inner=True, nogil=True)
def load(graph, point):
    """Fill in a point from its `z`: positions of tables, totals of channels, gains of moves."""
    variables, places = graph.variables, graph.places
    values, z, position, total, delta = point
    place(graph, z, position)
    for c in range(0, len(total), 2):
        one, two = 0.0, 0.0
        for f in range(len(position)):
            one += values[position[f], c]
            two += values[position[f], c + 1]
        total[c], total[c + 1] = one, two
        for v in range(len(z)):
            first, here = variables[v, SLOT], z[v]
            for slot in range(first, variables[v, END]):
                one, two = 0.0, 0.0
                for i in range(variables[v, PLACE], variables[v, PLACE_END]):
                    old = position[places[i, TABLE]]
                    new = old + places[i, OWN_STRIDE] * (slot - first - here)
                    one += values[new, c] - values[old, c]
                    two += values[new, c + 1] - values[old, c + 1]
                delta[slot, c], delta[slot, c + 1] = one, two


@njit(inner=True, nogil=True, forceinline=True)
def move(slot, graph, point):
    """Make a move; correct the gains of the neighbours' moves and of the variable's own."""
    variables, arcs, places = graph.variables, graph.arcs, graph.places
    values, z, position, total, delta = point
    v = graph.owner[slot]
    shift = slot - variables[v, SLOT] - z[v]
    for i in range(variables[v, ARC], variables[v, ARC_END]):
        old = position[arcs[i, TABLE]]
        new = old + arcs[i, OWN_STRIDE] * shift
        stride, first = arcs[i, OTHER_STRIDE], arcs[i, FIRST_SLOT]
        here = first + z[arcs[i, NEIGHBOUR]]
        for other in range(first, arcs[i, END_SLOT]):
            if other == here:
                continue
            jump = stride * (other - here)
            far, near = new + jump, old + jump
            for c in range(0, len(total), 2):
                d = c + 1
                one = (values[far, c] - values[near, c]) + (values[old, c] - values[new, c])
                two = (values[far, d] - values[near, d]) + (values[old, d] - values[new, d])
                delta[other, c] += one
                delta[other, d] += two
    for i in range(variables[v, SHARED], variables[v, PLACE_END]):
        position[places[i, TABLE]] += places[i, OWN_STRIDE] * shift
    for c in range(0, len(total), 2):
        one, two = delta[slot, c], delta[slot, c + 1]
        total[c] += one
        total[c + 1] += two
        for each in range(variables[v, SLOT], variables[v, END]):
            delta[each, c] -= one
            delta[each, c + 1] -= two
    z[v] += shift


@njit(inner=True, nogil=True, forceinline=True)
def excess(rules, total, delta, slot):
    """How far from feasible sums with what `slot` adds are: 0 exactly where they are feasible."""
    limits, weights, zeros = rules.limits, rules.weights, rules.zeros
    away = 0.0
    if zeros[0] >= 0:
        away = FORBIDDEN * (total[zeros[0]] + delta[slot, zeros[0]])
    for j in range(len(limits)):
        c = zeros[j + 1]
        if c >= 0 and total[c] + delta[slot, c] > 0.5:
            continue
        over = weights[j] * (total[j + 1] + delta[slot, j + 1] - limits[j])
        if over > DROP:
            away += over
    return away


@njit(inner=True, nogil=True, forceinline=True)
def penalty(slot, rules, point):
    """How far from feasible a move leads: 0 exactly where it is feasible."""
    return excess(rules, point.total, point.delta, slot)


@njit(cache=True, nogil=True, forceinline=True)
def _is_better(after, now, gain, least):
    """Whether a move to the penalty `after` that gains `gain` of h is better than the penalty
    `now`: the penalty falls, or it does not rise and the gain exceeds `least`."""
    return after < now - DROP or (after <= now and gain > least)


@njit(inner=True, nogil=True)
def climb(graph, rules, point):
    """Single moves that lower the penalty, or raise h at no higher penalty, until there are none.

    With infinite limits this is iterated conditional modes; from a feasible point all points are
    feasible. Returns the number of moves.
    """
    variables, delta = graph.variables, point.delta
    count, stay = len(point.z), len(delta) - 1
    now = penalty(stay, rules, point)
    v, idle, moves = 0, 0, 0
    while idle < count and moves < 1000 * count:
        best, least, gain = variables[v, END], now, rules.gain
        for slot in range(variables[v, SLOT], variables[v, END]):
            if now > 0.0 or delta[slot, 0] > gain:
                after = penalty(slot, rules, point)
                if _is_better(after, least, delta[slot, 0], gain):
                    best, least, gain = slot, after, delta[slot, 0]
        idle += 1
        if best < variables[v, END]:
            move(best, graph, point)
            now = penalty(stay, rules, point)
            idle, moves = 0, moves + 1
        v = v + 1 if v + 1 < count else 0
    return moves


@njit(cache=True, nogil=True, forceinline=True)
def _pulls(slot, graph, point):
    """Whether after a move some move of a neighbour would raise h.

    Far cheaper than to make the move. Exact where neighbours share one table.
    """
    variables, arcs = graph.variables, graph.arcs
    values, z, position, _, delta = point
    v = graph.owner[slot]
    shift = slot - variables[v, SLOT] - z[v]
    for i in range(variables[v, ARC], variables[v, ARC_END]):
        old = position[arcs[i, TABLE]]
        new = old + arcs[i, OWN_STRIDE] * shift
        lift = values[old, 0] - values[new, 0]
        here = arcs[i, FIRST_SLOT] + z[arcs[i, NEIGHBOUR]]
        for other in range(arcs[i, FIRST_SLOT], arcs[i, END_SLOT]):
            jump = arcs[i, OTHER_STRIDE] * (other - here)
            if delta[other, 0] + (values[new + jump, 0] - values[old + jump, 0] + lift) > 0.0:
                return True
    return not graph.is_simple


@njit(cache=True, nogil=True)
def _follow(slot, now, depth, graph, rules, point, notes):
    """Make the move `slot`, then moves of neighbours that raise h most, until all together are
    better than no move (`_is_better`). Returns how many were made and whether they are.
    """
    variables, arcs, owner = graph.variables, graph.arcs, graph.owner
    z, delta, trail = point.z, point.delta, notes.trail
    stay = len(delta) - 1
    gain, length = 0.0, 0
    while True:
        v = owner[slot]
        trail[VARIABLES, length], trail[LEFT_SLOTS, length] = v, variables[v, SLOT] + z[v]
        notes.marked[v] = True
        length += 1
        gain += delta[slot, 0]
        move(slot, graph, point)
        if _is_better(penalty(stay, rules, point), now, gain, rules.gain):
            return length, True
        top, done = 0.0, length == depth
        for k in range(length if not done else 0):
            before = trail[VARIABLES, k]
            for i in range(variables[before, ARC], variables[before, ARC_END]):
                if done or notes.marked[arcs[i, NEIGHBOUR]]:
                    continue
                for other in range(arcs[i, FIRST_SLOT], arcs[i, END_SLOT]):
                    rise = delta[other, 0]
                    if now > 0.0 or gain + rise > rules.gain:
                        after = penalty(other, rules, point)
                        if _is_better(after, now, gain + rise, rules.gain):
                            slot, top, done = other, np.inf, True
                            break
                    if rise > top:
                        slot, top = other, rise
        if top == 0.0:
            return length, False


@njit(inner=True, nogil=True)
def chain(depth, graph, rules, point, notes):
    """Chains of moves from every variable; those that are better than no move stay. How many.

    The second move may be any that makes the pair better: where there are no chains, no pair of
    moves of two variables of one table is better.
    """
    z, trail = point.z, notes.trail
    stay = len(point.delta) - 1
    now = penalty(stay, rules, point)
    chains = 0
    for slot in range(len(graph.owner)):
        v = graph.owner[slot]
        if np.uint64(slot) == graph.variables[v, SLOT] + z[v]:
            continue
        alone = now == 0.0 and point.delta[slot, 0] <= rules.gain
        if alone and not _pulls(np.uint64(slot), graph, point):
            continue
        length, better = _follow(np.uint64(slot), now, depth, graph, rules, point, notes)
        for k in range(length - 1, -1, -1):
            notes.marked[trail[VARIABLES, k]] = False
            if not better:
                move(trail[LEFT_SLOTS, k], graph, point)
        if better:
            chains += 1
            now = penalty(stay, rules, point)
    return chains


@njit(inner=True, nogil=True)
def exchange(start, tries, graph, rules, point):
    """From a feasible point: make a move that raises h but breaks a constraint, and the move
    anywhere that restores feasibility at the smallest loss of h, if that loss is smaller.

    Begins at slot `start` and tries at most `tries` first moves. Returns how many exchanges were
    made.
    """
    delta, slots = point.delta, len(graph.owner)
    swaps = 0
    for k in range(slots):
        slot = start + k if start + k < slots else start + k - slots
        gain = delta[slot, 0]
        if gain <= rules.gain:
            continue
        if tries == 0:
            break
        tries -= 1
        v = graph.owner[slot]
        before = graph.variables[v, SLOT] + point.z[v]
        move(np.uint64(slot), graph, point)
        best, least = before, rules.gain - gain
        for other in range(slots):
            if delta[other, 0] > least and penalty(other, rules, point) == 0.0:
                best, least = np.uint64(other), delta[other, 0]
        swaps += best != before
        move(best, graph, point)
    return swaps


@njit(inner=True, nogil=True)
def polish(sweeps, graph, rules, point, notes):
    """Climb from a feasible point until no move and, within the sweeps allowed, no chain and no
    exchange is better."""
    climb(graph, rules, point)
    for _ in range(sweeps):
        better = chain(LOCAL.chain, graph, rules, point, notes)
        if better > 0:
            climb(graph, rules, point)
        better += exchange(0, len(graph.owner), graph, rules, point)
        if better == 0:
            break
        climb(graph, rules, point)
