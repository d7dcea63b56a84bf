"""The best feasible mixture of several answers, compiled: a whole batch in one call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.compiling.kernels import copy
from cmpe.solvers.local.kernels.moves import (
    ARC,
    ARC_END,
    PLACE,
    PLACE_END,
    excess,
    place,
)
from cmpe.solvers.local.kernels.repair import LANES, channels_of, conditioned, unpack

CORE = 8  # trades of which all choices are looked at
NONE = -1  # the component of what two answers agree on


class Mixing(NamedTuple):
    """Two answers to one row, and what lies between them."""

    values: Any  # (E, C): the channels' conditioned tables
    own: Any  # (F,): the answer so far
    other: Any  # (F,): the one it is mixed with
    near: Any  # (T,): where each table's entry is in the first answer
    far: Any  # (T,): and in the second
    part: Any  # (F,): the component of each variable in which they differ
    stack: Any  # (F,): variables to be looked at
    counted: Any  # (T,): whether a table is in a component's sum
    change: Any  # (F, C): what each component adds to the channels
    order: Any  # (F,): trades, the steepest first
    steep: Any  # (F,): h for a unit of the limits, of each component
    flipped: Any  # (F,): which components are as in the second answer
    chosen: Any  # (F,): the best of such choices
    total: Any  # (C,): the channels' sums of the first answer
    tried: Any  # (C,): those of a choice
    nothing: Any  # (1, C): what no move adds


@njit(inner=True, nogil=True)
def _sum(values, position, total):
    total[:] = 0.0
    for f in range(len(position)):
        for c in range(len(total)):
            total[c] += values[position[f], c]


@njit(inner=True, nogil=True)
def _component(v, label, graph, mix):
    """Label the component of variable v, and add up what it changes."""
    variables, part = graph.variables, mix.part
    mix.change[label, :] = 0.0
    mix.stack[0], part[v], height = v, label, 1
    while height > 0:
        height -= 1
        here = mix.stack[height]
        for i in range(variables[here, PLACE], variables[here, PLACE_END]):
            table = graph.places[i, 0]
            if not mix.counted[table]:
                mix.counted[table] = True
                for c in range(len(mix.total)):
                    gain = mix.values[mix.far[table], c] - mix.values[mix.near[table], c]
                    mix.change[label, c] += gain
        for i in range(variables[here, ARC], variables[here, ARC_END]):
            near = graph.arcs[i, 3]
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
def _cost(label, rules, mix):
    """What a component adds to the limits' sums, weighed as repair weighs them."""
    cost = 0.0
    for j in range(len(rules.limits)):
        cost += rules.weights[j] * mix.change[label, j + 1]
    return cost


@njit(inner=True, nogil=True)
def _sorted_trades(count, rules, mix):
    """Sort the components that give h for room, or room for h, by steepness; how many."""
    trades = 0
    for i in range(count):
        gain, cost = mix.change[i, 0], _cost(i, rules, mix)
        if gain * cost > 0.0:
            mix.steep[i] = gain / cost
            at = trades
            while at > 0 and mix.steep[mix.order[at - 1]] < mix.steep[i]:
                mix.order[at] = mix.order[at - 1]
                at -= 1
            mix.order[at] = i
            trades += 1
    return trades


@njit(inner=True, nogil=True)
def _flip(label, mix):
    """Take a component from the other answer into `tried`, or give it back."""
    sign = -1.0 if mix.flipped[label] else 1.0
    for c in range(len(mix.tried)):
        mix.tried[c] += sign * mix.change[label, c]
    mix.flipped[label] = not mix.flipped[label]


@njit(inner=True, nogil=True)
def _take(count, selling, rules, mix):
    """Begin a choice: what costs nothing; with `selling` all that give h for room, too."""
    copy(mix.total, mix.tried)
    mix.flipped[:count] = False
    for i in range(count):
        gain, cost = mix.change[i, 0], _cost(i, rules, mix)
        free = gain >= 0.0 and cost <= 0.0 and (gain > 0.0 or cost < 0.0)
        if free or (selling and gain < 0.0 and cost < 0.0):
            _flip(i, mix)


@njit(inner=True, nogil=True)
def _trade(first, end, rules, mix):
    """Make the trades from `first` to before `end` that fit; the first that does not."""
    short = end
    for k in range(first, end):
        i = mix.order[k]
        if mix.flipped[i] == (mix.change[i, 0] < 0.0):
            _flip(i, mix)
            if excess(rules, mix.tried, mix.nothing, 0) > 0.0:
                _flip(i, mix)
                short = min(short, k)
    return short


@njit(inner=True, nogil=True)
def _core(first, end, rules, mix):
    """Of all choices among the trades from `first` to before `end`, by Gray code, the best."""
    best, most, code = 0, -np.inf, 0
    for number in range(1 << (end - first)):
        if number > 0:
            bit, rest = 0, number
            while rest & 1 == 0:
                bit, rest = bit + 1, rest >> 1
            code ^= 1 << bit
            _flip(mix.order[first + bit], mix)
        if mix.tried[0] > most and excess(rules, mix.tried, mix.nothing, 0) == 0.0:
            best, most = code, mix.tried[0]
    for bit in range(end - first):
        if (code ^ best) >> bit & 1:
            _flip(mix.order[first + bit], mix)


@njit(inner=True, nogil=True)
def _choose(count, trades, selling, rules, mix):
    """Fill `flipped` and `tried`: trades that fit are made, the steepest first. Those around the
    first that does not fit are the core of the knapsack: all choices of them are looked at."""
    _take(count, selling, rules, mix)
    short = _trade(0, trades, rules, mix)
    if selling and short < trades:
        first = max(0, min(short - CORE // 2, trades - CORE))
        end = min(trades, first + CORE)
        _take(count, selling, rules, mix)
        _trade(0, first, rules, mix)
        _core(first, end, rules, mix)
        _trade(end, trades, rules, mix)


@njit(inner=True, nogil=True)
def _blend(graph, rules, mix):
    """Make the first answer the best mixture of both that is found; h does not fall."""
    place(graph, mix.other, mix.far)
    count = _components(graph, mix)
    trades, most, found = _sorted_trades(count, rules, mix), mix.total[0] + rules.gain, False
    for selling in (True, False):
        _choose(count, trades, selling, rules, mix)
        if mix.tried[0] > most and excess(rules, mix.tried, mix.nothing, 0) == 0.0:
            most, found = mix.tried[0], True
            mix.chosen[:count] = mix.flipped[:count]
    if found:
        for v in range(len(mix.own)):
            if mix.part[v] >= 0 and mix.chosen[mix.part[v]]:
                mix.own[v] = mix.other[v]
        place(graph, mix.own, mix.near)
        _sum(mix.values, mix.near, mix.total)


@njit(inner=True, nogil=True)
def _first(answers, row, graph, rules, mix):
    """Take up the best answer to a row; its number."""
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
    free, tables = len(graph.free), len(graph.offsets) - 1
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
    )


@njit(cache=True, nogil=True)
def blend(evidence, graph, gather, rules, answers, out):
    """Write mixtures of the answers (K, B, n) to each row into `out` (B, n).

    evidence (B, |X|); `gather` conditions all functions at once, one after the other. What is
    observed is in `out` already.
    """
    mix = _space(graph, channels_of(rules))
    lanes = np.zeros((evidence.shape[1], LANES), dtype=np.int64)
    block = np.zeros((len(rules.zeros) * len(mix.values), LANES))
    for row in range(len(out)):
        if row % LANES == 0:
            conditioned(evidence, row, gather, lanes, block)
        unpack(block, row % LANES, rules.zeros, mix.values)
        best = _first(answers, row, graph, rules, mix)
        for k in range(len(answers)):
            if k != best and excess(rules, mix.total, mix.nothing, 0) == 0.0:
                for i in range(len(mix.own)):
                    mix.other[i] = answers[k, row, graph.free[i]]
                _blend(graph, rules, mix)
        for i in range(len(mix.own)):
            out[row, graph.free[i]] = mix.own[i]
