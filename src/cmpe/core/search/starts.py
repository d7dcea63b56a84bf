"""Compiled starts of `search`: soft max-product messages (iterated modes are in `loop`).

Messages run on the factor graph of theta = (h - sum mu_j t_j) / its size, all lanes at once. A
table f sends variable v

    m_fv(x) = T log of the sum over the other variables of
              exp((theta_f + sum over u != v of (b_u - m_fu)) / T),

where b_u is the sum of all messages to u; new messages are averaged with old ones (Pearl 1988;
damping as in Murphy, Weiss and Jordan 1999). Tables send one after another, forwards and backwards
in turn, so that each uses the new messages of those before it. T falls from round to round, from
soft maxima to nearly hard ones. After each round every variable takes the maximiser of its b, the
assignment is kept if it is the best one, and the multipliers are adapted.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import LANES, load, minus, plus, spread, store, times
from cmpe.core.messages import soft_message
from cmpe.core.search.loop import evaluate_all, judge
from cmpe.core.search.settings import SETTINGS


class MessageRoom(NamedTuple):
    """Messages of LANES rows on their way; values of variables and places are rows, end to end."""

    slots: Any  # (F + 1,): where the values of each variable begin
    places: Any  # (P + 1,): those of each place of a scope
    beliefs: Any  # (slots, L) float32
    messages: Any  # (places, L) float32: to the place
    cavity: Any  # (values of the longest scope, L) float32: messages from other tables
    work: Any  # (largest table + most values, L) float32
    how: Any  # (3, L) float32: T, 1 / T, damping
    gram: Any  # (C, C, L): mean products of the functions' entries


@njit(inner=True, counted=False)
def _measure(tables, entries, gram):
    """Mean products of the functions' entries, lane by lane, those of forbidden ones left out."""
    gram[:] = 0.0
    for e in range(entries):
        for lane in range(LANES):
            for c in range(len(gram)):
                one = np.float64(tables[c * entries + e, lane])
                for d in range(len(gram)):
                    two = np.float64(tables[d * entries + e, lane])
                    if min(one, two) > -SETTINGS.steep:
                        gram[c, d, lane] += one * two / entries


@njit(inner=True, counted=False)
def _weigh(gram, multipliers, weights):
    """1 and -mu over the size of theta."""
    for lane in range(LANES):
        weights[0, lane] = 1.0
        for j in range(len(multipliers)):
            weights[1 + j, lane] = -multipliers[j, lane]
        square = 0.0
        for c in range(len(gram)):
            for d in range(len(gram)):
                square += weights[c, lane] * weights[d, lane] * gram[c, d, lane]
        size = np.float32(math.sqrt(max(1e-12, square)))
        for c in range(len(gram)):
            weights[c, lane] /= size


@njit(counted=False)
def _take_off(f, layout, room):
    """The beliefs of table f's variables without its messages: what other tables send them."""
    at = 0
    for s in range(layout.starts[f], layout.starts[f + 1]):
        slot, place = room.slots[layout.variables[s]], room.places[s]
        for x in range(room.places[s + 1] - place):
            others = minus(load(room.beliefs, slot + x), load(room.messages, place + x))
            store(room.beliefs, slot + x, others)
            store(room.cavity, at, others)
            at += 1


@njit(counted=False)
def _theta(entry, entries, tables, weights):
    """The entry of all functions' tables, weighted."""
    total = times(load(weights, 0), load(tables, entry))
    for c in range(1, len(weights)):
        total = plus(total, times(load(weights, c), load(tables, c * entries + entry)))
    return total


@njit(counted=False)
def _join(f, layout, tables, weights, room):
    """work = table f, weighted, plus the cavity; the last variable runs fastest."""
    first, entries, end = layout.offsets[f], layout.offsets[-1], layout.starts[f + 1]
    card = room.places[end] - room.places[end - 1]
    last = room.places[end - 1] - room.places[layout.starts[f]]
    for row in range(0, layout.offsets[f + 1] - first, card):
        heard, at = spread(np.float32(0.0)), 0
        for s in range(layout.starts[f], end - 1):
            size = room.places[s + 1] - room.places[s]
            heard = plus(heard, load(room.cavity, at + (row // layout.strides[s]) % size))
            at += size
        for x in range(card):
            total = plus(heard, load(room.cavity, last + x))
            total = plus(total, _theta(first + row + x, entries, tables, weights))
            store(room.work, row + x, total)


@njit(counted=False)
def _speak(f, layout, tables, weights, room):
    """Table f sends to all its variables."""
    _take_off(f, layout, room)
    _join(f, layout, tables, weights, room)
    size, at = layout.offsets[f + 1] - layout.offsets[f], 0
    how = load(room.how, 0), load(room.how, 1), load(room.how, 2)
    for s in range(layout.starts[f], layout.starts[f + 1]):
        slot, place = room.slots[layout.variables[s]], room.places[s]
        card = room.places[s + 1] - place
        axis = place, card, layout.strides[s], at
        soft_message(room.messages, room.work, room.cavity, size, axis, how)
        for x in range(card):
            belief = plus(load(room.beliefs, slot + x), load(room.messages, place + x))
            store(room.beliefs, slot + x, belief)
        at += card


@njit(inner=True, counted=False)
def _decide(chosen, room, z):
    """Every variable of a chosen lane takes the maximiser of its belief, the first of equals."""
    for v in range(len(z)):
        for lane in range(LANES):
            if chosen[lane]:
                best = room.slots[v]
                for slot in range(best + 1, room.slots[v + 1]):
                    if room.beliefs[slot, lane] > room.beliefs[best, lane]:
                        best = slot
                z[v, lane] = best - room.slots[v]


@njit(nogil=True)
def pass_messages(chosen, rounds, layout, rules, scales, state, scratch, room):
    """Stand, in each chosen lane, where the last of some rounds of messages points."""
    tables = len(layout.offsets) - 1
    _measure(state.tables, layout.offsets[-1], room.gram)
    for k in range(rounds):
        _weigh(room.gram, state.multipliers, scratch.weights)
        warm = SETTINGS.warm * (SETTINGS.cool / SETTINGS.warm) ** (k / max(1, rounds - 1))
        room.how[0], room.how[1], room.how[2] = warm, 1.0 / warm, SETTINGS.damping if k else 0.0
        for i in range(tables):
            f = i if k % 2 == 0 else tables - 1 - i
            if layout.starts[f] < layout.starts[f + 1]:
                _speak(f, layout, state.tables, scratch.weights, room)
        _decide(chosen, room, state.z)
        evaluate_all(layout, state, scratch)
        for lane in range(LANES):
            if chosen[lane]:
                judge(lane, SETTINGS.message_step, scales, rules, state)
    scratch.weights[0] = 1.0  # as passes expect it
