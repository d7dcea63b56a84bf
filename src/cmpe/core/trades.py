"""Which components of two answers to take from which, compiled: a knapsack.

A component adds some h and some of each t_j. Those that cost nothing are taken. The others are
*trades*: h for room under the limits, or room for h. The steepest come first, and around the first
that does not fit lies the core of the knapsack (Balas and Zemel 1980), of which all choices are
tried: with one limit those of twice `LOCAL.half` trades, as two lists of undominated sums (Horowitz
and Sahni 1974), else those of `LOCAL.core` trades one by one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy
from cmpe.core.moves import excess
from cmpe.core.settings import LOCAL


class Sums(NamedTuple):
    """Choices among some trades, in ascending order of t and of h; one list in each line."""

    cost: Any  # (3, 2 ^ half): what a choice adds to t
    gain: Any  # (3, 2 ^ half): and to h
    code: Any  # (3, 2 ^ half): which trades are made or undone, bit by bit


class Mixing(NamedTuple):
    """Two answers to one row, and the components in which they differ."""

    values: Any  # (E, C): the channels' conditioned tables
    own: Any  # (F,): the answer so far
    other: Any  # (F,): the one it is mixed with
    near: Any  # (T,): where each table's entry is in the first answer
    far: Any  # (T,): and in the second
    part: Any  # (F,): the component of each variable in which they differ
    stack: Any  # (F,): variables yet to be visited
    counted: Any  # (T,): whether a table is in a component's sum
    change: Any  # (F, C): by how much each component changes the channels
    order: Any  # (F,): trades, the steepest first
    steep: Any  # (F,): h for a unit of the limits, of each component
    flipped: Any  # (F,): which components are as in the second answer
    chosen: Any  # (F,): the best of such choices
    total: Any  # (C,): the channels' sums of the first answer
    tried: Any  # (C,): those of a choice
    nothing: Any  # (1, C): what no move adds
    sums: Any  # choices among the trades of the core


@njit(inner=True, nogil=True)
def _cost(label, rules, mix):
    """What a component adds to the limits' sums, weighed as repair weighs them."""
    cost = 0.0
    for j in range(len(rules.limits)):
        cost += rules.weights[j] * mix.change[label, j + 1]
    return cost


@njit(inner=True, nogil=True)
def _is_barred(label, rules, mix):
    """Whether a component adds a potential of 0 to h."""
    zero = rules.zeros[0]
    return zero >= 0 and mix.change[label, zero] > 0.5


@njit(inner=True, nogil=True)
def _sort(count, mix):
    """Put the first `count` trades in order, the steepest first (Shell's method)."""
    order, steep, gap = mix.order, mix.steep, 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            key, j = order[i], i
            while j >= gap and steep[order[j - gap]] < steep[key]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = key
        gap //= 3


@njit(inner=True, nogil=True)
def sorted_trades(count, rules, mix):
    """Sort the components that give h for room, or room for h, by steepness; how many."""
    trades = 0
    for i in range(count):
        gain, cost = mix.change[i, 0], _cost(i, rules, mix)
        if gain * cost > 0.0 and not _is_barred(i, rules, mix):
            mix.steep[i] = gain / cost
            mix.order[trades] = i
            trades += 1
    _sort(trades, mix)
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
        if (free or (selling and gain < 0.0 and cost < 0.0)) and not _is_barred(i, rules, mix):
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
def _core_one_by_one(first, end, rules, mix):
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
def _widen(line, count, trade, bit, mix):
    """Add to a list its choices with one more trade made, or undone; the new number of choices.

    A choice is dropped where another one has at least its h and no more t.
    """
    cost, gain, code = mix.sums
    sign = -1.0 if mix.flipped[trade] else 1.0
    more, up = sign * mix.change[trade, 1], sign * mix.change[trade, 0]
    without, having, made, spare, most = 0, 0, 0, 2, -np.inf
    while without < count or having < count:
        if having == count or (
            without < count and cost[line, without] <= cost[line, having] + more
        ):
            at, spent, won = without, cost[line, without], gain[line, without]
            number, without = code[line, at], without + 1
        else:
            at, spent, won = having, cost[line, having] + more, gain[line, having] + up
            number, having = code[line, at] | bit, having + 1
        if won > most:
            cost[spare, made], gain[spare, made], code[spare, made] = spent, won, number
            made, most = made + 1, won
    for i in range(made):
        cost[line, i], gain[line, i] = cost[spare, i], gain[spare, i]
        code[line, i] = code[spare, i]
    return made


@njit(inner=True, nogil=True)
def _listed(line, first, end, mix):
    """List the choices among the trades from `first` to before `end`; how many are kept."""
    cost, gain, code = mix.sums
    cost[line, 0], gain[line, 0], code[line, 0], count = 0.0, 0.0, 0, 1
    for k in range(first, end):
        count = _widen(line, count, mix.order[k], 1 << (k - first), mix)
    return count


@njit(inner=True, nogil=True)
def _core_of_halves(first, end, rules, mix):
    """The same with one limit: the best pair that fits, of a choice from each of two lists."""
    cost, gain, code = mix.sums
    middle = (first + end) // 2
    count, rest = _listed(0, first, middle, mix), _listed(1, middle, end, mix) - 1
    room, best, most = rules.limits[0] - mix.tried[1], 0, -np.inf
    for i in range(count):
        while rest >= 0 and cost[0, i] + cost[1, rest] > room:
            rest -= 1
        if rest < 0:
            break
        if gain[0, i] + gain[1, rest] > most:
            most = gain[0, i] + gain[1, rest]
            best = code[0, i] | (code[1, rest] << (middle - first))
    for bit in range(end - first):
        if best >> bit & 1:
            _flip(mix.order[first + bit], mix)


@njit(inner=True, nogil=True)
def choose(count, trades, selling, rules, mix):
    """Fill `flipped` and `tried`: trades that fit are made, the steepest first.

    The trades around the first one that does not fit are the core of the knapsack.
    """
    _take(count, selling, rules, mix)
    short = _trade(0, trades, rules, mix)
    if selling and short < trades:
        plain = len(rules.limits) == 1 and rules.zeros[1] < 0
        size = 2 * LOCAL.half if plain else LOCAL.core
        first = max(0, min(short - size // 2, trades - size))
        end = min(trades, first + size)
        _take(count, selling, rules, mix)
        _trade(0, first, rules, mix)
        if plain:
            _core_of_halves(first, end, rules, mix)
        else:
            _core_one_by_one(first, end, rules, mix)
        _trade(end, trades, rules, mix)
