"""The Lagrangian dual of one constraint, exactly, for a block of rows at once.

    D(mu) = max over y of h(y) - mu t(y), plus mu q, is convex and piecewise linear in mu >= 0.

Each y is a line in mu. Keep the best line that violates the constraint (falling in mu) and the
best one that satisfies it (rising); evaluate D where they cross. Either a new line appears and
replaces one of them, or mu is the minimiser: no step length, no tolerance on mu, and every D(mu)
on the way is a valid upper bound.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.buckets import VARIABLE
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import complete, eliminate_max, totals
from cmpe.core.tables import condition_some

# What is known of a row: an INACTIVE constraint holds at the maximiser of h alone.
RUNNING, INACTIVE, INFEASIBLE, BOUND = range(4)
# What rounding can move a sum by, per bucket, as a share of 1 + the largest number added up.
SLACK = 1e-14
MOST_STEPS = 60
SUBGRADIENT_STEPS = 60
CLOSE = 1e-11  # A rise of a smaller share of 1 + |value| is no new line.


@njit(inner=True, nogil=True)
def rounding(values, lane, buckets):
    """What rounding can move a row's sums by: a bound on the error of adding up its numbers."""
    largest = 0.0
    for e in range(len(values)):
        size = abs(values[e, lane])
        if largest < size < np.inf:
            largest = size
    return SLACK * (1.0 + buckets) * (1.0 + largest)


@njit(cache=True, nogil=True)
def satisfy(t, offsets, limit):
    """Replace -inf in t (E, L) by a number that satisfies t <= limit whatever else is chosen."""
    for lane in range(t.shape[1]):
        zeros = False
        highest = 0.0
        for f in range(len(offsets) - 1):
            largest = -np.inf
            for e in range(offsets[f], offsets[f + 1]):
                value = t[e, lane]
                if value == -np.inf:
                    zeros = True
                    value = 0.0
                largest = max(largest, value)
            highest += largest
        if zeros:
            enough = min(0.0, limit - highest) - 1.0
            for e in range(t.shape[0]):
                if t[e, lane] == -np.inf:
                    t[e, lane] = enough


@njit(inner=True, nogil=True)
def load_block(plan, offsets, gathers, evidence, rows, limits, finite, h, t):
    """Condition the objective and the constraints on the evidence `rows`: h (E, L), t (m, E, L)."""
    block = np.zeros((evidence.shape[0], len(rows)), dtype=np.int64)
    for x in range(evidence.shape[0]):
        for lane in range(len(rows)):
            block[x, lane] = evidence[x, rows[lane]]
    gather, first = gathers
    condition_some(block, gather, first[0], first[1], h)
    for j in range(len(limits)):
        condition_some(block, gather, first[j + 1], first[j + 2], t[j])
        if not finite:
            satisfy(t[j], offsets, limits[j])


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
def _bracket(plan, h, t, limit, values, carried, lower, upper, kind, ends, high, low_t):
    """The extreme lines: the maximiser of h and, where it violates, the least t.

    `high` (2, L) receives h and t of the violating line. Returns how many lanes need both.
    """
    lanes = h.shape[1]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    _load(h, t, np.zeros(lanes), values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        kind[lane], lower[lane], upper[lane] = RUNNING, -np.inf, total[lane]
        ends[0, lane], ends[1, lane] = np.inf, 0.0
        high[0, lane], high[1, lane] = total[lane], carry[lane]
        if total[lane] == -np.inf:
            kind[lane] = INFEASIBLE
        elif carry[lane] <= limit:
            kind[lane], lower[lane], ends[0, lane] = INACTIVE, total[lane], 0.0
    running = 0
    _load_least(h, t, values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        if kind[lane] != RUNNING:
            continue
        if -total[lane] > limit:
            kind[lane], upper[lane] = INFEASIBLE, -np.inf
        else:
            low_t[lane], lower[lane] = -total[lane], carry[lane]
            running += 1
    return running


@njit(inner=True, nogil=True)
def minimise_dual(plan, h, t, limit, values, carried, mu, upper, lower, kind, ends):
    """Fill mu*, the bound `upper`, the best feasible line `lower` and the kind of every lane.

    `h` and `t` (E, L) are the tables of each lane (t finite), `limit` is q. On return
    `values` holds h - mu* t with its messages, and `ends` (2, L) the multipliers at which the
    best satisfying and the best violating line are maximisers (inf: the least t).
    """
    lanes = h.shape[1]
    total, carry, low_t = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
    high = np.zeros((2, lanes))
    mu[:] = 0.0
    running = _bracket(plan, h, t, limit, values, carried, lower, upper, kind, ends, high, low_t)
    for attempt in range(MOST_STEPS):
        for lane in range(lanes):
            if kind[lane] == RUNNING:
                slope = (high[0, lane] - lower[lane]) / (high[1, lane] - low_t[lane])
                mu[lane] = max(0.0, slope)
        _load(h, t, mu, values, carried)
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(lanes):
            if kind[lane] != RUNNING:
                continue
            line = lower[lane] - mu[lane] * low_t[lane]
            if total[lane] - line <= CLOSE * (1.0 + abs(line)) or attempt == MOST_STEPS - 1:
                kind[lane] = BOUND
                upper[lane] = total[lane] + mu[lane] * limit
                running -= 1
            elif carry[lane] > limit:
                high[0, lane] = total[lane] + mu[lane] * carry[lane]
                high[1, lane], ends[1, lane] = carry[lane], mu[lane]
            else:
                lower[lane] = total[lane] + mu[lane] * carry[lane]
                low_t[lane], ends[0, lane] = carry[lane], mu[lane]
        if running == 0:
            break


@njit(inner=True, nogil=True)
def load_priced(h, t, mu, values):
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
def _step(lane, total, sums, limits, current, mu, upper, lower, share, stale):
    """One subgradient step of one lane; whether its maximiser is the best feasible one so far.

    The step aims `share` below the best bound; `share` halves when the bound has not fallen for
    four steps.
    """
    if total[lane] == -np.inf:
        upper[lane] = -np.inf
        return False
    bound, objective, norm, feasible = total[lane], total[lane], 0.0, True
    for j in range(len(limits)):
        slack = sums[j, lane] - limits[j]
        bound += current[lane, j] * limits[j]
        objective += current[lane, j] * sums[j, lane]
        feasible = feasible and slack <= 0.0
        if slack > 0.0 or current[lane, j] > 0.0:
            norm += slack * slack
    if upper[lane] == np.inf:
        share[lane] = 0.05 * (1.0 + abs(bound))
    stale[lane] = 0.0 if bound < upper[lane] - 1e-9 * (1.0 + abs(bound)) else stale[lane] + 1.0
    if bound < upper[lane]:
        upper[lane] = bound
        for j in range(len(limits)):
            mu[lane, j] = current[lane, j]
    if stale[lane] >= 4.0:
        stale[lane] = 0.0
        share[lane] *= 0.5
    if norm > 0.0:
        length = (bound - upper[lane] + share[lane]) / norm
        for j in range(len(limits)):
            move = length * (sums[j, lane] - limits[j])
            current[lane, j] = max(0.0, current[lane, j] + move)
    improved = feasible and objective > lower[lane]
    if improved:
        lower[lane] = objective
    return improved


@njit(inner=True, nogil=True)
def descend_dual(plan, h, t, limits, values, carried, mu, upper, lower, kind, best):
    """Several constraints: D(mu) by subgradients with Polyak's step; see `minimise_dual`.

    mu (L, m), carried (m, total, L): on return `values` and the t of the maximiser at the best
    mu. Every D(mu) is a bound, whenever it stops. `best` (K, L) receives the best feasible
    maximiser seen, if lower > -inf.
    """
    lanes, constraints = h.shape[1], t.shape[0]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    sums = np.zeros((constraints, lanes))
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    current = np.zeros((lanes, constraints))
    share, stale = np.zeros(lanes), np.zeros(lanes)
    for lane in range(lanes):
        kind[lane], upper[lane], lower[lane] = BOUND, np.inf, -np.inf
    _least_each(plan, h, t, limits, values, carried[0], kind, sums)
    for _ in range(SUBGRADIENT_STEPS):
        load_priced(h, t, current, values)
        eliminate_max(plan, values, carried[0], total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for j in range(constraints):
            totals(plan, t[j], choice, sums[j])
        for lane in range(lanes):
            if _step(lane, total, sums, limits, current, mu, upper, lower, share, stale):
                for k in range(len(best)):
                    best[k, lane] = choice[k, lane]
    for j in range(constraints):  # messages at the best multipliers, with each t of the maximiser
        load_priced(h, t, mu, values)
        for e in range(h.shape[0]):
            for lane in range(lanes):
                carried[j, e, lane] = t[j, e, lane]
        eliminate_max(plan, values, carried[j], total, carry)
    for lane in range(lanes):
        if kind[lane] == INFEASIBLE or upper[lane] == -np.inf:
            kind[lane], upper[lane] = INFEASIBLE, -np.inf


@njit(cache=True, nogil=True)
def _decode_at(plan, h, t, at, values, carried, choice):
    """The maximiser of h - at * t in every lane (`at` = inf: of -t) into `choice` (K, L)."""
    lanes = h.shape[1]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    for e in range(h.shape[0]):
        for lane in range(lanes):
            if at[lane] < np.inf:
                values[e, lane] = h[e, lane] - at[lane] * t[e, lane]
            else:
                values[e, lane] = -t[e, lane] if h[e, lane] > -np.inf else -np.inf
    eliminate_max(plan, values, carried, total, carry)
    choice[:] = -1
    complete(plan, values, choice)


@njit(cache=True, nogil=True)
def dual_batch(plan, offsets, gathers, evidence, limits, lanes, finite, results):
    """The dual of every column of `evidence` (|X|, B); see `lagrangian.Dual` for the results."""
    feasible, violating, upper_out, kind_out, mu_out = results
    count, constraints, buckets = evidence.shape[1], len(limits), len(plan.buckets)
    room = max(1, constraints)  # no constraint is one that always holds: t = 0 <= inf
    h, t = np.zeros((plan.entries, lanes)), np.zeros((room, plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((room, plan.total, lanes))
    mu, ends = np.zeros((lanes, room)), np.zeros((2, lanes))
    limit = limits[0] if constraints > 0 else np.inf
    upper, lower = np.zeros(lanes), np.zeros(lanes)
    kind, rows = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
    low = np.zeros((buckets, lanes), dtype=np.int64)
    high = np.zeros((buckets, lanes), dtype=np.int64)
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = min(start + lane, count - 1)
        load_block(plan, offsets, gathers, evidence, rows, limits, finite, h, t)
        if constraints <= 1:
            one = mu[:, 0]
            minimise_dual(plan, h, t[0], limit, values, carried[0], one, upper, lower, kind, ends)
            _decode_at(plan, h, t[0], ends[0], values, carried[0], low)
            _decode_at(plan, h, t[0], ends[1], values, carried[0], high)
        else:
            descend_dual(plan, h, t, limits, values, carried, mu, upper, lower, kind, low)
            high[:] = -1
            complete(plan, values, high)
        for lane in range(min(lanes, count - start)):
            row = start + lane
            upper_out[row], kind_out[row] = upper[lane], kind[lane]
            for j in range(constraints):
                mu_out[row, j] = mu[lane, j]
            upper_out[row] += rounding(values, lane, buckets)
            for k in range(buckets):
                variable = plan.buckets[k, VARIABLE]
                violating[row, variable] = high[k, lane]
                feasible[row, variable] = low[k, lane] if lower[lane] > -np.inf else -1
