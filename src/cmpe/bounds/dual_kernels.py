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

from cmpe.elimination_kernels import eliminate_max

RUNNING, FREE, INFEASIBLE, BOUND = range(4)
MOST_STEPS = 60
CLOSE = 1e-11  # of 1 + |value|: below this no new line has appeared


@njit(cache=True, nogil=True)
def _load(h, t, mu, values, carried):  # type: ignore[no-untyped-def]
    """values = h - mu t, carried = t."""
    for e in range(h.shape[0]):
        for lane in range(h.shape[1]):
            values[e, lane] = h[e, lane] - mu[lane] * t[e, lane]
        for lane in range(h.shape[1]):
            carried[e, lane] = t[e, lane]


@njit(cache=True, nogil=True)
def _load_least(h, t, values, carried):  # type: ignore[no-untyped-def]
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
def minimise_dual(plan, h, t, limit, values, carried, mu, upper, lower, kind):  # type: ignore[no-untyped-def]
    """Fill mu*, the bound `upper`, the best feasible line `lower` and the kind of every lane.

    `h` and `t` (E, L) are the tables of each lane (t finite), `limit` (L,) its q. On return
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
        elif carry[lane] <= limit[lane]:
            kind[lane] = FREE
            lower[lane] = total[lane]
    running = 0
    _load_least(h, t, values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        if kind[lane] == RUNNING:
            if -total[lane] > limit[lane]:
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
            upper[lane] = min(upper[lane], total[lane] + mu[lane] * limit[lane])
            if total[lane] - line <= CLOSE * (1.0 + abs(line)) or attempt == MOST_STEPS - 1:
                kind[lane] = BOUND
                upper[lane] = total[lane] + mu[lane] * limit[lane]
                running -= 1
            elif carry[lane] > limit[lane]:
                high_h[lane] = total[lane] + mu[lane] * carry[lane]
                high_t[lane] = carry[lane]
            else:
                lower[lane] = total[lane] + mu[lane] * carry[lane]
                low_t[lane] = carry[lane]
        if running == 0:
            break
