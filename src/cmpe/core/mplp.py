"""Compiled message passing with a valid dual: MPLP, with the constraints' multipliers.

Every table f of two or more variables sends messages d_fi(z_i) to its variables i. With
b_i = theta_i + sum over f of d_fi, and theta = h - sum_j mu_j t_j,

    D = sum_i max b_i + sum_f max (theta_f - sum_i d_fi) + sum_j mu_j q_j

is an upper bound for any messages and mu >= 0, since the messages cancel (Globerson and Jaakkola
2007). Updating all messages of one table, so that each variable gets an equal part of the
max-marginal, never raises D.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.dual import SLACK
from cmpe.core.loops import copy

STEP = 0.7  # mu makes this share of Polyak's step.


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
    offsets, starts, places, cards, _, unary = graph
    belief[:] = 0.0
    for f in range(len(unary)):
        if unary[f] >= 0:
            for a in range(offsets[f + 1] - offsets[f]):
                belief[unary[f] + a] += theta[offsets[f] + a]
    at = 0
    for f in range(len(unary)):
        if unary[f] == -1:
            for s in range(starts[f], starts[f + 1]):
                for a in range(cards[s]):
                    belief[places[s] + a] += messages[at]
                    at += 1


@njit(inner=True, nogil=True)
def sweep(graph, theta, messages, belief, marginal):
    """Update the messages of every table in turn; `belief` follows."""
    offsets, starts, places, cards, strides, unary = graph
    base = 0
    for f in range(len(unary)):
        if unary[f] != -1:
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
def dual(graph, theta, t, messages, belief, variables, sums):
    """D less the sum of mu_j q_j; the t of the local maximisers into `sums`; largest number."""
    offsets, starts, _, cards, strides, unary = graph
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
        elif unary[f] == -1:
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
def pass_messages(graph, h, t, limits, units, steps, level, state, scratch):
    """`steps` times: all messages, D, a subgradient step of mu. Keeps the best of each.

    `level`: best D, best D less rounding, share, steps without success.
    """
    messages, mu, best_messages, best_mu = state
    theta, belief, marginal, variables = scratch
    sums = np.zeros(len(mu))
    for _ in range(steps):
        prices(h, t, mu, theta)
        beliefs(graph, theta, messages, belief)
        sweep(graph, theta, messages, belief, marginal)
        beliefs(graph, theta, messages, belief)
        bound, largest = dual(graph, theta, t, messages, belief, variables, sums)
        slack = SLACK * (1.0 + len(theta)) * (1.0 + largest)
        norm = 0.0
        for j in range(len(mu)):
            bound += mu[j] * limits[j]
            slack += SLACK * abs(mu[j] * limits[j])
            slope = sums[j] - limits[j]
            if mu[j] > 0.0 or slope > 0.0:
                norm += (units[j] * slope) ** 2
        if level[0] == np.inf:
            level[2] = 0.01 * (1.0 + abs(bound))
        level[3] = 0.0 if bound < level[0] - 0.1 * level[2] else level[3] + 1.0
        if level[3] >= 5.0:
            level[2], level[3] = 0.6 * level[2], 0.0
        fall = bound - min(bound, level[0]) + level[2]
        if bound + slack < level[1]:
            level[0], level[1] = min(level[0], bound), bound + slack
            copy(mu, best_mu)
            copy(messages, best_messages)
        if norm > 0.0:
            for j in range(len(mu)):
                move = STEP * fall / norm * units[j] ** 2 * (sums[j] - limits[j])
                mu[j] = max(0.0, mu[j] + move)
