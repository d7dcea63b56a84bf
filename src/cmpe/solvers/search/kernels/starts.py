"""Compiled starts of `search`: damped max-product messages (iterated modes are in `loop`).

Messages run on the factor graph of h - sum mu_j t_j, all lanes at once. A table f sends variable v

    m_fv(x) = max over the other variables of  f + sum over u != v of (b_u - m_fu),

where b_u is the sum of all messages to u; new messages are averaged with old ones (Pearl 1988;
damping as in Murphy, Weiss and Jordan 1999). On trees that is max-product, elsewhere a heuristic.
After every few sweeps each variable takes the maximiser of its b, and the multipliers are adapted.
"""

from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.compiling.kernels import maximum
from cmpe.solvers.search.kernels.lanes import LANES
from cmpe.solvers.search.kernels.loop import evaluate_all, judge

DAMPING = np.float32(0.5)  # the share of the old message
SWEEPS = 3  # between two changes of the multipliers


@njit(cache=True, nogil=True)
def _starts(layout):
    """Where each variable's beliefs and each place's message begin, and the largest table."""
    slots = np.zeros(len(layout.cards) + 1, dtype=np.int64)
    for v in range(len(layout.cards)):
        slots[v + 1] = slots[v] + layout.cards[v]
    places = np.zeros(len(layout.variables) + 1, dtype=np.int64)
    for s in range(len(layout.variables)):
        places[s + 1] = places[s] + layout.cards[layout.variables[s]]
    largest = 1
    for f in range(len(layout.offsets) - 1):
        largest = max(largest, layout.offsets[f + 1] - layout.offsets[f])
    return slots, places, largest


@njit(cache=True, nogil=True)
def _gather(f, layout, slots, places, tables, weights, beliefs, messages, work):
    """work = table f, weighted, plus what its variables hear from other tables."""
    first, end = layout.offsets[f], layout.offsets[f + 1]
    entries = layout.offsets[-1]
    for e in range(end - first):
        for lane in range(LANES):
            work[e, lane] = 0.0
        for c in range(len(weights)):
            for lane in range(LANES):
                work[e, lane] += tables[c * entries + first + e, lane] * weights[c, lane]
        for s in range(layout.starts[f], layout.starts[f + 1]):
            v = layout.variables[s]
            x = (e // layout.strides[s]) % layout.cards[v]
            for lane in range(LANES):
                work[e, lane] += beliefs[slots[v] + x, lane] - messages[places[s] + x, lane]


@njit(cache=True, nogil=True)
def _send(f, s, layout, slots, places, beliefs, messages, work, new):
    """The message of table f to the variable at place s, averaged with the old one."""
    v = layout.variables[s]
    card, stride = layout.cards[v], layout.strides[s]
    new[:card] = -np.inf
    for e in range(layout.offsets[f + 1] - layout.offsets[f]):
        x = (e // stride) % card
        for lane in range(LANES):
            new[x, lane] = max(new[x, lane], work[e, lane])
    for lane in range(LANES):
        top = np.float32(-np.inf)
        for x in range(card):
            new[x, lane] -= beliefs[slots[v] + x, lane] - messages[places[s] + x, lane]
            top = max(top, new[x, lane])
        for x in range(card):
            old = messages[places[s] + x, lane]
            change = (new[x, lane] - top - old) * (np.float32(1.0) - DAMPING)
            messages[places[s] + x, lane] = old + change
            new[x, lane] = change  # until all messages of the table are sent


@njit(cache=True, nogil=True)
def _sweep(layout, slots, places, tables, weights, beliefs, messages, work, changes):
    """Every table sends to all its variables."""
    for f in range(len(layout.offsets) - 1):
        low, high = layout.starts[f], layout.starts[f + 1]
        if low == high:
            continue
        _gather(f, layout, slots, places, tables, weights, beliefs, messages, work)
        for s in range(low, high):
            _send(f, s, layout, slots, places, beliefs, messages, work, changes[s - low])
        for s in range(low, high):
            v = layout.variables[s]
            for x in range(layout.cards[v]):
                for lane in range(LANES):
                    beliefs[slots[v] + x, lane] += changes[s - low, x, lane]


@njit(cache=True, nogil=True)
def pass_messages(chosen, layout, rules, scales, rounds, state, room):
    """Stand, in each chosen lane, where the last of some rounds of messages points."""
    slots, places, largest = _starts(layout)
    beliefs = np.zeros((slots[-1], LANES), dtype=np.float32)
    messages = np.zeros((places[-1], LANES), dtype=np.float32)
    work = np.zeros((largest, LANES), dtype=np.float32)
    arity = 1
    for f in range(len(layout.offsets) - 1):
        arity = max(arity, layout.starts[f + 1] - layout.starts[f])
    changes = np.zeros((arity, maximum(layout.cards), LANES), dtype=np.float32)
    for _ in range(rounds):
        for j in range(len(state.multipliers)):
            for lane in range(LANES):
                room.weights[j + 1, lane] = -state.multipliers[j, lane]
        for _ in range(SWEEPS):
            _sweep(
                layout, slots, places, state.tables, room.weights, beliefs, messages, work, changes
            )
        for lane in range(LANES):
            if not chosen[lane]:
                continue
            for v in range(len(layout.cards)):
                best = 0
                for x in range(1, layout.cards[v]):
                    if beliefs[slots[v] + x, lane] > beliefs[slots[v] + best, lane]:
                        best = x
                state.z[v, lane] = best
        evaluate_all(layout, state, room)
        for lane in range(LANES):
            if chosen[lane]:
                judge(lane, 1.0, scales, rules, state)
