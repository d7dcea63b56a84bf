"""References: multipliers at which a row's functions are eliminated, to bound every state.

A reference is a weight w (1, or 0 for the least t alone) and prices (mu, lambda_2, ..). With
W = max over y of w h - mu t_1 - sum lambda_j t_j, every y has

    loss(y) = W - (w h - mu t_1 - sum lambda_j t_j)(y) >= 0,

a sum of one non-negative term per bucket. For one constraint the references are the edges of the
hull of all (t, h), found by dichotomy: a new extreme point, or a proof that the edge is one.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.dual import CLOSE
from cmpe.core.elimination import complete, eliminate_max, totals
from cmpe.core.fronts.lists import H, T
from cmpe.core.fronts.settings import FRONTS
from cmpe.core.multipliers import BEST, REFERENCE_RULE, fall

LANES = 32  # edges that are refined together


@njit(inner=True, nogil=True, counted=False)
def load_weighted(h, t, weight, price, values):
    """values (entries, K) = weight h - price . t; -inf where h is."""
    count = len(weight)
    for e in range(len(h)):
        if h[e] == -np.inf:
            for k in range(count):
                values[e, k] = -np.inf
            continue
        for k in range(count):
            values[e, k] = weight[k] * h[e]
        for j in range(t.shape[0]):
            value = t[j, e]
            for k in range(count):
                values[e, k] -= price[k, j] * value


@njit(cache=True, nogil=True, counted=False)
def _carry(table, carried, lanes):
    for e in range(len(table)):
        value = table[e] if table[e] > -np.inf else 0.0
        for k in range(lanes):
            carried[e, k] = value


@njit(cache=True, nogil=True)
def _ends(plan, h, t, values, carried, hull):
    """The greatest h and the least t, as hull points 0 and 1; 0 if h allows nothing."""
    weight, price = np.zeros(LANES), np.zeros((LANES, 1))
    weight[0], price[1, 0] = 1.0, 1.0
    total, carry = np.zeros(LANES), np.zeros(LANES)
    load_weighted(h, t, weight, price, values)
    _carry(t[0], carried, LANES)
    for e in range(len(h)):
        carried[e, 1] = h[e] if h[e] > -np.inf else 0.0
    eliminate_max(plan, values, carried, total, carry)
    if total[0] == -np.inf:
        return 0
    hull[0, H], hull[0, T] = total[0], carry[0]
    hull[1, H], hull[1, T] = carry[1], -total[1]
    return 2 if hull[0, T] > hull[1, T] and hull[0, H] > hull[1, H] else 1


@njit(cache=True, nogil=True)
def _largest_open(hull, count, is_open, window, chosen):
    """Up to LANES open edges within the window, those of the largest fall of h: how many."""
    size = 0
    for _ in range(LANES):
        best, largest = -1, 0.0
        for edge in range(count - 1):
            inside = hull[edge, T] > window.low and hull[edge + 1, T] < window.high
            fall = hull[edge, H] - hull[edge + 1, H]
            if is_open[edge] and inside and fall > largest:
                taken = False
                for c in range(size):
                    taken = taken or chosen[c] == edge
                if not taken:
                    best, largest = edge, fall
        if best < 0:
            break
        chosen[size] = best
        size += 1
    chosen[:size].sort()
    return size


@njit(inner=True, nogil=True)
def find_hull(plan, h, t, window, most, values, carried):
    """Extreme points (h, t_1) by falling h, at most `most` of them; none if h allows nothing.

    values, carried (total, LANES) are scratch. Only edges that meet the window of t are refined.
    """
    hull = np.zeros((most + LANES + 2, 2))
    count = _ends(plan, h, t, values, carried, hull)
    is_open = np.ones(most + LANES + 2, dtype=np.bool_)
    chosen = np.zeros(LANES, dtype=np.int64)
    weight, price = np.ones(LANES), np.zeros((LANES, 1))
    total, carry = np.zeros(LANES), np.zeros(LANES)
    while 2 <= count < most:
        size = _largest_open(hull, count, is_open, window, chosen)
        if size == 0:
            break
        for c in range(LANES):
            edge = chosen[min(c, size - 1)]
            fall = hull[edge, H] - hull[edge + 1, H]
            price[c, 0] = fall / (hull[edge, T] - hull[edge + 1, T])
        load_weighted(h, t, weight, price, values)
        _carry(t[0], carried, LANES)
        eliminate_max(plan, values, carried, total, carry)
        for c in range(size - 1, -1, -1):  # from the right, so that numbers stay
            edge, mu = chosen[c], price[c, 0]
            line = hull[edge, H] - mu * hull[edge, T]
            new_h, new_t = total[c] + mu * carry[c], carry[c]
            between = hull[edge + 1, T] < new_t < hull[edge, T]
            if total[c] - line <= CLOSE * (1.0 + abs(line)) or not between:
                is_open[edge] = False
                continue
            for i in range(count, edge + 1, -1):
                hull[i, H], hull[i, T], is_open[i] = hull[i - 1, H], hull[i - 1, T], is_open[i - 1]
            hull[edge + 1, H], hull[edge + 1, T] = new_h, new_t
            is_open[edge], is_open[edge + 1] = True, True
            count += 1
    return hull[:count]


@njit(inner=True, nogil=True)
def slopes_of(hull, window, constraints):
    """References: mu = 0, every edge within the window, and the least t: (weight, price)."""
    count = max(0, len(hull) - 1)
    weight, price = np.ones(count + 2), np.zeros((count + 2, constraints))
    size = 1
    for edge in range(count):
        run = hull[edge, T] - hull[edge + 1, T]
        if run > 0.0 and hull[edge, T] > window.low and hull[edge + 1, T] < window.high:
            price[size, 0] = max(0.0, (hull[edge, H] - hull[edge + 1, H]) / run)
            size += 1
    weight[size], price[size, 0] = 0.0, 1.0
    return weight[: size + 1].copy(), price[: size + 1].copy()


@njit(inner=True, nogil=True)
def descend(row, weight, price, values, carried):
    """Lower W + price . limits of every reference by its multipliers of the other constraints.

    Subgradient steps; `price` (K, m) keeps the best.
    """
    plan, h, t, limits = row.plan, row.h, row.t, row.limits
    lanes, constraints = len(weight), t.shape[0]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    sums = np.zeros((constraints, lanes))
    spread = np.zeros((len(h), lanes))
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    current = price.copy()
    level = np.zeros((lanes, 3))
    level[:, BEST] = np.inf
    for _ in range(FRONTS.descent_steps):
        load_weighted(h, t, weight, current, values)
        eliminate_max(plan, values, carried, total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for j in range(1, constraints):
            for e in range(len(h)):
                for lane in range(lanes):
                    spread[e, lane] = t[j, e]
            totals(plan, spread, choice, sums[j])
        for lane in range(lanes):
            bound, norm = total[lane], 0.0
            for j in range(1, constraints):
                slack = sums[j, lane] - limits[j]
                bound += current[lane, j] * limits[j]
                if slack > 0.0 or current[lane, j] > 0.0:
                    norm += slack * slack
            aim = fall(bound, level[lane], REFERENCE_RULE)
            if bound < level[lane, BEST]:
                level[lane, BEST] = bound
                price[lane] = current[lane]
            if norm > 0.0:
                length = aim / norm
                for j in range(1, constraints):
                    move = length * (sums[j, lane] - limits[j])
                    current[lane, j] = max(0.0, current[lane, j] + move)
