"""The Lagrangian dual of one constraint, exactly, for a block of rows at once (SPEC §3.4).

    D(mu) = max over y of h(y) - mu t(y), plus mu q, is convex and piecewise linear in mu >= 0.

Each y is a line in mu. Keep the best line that violates the constraint (falling in mu) and the
best one that satisfies it (rising); evaluate D where they cross. Either a new line appears and
replaces one of them, or mu is the minimiser: no step length, no tolerance on mu, and every D(mu)
on the way is a valid upper bound.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cmpe.elimination_kernels import complete, eliminate_max, totals

RUNNING, FREE, INFEASIBLE, BOUND = range(4)
MOST_STEPS = 60
SUBGRADIENT_STEPS = 60
CLOSE = 1e-11  # of 1 + |value|: below this no new line has appeared


@njit(cache=True, nogil=True)
def _load(h, t, mu, values, carried):
    """values = h - mu t, carried = t."""
    for e in range(h.shape[0]):
        for lane in range(h.shape[1]):
            values[e, lane] = h[e, lane] - mu[lane] * t[e, lane]
        for lane in range(h.shape[1]):
            carried[e, lane] = t[e, lane]


@njit(cache=True, nogil=True)
def _load_least(h, t, values, carried):
    """values = -t where h allows it, carried = h."""
    for e in range(h.shape[0]):
        for lane in range(h.shape[1]):
            value = -t[e, lane]
            if h[e, lane] == -np.inf:
                value = -np.inf
            values[e, lane] = value
        for lane in range(h.shape[1]):
            carried[e, lane] = h[e, lane]


@njit(cache=True, nogil=True)
def minimise_dual(plan, h, t, limit, values, carried, mu, upper, lower, kind):
    """Fill mu*, the bound `upper`, the best feasible line `lower` and the kind of every lane.

    `h` and `t` (E, L) are the tables of each lane (t finite), `limit` is q. On return
    `values` holds h - mu* t with its messages.
    """
    lanes = h.shape[1]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    high_h, high_t = np.zeros(lanes), np.zeros(lanes)
    low_t = np.zeros(lanes)
    mu[:] = 0.0
    _load(h, t, mu, values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        kind[lane] = RUNNING
        upper[lane] = total[lane]
        lower[lane] = -np.inf
        high_h[lane], high_t[lane] = total[lane], carry[lane]
        if total[lane] == -np.inf:
            kind[lane] = INFEASIBLE
        elif carry[lane] <= limit:
            kind[lane] = FREE
            lower[lane] = total[lane]
    running = 0
    _load_least(h, t, values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        if kind[lane] == RUNNING:
            if -total[lane] > limit:
                kind[lane] = INFEASIBLE
                upper[lane] = -np.inf
            else:
                low_t[lane], lower[lane] = -total[lane], carry[lane]
                running += 1
    for attempt in range(MOST_STEPS):
        for lane in range(lanes):
            if kind[lane] == RUNNING:
                mu[lane] = (high_h[lane] - lower[lane]) / (high_t[lane] - low_t[lane])
        _load(h, t, mu, values, carried)
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(lanes):
            if kind[lane] != RUNNING:
                continue
            line = lower[lane] - mu[lane] * low_t[lane]
            upper[lane] = min(upper[lane], total[lane] + mu[lane] * limit)
            if total[lane] - line <= CLOSE * (1.0 + abs(line)) or attempt == MOST_STEPS - 1:
                kind[lane] = BOUND
                upper[lane] = total[lane] + mu[lane] * limit
                running -= 1
            elif carry[lane] > limit:
                high_h[lane] = total[lane] + mu[lane] * carry[lane]
                high_t[lane] = carry[lane]
            else:
                lower[lane] = total[lane] + mu[lane] * carry[lane]
                low_t[lane] = carry[lane]
        if running == 0:
            break


@njit(cache=True, nogil=True)
def _load_priced(h, t, mu, values):
    """values = h - sum over j of mu_j t_j."""
    for e in range(h.shape[0]):
        for lane in range(h.shape[1]):
            value = h[e, lane]
            for j in range(t.shape[0]):
                value -= mu[lane, j] * t[j, e, lane]
            values[e, lane] = value


@njit(cache=True, nogil=True)
def _least_each(plan, h, t, limits, values, carried, kind, least):
    """The least t_j of every lane; a lane is infeasible if one of them exceeds its limit."""
    lanes = h.shape[1]
    carry = np.zeros(lanes)
    for j in range(t.shape[0]):
        _load_least(h, t[j], values, carried)
        eliminate_max(plan, values, carried, least[j], carry)
        for lane in range(lanes):
            if -least[j, lane] > limits[j]:
                kind[lane] = INFEASIBLE


@njit(cache=True, nogil=True)
def descend_dual(plan, h, t, limits, values, carried, mu, upper, lower, kind):
    """Several constraints: D(mu) by subgradients with Polyak's step; see `minimise_dual`.

    The step aims at the best feasible value seen, or a share below the best bound; the share
    halves while the bound does not fall. mu (L, m), carried (m, total, L): on return `values`
    and the t of the maximiser at the best mu. Every D(mu) is a bound, whenever it stops.
    """
    lanes, constraints = h.shape[1], t.shape[0]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    sums = np.zeros((constraints, lanes))
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    current, stale = np.zeros((lanes, constraints)), np.zeros(lanes)
    share = np.zeros(lanes)
    for lane in range(lanes):
        kind[lane] = RUNNING
        upper[lane], lower[lane] = np.inf, -np.inf
    _least_each(plan, h, t, limits, values, carried[0], kind, sums)
    for attempt in range(SUBGRADIENT_STEPS):
        _load_priced(h, t, current, values)
        eliminate_max(plan, values, carried[0], total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for j in range(constraints):
            totals(plan, t[j], choice, sums[j])
        for lane in range(lanes):
            bound, objective, norm, feasible = total[lane], total[lane], 0.0, True
            for j in range(constraints):
                slack = sums[j, lane] - limits[j]
                bound += current[lane, j] * limits[j]
                objective += current[lane, j] * sums[j, lane]
                feasible = feasible and slack <= 0.0
                if slack > 0.0 or current[lane, j] > 0.0:
                    norm += slack * slack
            if attempt == 0:
                share[lane] = 0.05 * (1.0 + abs(bound))
            if feasible and objective > lower[lane]:
                lower[lane] = objective
            stale[lane] += 1.0
            if bound < upper[lane] - 1e-9 * (1.0 + abs(bound)):
                stale[lane] = 0.0
            if bound < upper[lane]:
                upper[lane] = bound
                mu[lane] = current[lane]
            if stale[lane] >= 4.0:
                stale[lane] = 0.0
                share[lane] *= 0.5
            if norm > 0.0:
                length = (bound - upper[lane] + share[lane]) / norm
                for j in range(constraints):
                    move = length * (sums[j, lane] - limits[j])
                    current[lane, j] = max(0.0, current[lane, j] + move)
    for j in range(constraints):  # messages at the best multipliers, with each t of the maximiser
        _load_priced(h, t, mu, values)
        carried[j, : h.shape[0]] = t[j]
        eliminate_max(plan, values, carried[j], total, carry)
    for lane in range(lanes):
        if kind[lane] == RUNNING:
            kind[lane] = BOUND
        elif kind[lane] == INFEASIBLE:
            upper[lane] = -np.inf
