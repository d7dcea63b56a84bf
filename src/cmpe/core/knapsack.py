"""Compiled multiple-choice knapsack: the bound of a node, and the classes of a row."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.dual import CLOSE
from cmpe.core.loops import copy
from cmpe.core.mplp import MANY
from cmpe.core.settings import EXACT


@njit(cache=True, nogil=True)
def classes(graph, h, t, messages, profit, weight):
    """One class per table of several variables, then one per variable.

    The messages move h from tables to variables: p_f = h_f - sum d_fi, p_i = h_i + sum d_fi. `t`
    (E,) stays where it is. Filled end to end, in the order of the tables' entries.
    """
    offsets, starts, places = graph.offsets, graph.starts, graph.places
    cards, strides, unary = graph.cards, graph.strides, graph.unary
    entries, base, at = 0, 0, 0
    for f in range(len(unary)):
        if unary[f] == MANY:
            entries += offsets[f + 1] - offsets[f]
    profit[entries:] = 0.0
    weight[entries:] = 0.0
    for f in range(len(unary)):
        if unary[f] >= 0:
            for a in range(offsets[f + 1] - offsets[f]):
                profit[entries + unary[f] + a] += h[offsets[f] + a]
                weight[entries + unary[f] + a] += t[offsets[f] + a]
        elif unary[f] == MANY:
            for e in range(offsets[f + 1] - offsets[f]):
                value, m = h[offsets[f] + e], base
                for s in range(starts[f], starts[f + 1]):
                    value -= messages[m + e // strides[s] % cards[s]]
                    m += cards[s]
                profit[at], weight[at] = value, t[offsets[f] + e]
                at += 1
            for s in range(starts[f], starts[f + 1]):
                for a in range(cards[s]):
                    profit[entries + places[s] + a] += messages[base]
                    base += 1


@njit(cache=True, nogil=True)
def _best(profit, weight, starts, fixed, mu, choice):
    """The best entry of every class at price mu (inf: the lightest); returns (profit, weight)."""
    total, load = 0.0, 0.0
    for c in range(len(starts) - 1):
        best, winner = -np.inf, starts[c]
        if fixed[c] >= 0:
            winner = fixed[c]
        else:
            for e in range(starts[c], starts[c + 1]):
                value = profit[e] - mu * weight[e] if mu < np.inf else -weight[e]
                if value > best:
                    best, winner = value, e
        choice[c] = winner
        total += profit[winner]
        load += weight[winner]
    return total, load


@njit(cache=True, nogil=True)
def node(profit, weight, starts, fixed, limit, low, high):
    """(bound, class to branch on or -1) of a node: its linear relaxation.

    `low` and `high` receive the satisfying and the violating choice that the relaxation mixes.
    """
    heavy_p, heavy_w = _best(profit, weight, starts, fixed, 0.0, high)
    if heavy_w <= limit:
        return heavy_p, -1
    light_p, light_w = _best(profit, weight, starts, fixed, np.inf, low)
    if light_w > limit:
        return -np.inf, -1
    choice = np.zeros(len(low), dtype=np.int64)
    bound = heavy_p
    for _ in range(EXACT.bracket_steps):
        if heavy_w <= light_w:
            break
        mu = max(0.0, (heavy_p - light_p) / (heavy_w - light_w))
        p, w = _best(profit, weight, starts, fixed, mu, choice)
        bound = min(bound, p - mu * w + mu * limit)
        line = light_p - mu * light_w
        if p - mu * w - line <= CLOSE * (1.0 + abs(line)):
            break
        if w > limit:
            heavy_p, heavy_w = p, w
            copy(choice, high)
        else:
            light_p, light_w = p, w
            copy(choice, low)
    widest, branch = 0.0, -1
    for c in range(len(low)):
        spread = abs(weight[high[c]] - weight[low[c]])
        if high[c] != low[c] and spread >= widest:
            widest, branch = spread, c
    return bound, branch
