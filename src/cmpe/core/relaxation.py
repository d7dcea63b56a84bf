"""Compiled bounds of a relaxation by copies: elimination, decoding and subgradient steps.

    D(l, mu) = max over all copies of h - sum_j mu_j t_j + l, plus sum_j mu_j q_j

is convex in the copies' multipliers l and in mu >= 0, and an upper bound at every (l, mu). One
sweep gives D and a maximiser; where its copies disagree, and q - t, is a subgradient.

One row at a time: its numbers fit the cache. Positions are unsigned, because numba tests signed
ones for being negative, which costs a third of a sweep.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.copies import (
    AXES,
    AXIS_COUNT,
    CARD,
    COPIES,
    FIRST,
    INDEX,
    INPUTS,
    MESSAGE,
    OWN,
    SIZE,
    TABLES,
    VALUES,
)
from cmpe.core.dual import SLACK
from cmpe.core.loops import copy
from cmpe.core.multipliers import AIM, BEST, COPY_RULE, fall
from cmpe.core.settings import WIDE

U = np.uint64


class CopyRow(NamedTuple):
    """The tables of one row, with the tables of its copies, and its constraints."""

    h: Floats  # (numbers,)
    t: Floats  # (m, numbers)
    limits: Floats  # (m,)
    weights: Floats  # (m,) how far a step moves mu, against the copies' multipliers
    enough: Floats  # (1,) a D below it proves that no assignment is feasible


class CopyState(NamedTuple):
    """The multipliers of one row, and where their descent is."""

    shift: Floats  # (copies' entries,)
    mu: Floats  # (m,)
    speed: Floats  # (copies' entries,) velocities
    mu_speed: Floats  # (m,)
    best_shift: Floats
    best_mu: Floats
    level: Floats  # (3,) of `multipliers.fall`
    is_over: Any  # (1,) whether more steps cannot help
    values: Floats  # (total,) the rest is scratch
    winners: Any  # (messages,) the value that attains each message entry
    choice: Any  # (K,)
    gradient: Floats  # (copies' entries,)
    taken: Integers  # (C,)
    counts: Floats  # (most values of a copy,)


@njit(cache=True, nogil=True)
def _binary(index, at, count, size, message, winner, values, winners):
    """The message of a bucket of a binary variable with 2 to 4 inputs."""
    if count == 2:
        for _ in range(size):
            x = values[index[at]] + values[index[at + U(1)]]
            y = values[index[at + U(2)]] + values[index[at + U(3)]]
            values[message] = y if y > x else x
            winners[winner] = y > x
            at += U(4)
            message += U(1)
            winner += U(1)
    elif count == 3:
        for _ in range(size):
            x = values[index[at]] + values[index[at + U(1)]] + values[index[at + U(2)]]
            y = values[index[at + U(3)]] + values[index[at + U(4)]] + values[index[at + U(5)]]
            values[message] = y if y > x else x
            winners[winner] = y > x
            at += U(6)
            message += U(1)
            winner += U(1)
    else:
        for _ in range(size):
            x = values[index[at]] + values[index[at + U(1)]]
            x += values[index[at + U(2)]] + values[index[at + U(3)]]
            y = values[index[at + U(4)]] + values[index[at + U(5)]]
            y += values[index[at + U(6)]] + values[index[at + U(7)]]
            values[message] = y if y > x else x
            winners[winner] = y > x
            at += U(8)
            message += U(1)
            winner += U(1)


@njit(cache=True, nogil=True)
def _any(index, bucket, message, winner, values, winners):
    """The message of any bucket."""
    card, count, at = bucket[CARD], bucket[INPUTS], U(bucket[INDEX])
    for _ in range(bucket[SIZE]):
        best, who = -np.inf, 0
        for a in range(card):
            value = 0.0
            for _ in range(count):
                value += values[index[at]]
                at += U(1)
            if value > best:
                best, who = value, a
        values[message] = best
        winners[winner] = who
        message += U(1)
        winner += U(1)


@njit(cache=True, nogil=True)
def sweep(buckets, index, numbers, values, winners):
    """Fill the messages of `values` (total,) and the winner of each entry; return the maximum."""
    total = values[0]
    for k in range(len(buckets)):
        card, count, size = buckets[k, CARD], buckets[k, INPUTS], buckets[k, SIZE]
        at, message = U(buckets[k, INDEX]), U(buckets[k, MESSAGE])
        winner = U(buckets[k, MESSAGE] - numbers)
        if card == 2 and 2 <= count <= 4:
            _binary(index, at, count, size, message, winner, values, winners)
        else:
            _any(index, buckets[k], message, winner, values, winners)
        if buckets[k, AXIS_COUNT] == 0 and card > 1:
            total += values[message]
    return total


@njit(cache=True, nogil=True)
def _decode(relaxed, winners, t, choice, sums):
    """A maximiser into `choice` (K,), and its t into `sums` (m,)."""
    buckets, index, axes, steps = relaxed.buckets, relaxed.places, relaxed.axes, relaxed.steps
    for j in range(len(sums)):
        sums[j] = t[j, 0]
    for k in range(len(buckets) - 1, -1, -1):
        p = 0
        for axis in range(buckets[k, AXES], buckets[k, AXES] + buckets[k, AXIS_COUNT]):
            p += steps[axis] * choice[axes[axis]]
        winner = winners[U(buckets[k, MESSAGE] - relaxed.numbers + p)]
        choice[k] = winner
        at = U(buckets[k, INDEX] + (p * buckets[k, CARD] + winner) * buckets[k, INPUTS])
        for _ in range(buckets[k, TABLES]):
            for j in range(len(sums)):
                sums[j] += t[j, index[at]]
            at += U(1)


@njit(cache=True, nogil=True)
def share_out(relaxed, even, table):
    """Divide a variable's own table among its copies, evenly or all to the first one.

    `table` (numbers,) holds the entries of the original tables.
    """
    groups, copy_entry = relaxed.groups, relaxed.copy_entry
    for g in range(len(groups)):
        copies, table_start = groups[g, COPIES], groups[g, OWN]
        for c in range(groups[g, FIRST], groups[g, FIRST] + copies):
            for a in range(groups[g, VALUES]):
                value = 0.0
                if table_start >= 0 and even:
                    value = table[table_start + a] / copies
                elif table_start >= 0 and c == groups[g, FIRST]:
                    value = table[table_start + a]
                table[copy_entry[c] + a] = value


@njit(cache=True, nogil=True)
def _load(h, t, mu, shift, values):
    """values = h - sum over j of mu_j t_j, plus the copies' multipliers at the end."""
    for e in range(len(h)):
        values[e] = h[e]
    for j in range(len(mu)):
        price, table = mu[j], t[j]
        for e in range(len(h)):
            values[e] -= price * table[e]
    first = len(h) - len(shift)
    for e in range(len(shift)):
        values[first + e] += shift[e]


@njit(cache=True, nogil=True)
def _disagreement(relaxed, choice, taken, counts, gradient):
    """1[copy takes a] less the share of its group that does; returns the squared length."""
    groups, copy_entry = relaxed.groups, relaxed.copy_entry
    axes, buckets, steps = relaxed.copy_axes, relaxed.copy_buckets, relaxed.copy_steps
    norm = 0.0
    for g in range(len(groups)):
        first, copies, card = groups[g, FIRST], groups[g, COPIES], groups[g, VALUES]
        for a in range(card):
            counts[a] = 0.0
        for c in range(first, first + copies):
            value = 0
            for axis in range(axes[c], axes[c + 1]):
                value += steps[axis] * choice[buckets[axis]]
            taken[c] = value
            counts[value] += 1.0
        for a in range(card):
            counts[a] /= copies  # exactly 1 where all agree
            norm += copies * counts[a] * (1.0 - counts[a])
        for c in range(first, first + copies):
            row = copy_entry[c] - relaxed.entries
            for a in range(card):
                gradient[row + a] = -counts[a]
            gradient[row + taken[c]] += 1.0
    return norm


@njit(cache=True, nogil=True)
def descend(relaxed, row, steps, free, state):
    """`steps` subgradient steps with momentum; everything carries on from call to call.

    With `free` false the copies' multipliers stay: only mu moves.
    """
    h, t, limits, weights = row.h, row.t, row.limits, row.weights
    shift, mu, level, values = state.shift, state.mu, state.level, state.values
    constraints = len(mu)
    sums, slope = np.zeros(constraints), np.zeros(constraints)
    for _ in range(steps):
        _load(h, t, mu, shift, values)
        bound = sweep(relaxed.buckets, relaxed.places, relaxed.numbers, values, state.winners)
        if bound == -np.inf:
            level[BEST] = -np.inf
            return
        _decode(relaxed, state.winners, t, state.choice, sums)
        norm = 0.0
        if free:
            norm = _disagreement(relaxed, state.choice, state.taken, state.counts, state.gradient)
        for j in range(constraints):
            bound += mu[j] * limits[j]
            slope[j] = limits[j] - sums[j]
            if mu[j] == 0.0 and slope[j] > 0.0:
                slope[j] = 0.0
            norm += weights[j] * slope[j] * slope[j]
        aim = fall(bound, level, COPY_RULE)
        if level[AIM] < WIDE.least_aim * (1.0 + abs(bound)):
            state.is_over[0] = True
        if bound < level[BEST]:
            level[BEST] = bound
            copy(mu, state.best_mu)
            copy(shift, state.best_shift)
        if bound < row.enough[0]:
            state.is_over[0] = True
            return
        if norm == 0.0:  # all copies agree and the constraints are met: no D is lower
            state.is_over[0] = free
            return
        _move(row, state, aim / norm, slope, free)


@njit(cache=True, nogil=True)
def _move(row, state, length, slope, free):
    """Move the multipliers by a step of this length, with momentum."""
    mu, mu_speed, shift, speed = state.mu, state.mu_speed, state.shift, state.speed
    for j in range(len(mu)):
        move = (1.0 - WIDE.momentum) * row.weights[j] * length * slope[j]
        mu_speed[j] = WIDE.momentum * mu_speed[j] + move
        mu[j] = max(0.0, mu[j] - mu_speed[j])
    if free:
        length *= 1.0 - WIDE.momentum
        for r in range(len(shift)):
            speed[r] = WIDE.momentum * speed[r] + length * state.gradient[r]
            shift[r] -= speed[r]


@njit(cache=True, nogil=True)
def _drift(relaxed, shift):
    """By how much the copies' multipliers, after rounding, may fall short of cancelling."""
    groups, copy_entry = relaxed.groups, relaxed.copy_entry
    drift = 0.0
    for g in range(len(groups)):
        worst = 0.0
        for a in range(groups[g, VALUES]):
            left = 0.0
            for c in range(groups[g, FIRST], groups[g, FIRST] + groups[g, COPIES]):
                left += shift[copy_entry[c] - relaxed.entries + a]
            worst = max(worst, -left)
        drift += worst
    return drift


@njit(cache=True, nogil=True)
def rounding(relaxed, values):
    """What rounding can have taken off the sums of a sweep."""
    largest = 0.0
    for e in range(len(values)):
        size = abs(values[e])
        if largest < size < np.inf:
            largest = size
    return SLACK * (1.0 + len(relaxed.buckets)) * (1.0 + largest)


@njit(cache=True, nogil=True)
def certify(relaxed, row, state):
    """D at the best multipliers, with what rounding can have taken off it."""
    mu, shift, values = state.best_mu, state.best_shift, state.values
    _load(row.h, row.t, mu, shift, values)
    bound = sweep(relaxed.buckets, relaxed.places, relaxed.numbers, values, state.winners)
    slack = rounding(relaxed, values)
    for j in range(len(mu)):
        price = mu[j] * row.limits[j]
        bound += price
        slack += SLACK * abs(price)
    return bound + slack + _drift(relaxed, shift)


@njit(cache=True, nogil=True)
def impossible(relaxed, row, state):
    """Whether some t_j exceeds its limit everywhere, even where copies may disagree."""
    h, t, values = row.h, row.t, state.values
    for j in range(len(row.limits)):
        for e in range(len(h)):
            values[e] = -t[j, e] if h[e] > -np.inf else -np.inf
        most = sweep(relaxed.buckets, relaxed.places, relaxed.numbers, values, state.winners)
        if most + rounding(relaxed, values) < -row.limits[j]:
            return True
    return False
