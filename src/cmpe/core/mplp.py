"""Compiled message passing with a valid dual: MPLP, with the constraints' multipliers.

Every table f of two or more variables sends messages d_fi(z_i) to its variables i. With
b_i = theta_i + sum over f of d_fi, and theta = h - sum_j mu_j t_j,

    D = sum_i max b_i + sum_f max (theta_f - sum_i d_fi) + sum_j mu_j q_j

is an upper bound for any messages and mu >= 0, since the messages cancel (Globerson and Jaakkola
2007). Updating all messages of one table, so that each variable gets an equal part of the
max-marginal, never raises D.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.dual import SLACK
from cmpe.core.loops import copy
from cmpe.core.multipliers import BEST, MESSAGE_RULE, fall
from cmpe.core.settings import WIDE

MANY, NONE = -1, -2  # in `MessageTables.unary`: a table of several variables, or of none


class MessageTables(NamedTuple):
    """All tables of a structure; table f has axes starts[f]:starts[f + 1]."""

    offsets: Integers  # (F + 1,) of entries
    starts: Integers  # (F + 1,) of axes
    places: Integers  # (S,) where the axis's variable starts among the beliefs
    cards: Integers  # (S,)
    strides: Integers  # (S,)
    unary: Integers  # (F,) where the variable of a table of one starts, else MANY or NONE
    variables: Integers  # (n + 1,) where the beliefs of each free variable start


class MessageState(NamedTuple):
    """Where one row is."""

    messages: Floats
    mu: Floats  # (m,)
    best_messages: Floats
    best_mu: Floats  # (m,)
    bound: Floats  # (1,) the best D with what rounding can have taken off it
    level: Floats  # (3,) of `multipliers.fall`
    theta: Floats  # (E,) h - mu t; the rest is scratch
    belief: Floats
    marginal: Floats
    sums: Floats  # (m,)


class MessageRow(NamedTuple):
    """The tables and limits of one row."""

    h: Floats  # (E,)
    t: Floats  # (m, E)
    limits: Floats  # (m,)
    units: Floats  # (m,) of the multipliers


@njit(inner=True, nogil=True)
def prices(h, t, mu, theta):
    """theta = h - sum over j of mu_j t_j."""
    copy(h, theta)
    for j in range(len(mu)):
        price, table = mu[j], t[j]
        for e in range(len(theta)):
            theta[e] -= price * table[e]


@njit(inner=True, nogil=True)
def beliefs(graph, theta, messages, belief):
    """b_i = theta_i + the messages to i."""
    offsets, starts, places, cards, unary = (
        graph.offsets, graph.starts, graph.places, graph.cards, graph.unary
    )  # fmt: skip
    belief[:] = 0.0
    for f in range(len(unary)):
        if unary[f] >= 0:
            for a in range(offsets[f + 1] - offsets[f]):
                belief[unary[f] + a] += theta[offsets[f] + a]
    at = 0
    for f in range(len(unary)):
        if unary[f] == MANY:
            for s in range(starts[f], starts[f + 1]):
                for a in range(cards[s]):
                    belief[places[s] + a] += messages[at]
                    at += 1


@njit(inner=True, nogil=True)
def sweep(graph, theta, messages, belief, marginal):
    """Update the messages of every table in turn; `belief` follows."""
    offsets, starts, places = graph.offsets, graph.starts, graph.places
    cards, strides, unary = graph.cards, graph.strides, graph.unary
    base = 0
    for f in range(len(unary)):
        if unary[f] != MANY:
            continue
        first, last = starts[f], starts[f + 1]
        at = base
        for s in range(first, last):  # what i would be without f
            for a in range(cards[s]):
                belief[places[s] + a] -= messages[at]
                marginal[at - base] = -np.inf
                at += 1
        for e in range(offsets[f + 1] - offsets[f]):
            value = theta[offsets[f] + e]
            for s in range(first, last):
                value += belief[places[s] + e // strides[s] % cards[s]]
            at = 0
            for s in range(first, last):
                a = at + e // strides[s] % cards[s]
                marginal[a] = max(marginal[a], value)
                at += cards[s]
        share, at = 1.0 / (last - first), 0
        for s in range(first, last):
            for a in range(cards[s]):
                message = share * marginal[at] - belief[places[s] + a]
                messages[base + at] = message
                belief[places[s] + a] += message
                at += 1
        base += at


@njit(inner=True, nogil=True)
def dual(graph, t, state):
    """D less the sum of mu_j q_j; the t of the local maximisers into `sums`; largest number."""
    offsets, starts, cards = graph.offsets, graph.starts, graph.cards
    strides, unary, variables = graph.strides, graph.unary, graph.variables
    theta, messages, belief, sums = state.theta, state.messages, state.belief, state.sums
    total, largest, base = theta[0], abs(theta[0]), 0
    for j in range(len(sums)):
        sums[j] = t[j, 0]
    for i in range(len(variables) - 1):
        best = variables[i]
        for a in range(variables[i], variables[i + 1]):
            if belief[a] > belief[best]:
                best = a
            largest = max(largest, abs(belief[a]))
        total += belief[best]
    for f in range(len(unary)):
        if unary[f] >= 0:  # its t at the value that its variable takes
            size = offsets[f + 1] - offsets[f]
            best = 0
            for a in range(size):
                if belief[unary[f] + a] > belief[unary[f] + best]:
                    best = a
            for j in range(len(sums)):
                sums[j] += t[j, offsets[f] + best]
        elif unary[f] == MANY:
            best, winner = -np.inf, 0
            for e in range(offsets[f + 1] - offsets[f]):
                value, at = theta[offsets[f] + e], base
                for s in range(starts[f], starts[f + 1]):
                    value -= messages[at + e // strides[s] % cards[s]]
                    at += cards[s]
                if value > best:
                    best, winner = value, e
            for s in range(starts[f], starts[f + 1]):
                for _ in range(cards[s]):
                    largest = max(largest, abs(messages[base]))
                    base += 1
            total += best
            for j in range(len(sums)):
                sums[j] += t[j, offsets[f] + winner]
    return total, largest


@njit(cache=True, nogil=True)
def pass_messages(graph, row, steps, state):
    """`steps` times: all messages, D, a subgradient step of mu. Keeps the best of each."""
    mu, limits, units, sums = state.mu, row.limits, row.units, state.sums
    theta, messages, belief, level = state.theta, state.messages, state.belief, state.level
    for _ in range(steps):
        prices(row.h, row.t, mu, theta)
        beliefs(graph, theta, messages, belief)
        sweep(graph, theta, messages, belief, state.marginal)
        beliefs(graph, theta, messages, belief)
        bound, largest = dual(graph, row.t, state)
        slack = SLACK * (1.0 + len(theta)) * (1.0 + largest)
        norm = 0.0
        for j in range(len(mu)):
            bound += mu[j] * limits[j]
            slack += SLACK * abs(mu[j] * limits[j])
            slope = sums[j] - limits[j]
            if mu[j] > 0.0 or slope > 0.0:
                norm += (units[j] * slope) ** 2
        aim = fall(bound, level, MESSAGE_RULE)
        if bound + slack < state.bound[0]:
            level[BEST], state.bound[0] = min(level[BEST], bound), bound + slack
            copy(mu, state.best_mu)
            copy(messages, state.best_messages)
        if norm > 0.0:
            for j in range(len(mu)):
                move = WIDE.message_step * aim / norm * units[j] ** 2 * (sums[j] - limits[j])
                mu[j] = max(0.0, mu[j] + move)
