"""The best feasible mixture of several answers, compiled: a whole batch in one call."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.moves import (
    ARC,
    ARC_END,
    END,
    NEIGHBOUR,
    PLACE,
    PLACE_END,
    SLOT,
    TABLE,
    excess,
    place,
)
from cmpe.core.repair import LANES, channels_of, conditioned, unpack
from cmpe.core.settings import LOCAL
from cmpe.core.trades import Mixing, Sums, choose, sorted_trades

NONE = -1  # the component of variables in which two answers agree


@njit(inner=True, nogil=True)
def _sum(values, position, total):
    total[:] = 0.0
    for f in range(len(position)):
        for c in range(len(total)):
            total[c] += values[position[f], c]


@njit(inner=True, nogil=True)
def _component(v, label, graph, mix):
    """Label the component of variable v, and add up its changes of the channels."""
    variables, part = graph.variables, mix.part
    mix.change[label, :] = 0.0
    mix.stack[0], part[v], height = v, label, 1
    while height > 0:
        height -= 1
        here = mix.stack[height]
        for i in range(variables[here, PLACE], variables[here, PLACE_END]):
            table = graph.places[i, TABLE]
            if not mix.counted[table]:
                mix.counted[table] = True
                for c in range(len(mix.total)):
                    gain = mix.values[mix.far[table], c] - mix.values[mix.near[table], c]
                    mix.change[label, c] += gain
        for i in range(variables[here, ARC], variables[here, ARC_END]):
            near = graph.arcs[i, NEIGHBOUR]
            if mix.own[near] != mix.other[near] and part[near] == NONE:
                part[near] = label
                mix.stack[height] = near
                height += 1


@njit(inner=True, nogil=True)
def _components(graph, mix):
    """How many components the two answers differ in."""
    mix.part[:] = NONE
    mix.counted[:] = False
    count = 0
    for v in range(len(mix.own)):
        if mix.own[v] != mix.other[v] and mix.part[v] == NONE:
            _component(v, count, graph, mix)
            count += 1
    return count


@njit(inner=True, nogil=True)
def _blend(graph, rules, mix):
    """Replace the first answer by the best mixture that the knapsack gives; whether h rose."""
    place(graph, mix.other, mix.far)
    count = _components(graph, mix)
    trades, most, improved = sorted_trades(count, rules, mix), mix.total[0] + rules.gain, False
    for selling in (True, False):
        choose(count, trades, selling, rules, mix)
        if mix.tried[0] > most and excess(rules, mix.tried, mix.nothing, 0) == 0.0:
            most, improved = mix.tried[0], True
            mix.chosen[:count] = mix.flipped[:count]
    if improved:
        for v in range(len(mix.own)):
            if mix.part[v] >= 0 and mix.chosen[mix.part[v]]:
                mix.own[v] = mix.other[v]
        place(graph, mix.own, mix.near)
        _sum(mix.values, mix.near, mix.total)
    return improved


@njit(inner=True, nogil=True)
def _coloured(graph, colour):
    """Colour the variables so that no table joins two of one colour; the number of colours.

    A variable for which `LOCAL.colours` do not suffice has the colour NONE.
    """
    count = 0
    for v in range(len(colour)):
        taken = 0
        for i in range(graph.variables[v, ARC], graph.variables[v, ARC_END]):
            near = graph.arcs[i, NEIGHBOUR]
            if near < np.uint64(v) and colour[near] != NONE:
                taken |= 1 << colour[near]
        free = 0
        while taken >> free & 1:
            free += 1
        colour[v] = free if free < LOCAL.colours else NONE
        count = max(count, min(free + 1, LOCAL.colours))
    return count


@njit(inner=True, nogil=True)
def _trade_values(graph, rules, mix, colour, count):
    """Mix the answer with itself with other values in all variables of a colour.

    No table joins two of these variables, so each is a component, and the best set of single moves
    is made. Whether any move was made.
    """
    gained = False
    for shift in range(1, LOCAL.values + 1):
        for c in range(count):
            some = False
            for v in range(len(mix.own)):
                mix.other[v] = mix.own[v]
                card = graph.variables[v, END] - graph.variables[v, SLOT]
                if colour[v] == c and np.uint64(shift) < card:
                    mix.other[v] = (mix.own[v] + np.uint64(shift)) % card
                    some = True
            if some:
                gained |= _blend(graph, rules, mix)
    return gained


@njit(inner=True, nogil=True)
def _first(answers, row, graph, rules, mix):
    """Begin with the best answer to a row; its number."""
    best, least, most = 0, np.inf, -np.inf
    for k in range(len(answers)):
        for i in range(len(mix.own)):
            mix.own[i] = answers[k, row, graph.free[i]]
        place(graph, mix.own, mix.near)
        _sum(mix.values, mix.near, mix.total)
        away = excess(rules, mix.total, mix.nothing, 0)
        if away < least or (away == least and mix.total[0] > most):
            best, least, most = k, away, mix.total[0]
    for i in range(len(mix.own)):
        mix.own[i] = answers[best, row, graph.free[i]]
    place(graph, mix.own, mix.near)
    _sum(mix.values, mix.near, mix.total)
    return best


@njit(inner=True, nogil=True)
def _space(graph, channels):
    free, tables, longest = len(graph.free), len(graph.offsets) - 1, 1 << LOCAL.half
    return Mixing(
        np.zeros((graph.offsets[-1], channels)),
        np.zeros(free, dtype=np.uint64),
        np.zeros(free, dtype=np.uint64),
        np.zeros(tables, dtype=np.uint64),
        np.zeros(tables, dtype=np.uint64),
        np.zeros(free, dtype=np.int64),
        np.zeros(free, dtype=np.uint64),
        np.zeros(tables, dtype=np.bool_),
        np.zeros((free, channels)),
        np.zeros(free, dtype=np.int64),
        np.zeros(free),
        np.zeros(free, dtype=np.bool_),
        np.zeros(free, dtype=np.bool_),
        np.zeros(channels),
        np.zeros(channels),
        np.zeros((1, channels)),
        Sums(np.zeros((3, longest)), np.zeros((3, longest)), np.zeros((3, longest), np.int64)),
    )


@njit(cache=True, nogil=True)
def blend(evidence, graph, gather, rules, answers, trades, out):
    """Write a mixture of the answers (K, B, n) to each row into `out` (B, n).

    At most `trades` rounds of trades follow. evidence (B, |X|); `gather` conditions all functions,
    one after the other. `out` has the observed values already.
    """
    mix = _space(graph, channels_of(rules))
    lanes = np.zeros((evidence.shape[1], LANES), dtype=np.int64)
    block = np.zeros((len(rules.zeros) * len(mix.values), LANES))
    colour = np.zeros(len(mix.own), dtype=np.int64)
    colours = _coloured(graph, colour) if trades > 0 else 0
    for row in range(len(out)):
        if row % LANES == 0:
            conditioned(evidence, row, gather, lanes, block)
        unpack(block, row % LANES, rules.zeros, mix.values)
        best = _first(answers, row, graph, rules, mix)
        if excess(rules, mix.total, mix.nothing, 0) == 0.0:
            for k in range(len(answers)):
                if k != best:
                    for i in range(len(mix.own)):
                        mix.other[i] = answers[k, row, graph.free[i]]
                    _blend(graph, rules, mix)
            for _ in range(trades):
                if not _trade_values(graph, rules, mix, colour, colours):
                    break
        for i in range(len(mix.own)):
            out[row, graph.free[i]] = mix.own[i]
