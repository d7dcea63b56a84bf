"""The Lagrangian dual of one constraint, exactly, for a block of rows at once.

    D(mu) = max over y of h(y) - mu t(y), plus mu q, is convex and piecewise linear in mu >= 0.

Each y is a line in mu. Keep the best line that violates the constraint (falling in mu) and the
best one that satisfies it (rising); evaluate D where they cross. Either a new line appears and
replaces one of them, or mu is the minimiser: no step length, no tolerance on mu, and every D(mu)
on the way is a valid upper bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.buckets import VARIABLE
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import complete, eliminate_max, totals
from cmpe.core.multipliers import BEST, DUAL_RULE, fall
from cmpe.core.settings import EXACT
from cmpe.core.tables import condition_some

# Kinds of rows: an INACTIVE constraint holds at the maximiser of h alone.
RUNNING, INACTIVE, INFEASIBLE, BOUND = range(4)
SATISFYING, VIOLATING = range(2)  # rows of `DualBlock.ends`
# What rounding can move a sum by, per bucket, as a share of 1 + the largest number added up.
SLACK = 1e-14
CLOSE = 1e-11  # A rise of a smaller share of 1 + |value| is no new line.


class DualBlock(NamedTuple):
    """A block of rows, one lane each: the dual, and the losses at its minimiser (`proof`)."""

    h: Floats  # (E, L)
    t: Floats  # (m, E, L)
    values: Floats  # (total, L) h - mu t with its messages
    carried: Floats  # (m, total, L) each t along the maximiser
    mu: Floats  # (L, m) the minimiser
    upper: Floats  # (L,) the bound
    lower: Floats  # (L,) the best feasible line
    kind: Integers  # (L,) INACTIVE, INFEASIBLE or BOUND
    ends: Floats  # (2, L) mu at which the best satisfying and violating lines are maximisers
    choice: Integers  # (K, L) the best feasible maximiser seen, where there are several constraints
    losses: Floats  # (pairs, L) of each bucket, message entry and value
    reach: Floats  # (messages, L) the least loss that reaches each message entry
    second: Floats  # (components, L) the least loss of an assignment other than the maximiser


@njit(inner=True, nogil=True)
def make_block(plan, constraints, lanes):
    """Room for a block."""
    return DualBlock(
        np.zeros((plan.entries, lanes)),
        np.zeros((constraints, plan.entries, lanes)),
        np.zeros((plan.total, lanes)),
        np.zeros((constraints, plan.total, lanes)),
        np.zeros((lanes, constraints)),
        np.zeros(lanes),
        np.zeros(lanes),
        np.zeros(lanes, dtype=np.int64),
        np.zeros((2, lanes)),
        np.zeros((len(plan.buckets), lanes), dtype=np.int64),
        np.empty((plan.pairs, lanes)),
        np.empty((plan.total - plan.entries, lanes)),
        np.empty((len(plan.component_start) - 1, lanes)),
    )


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
def load_block(rows, start, h, t):
    """Condition the objective and the constraints on a block of rows: h (E, L), t (m, E, L)."""
    numbers = np.empty(rows.lanes, dtype=np.int64)
    for lane in range(rows.lanes):
        numbers[lane] = min(start + lane, rows.evidence.shape[1] - 1)
    load_rows(rows, numbers, h, t)


@njit(inner=True, nogil=True)
def load_rows(rows, numbers, h, t):
    """`load_block` for the rows of these numbers (L,)."""
    evidence = np.zeros((rows.evidence.shape[0], len(numbers)), dtype=np.int64)
    for x in range(len(evidence)):
        for lane in range(len(numbers)):
            evidence[x, lane] = rows.evidence[x, numbers[lane]]
    gather, first = rows.gathers
    condition_some(evidence, gather, first[0], first[1], h)
    for j in range(len(rows.limits)):
        condition_some(evidence, gather, first[j + 1], first[j + 2], t[j])
        if not rows.finite:
            satisfy(t[j], rows.offsets, rows.limits[j])


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


class Line(NamedTuple):
    """The best violating line of every lane, and the t of the best satisfying one."""

    high_h: Floats  # (L,)
    high_t: Floats  # (L,)
    low_t: Floats  # (L,)


@njit(cache=True, nogil=True)
def _bracket(plan, block, limit, line):
    """The extreme lines: the maximiser of h and, where it violates, the least t.

    Returns how many lanes need both.
    """
    h, t, values, carried = block.h, block.t[0], block.values, block.carried[0]
    kind, lower, upper, ends = block.kind, block.lower, block.upper, block.ends
    lanes = h.shape[1]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    _load(h, t, np.zeros(lanes), values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        kind[lane], lower[lane], upper[lane] = RUNNING, -np.inf, total[lane]
        ends[SATISFYING, lane], ends[VIOLATING, lane] = np.inf, 0.0
        line.high_h[lane], line.high_t[lane] = total[lane], carry[lane]
        if total[lane] == -np.inf:
            kind[lane] = INFEASIBLE
        elif carry[lane] <= limit:
            kind[lane], lower[lane], ends[SATISFYING, lane] = INACTIVE, total[lane], 0.0
    running = 0
    _load_least(h, t, values, carried)
    eliminate_max(plan, values, carried, total, carry)
    for lane in range(lanes):
        if kind[lane] != RUNNING:
            continue
        if -total[lane] > limit:
            kind[lane], upper[lane] = INFEASIBLE, -np.inf
        else:
            line.low_t[lane], lower[lane] = -total[lane], carry[lane]
            running += 1
    return running


@njit(inner=True, nogil=True)
def minimise_dual(plan, block, limit):
    """One constraint t <= limit (t finite): mu*, the bound and the kind of every lane of a block.

    In `ends`, inf stands for the multiplier of the least t.
    """
    h, t, values, carried = block.h, block.t[0], block.values, block.carried[0]
    kind, lower, upper, ends = block.kind, block.lower, block.upper, block.ends
    lanes, mu = h.shape[1], block.mu[:, 0]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    line = Line(np.zeros(lanes), np.zeros(lanes), np.zeros(lanes))
    high_h, high_t, low_t = line.high_h, line.high_t, line.low_t
    mu[:] = 0.0
    running = _bracket(plan, block, limit, line)
    for attempt in range(EXACT.bracket_steps):
        for lane in range(lanes):
            if kind[lane] == RUNNING:
                slope = (high_h[lane] - lower[lane]) / (high_t[lane] - low_t[lane])
                mu[lane] = max(0.0, slope)
        _load(h, t, mu, values, carried)
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(lanes):
            if kind[lane] != RUNNING:
                continue
            height = lower[lane] - mu[lane] * low_t[lane]
            is_last = attempt == EXACT.bracket_steps - 1
            if is_last or total[lane] - height <= CLOSE * (1.0 + abs(height)):
                kind[lane] = BOUND
                upper[lane] = total[lane] + mu[lane] * limit
                running -= 1
            elif carry[lane] > limit:
                high_h[lane] = total[lane] + mu[lane] * carry[lane]
                high_t[lane], ends[VIOLATING, lane] = carry[lane], mu[lane]
            else:
                lower[lane] = total[lane] + mu[lane] * carry[lane]
                low_t[lane], ends[SATISFYING, lane] = carry[lane], mu[lane]
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
def _least_each(plan, block, limits, least):
    """The least t_j of every lane; a lane is infeasible if one of them exceeds its limit."""
    lanes = block.h.shape[1]
    carry = np.zeros(lanes)
    for j in range(len(limits)):
        _load_least(block.h, block.t[j], block.values, block.carried[0])
        eliminate_max(plan, block.values, block.carried[0], least[j], carry)
        for lane in range(lanes):
            if -least[j, lane] > limits[j]:
                block.kind[lane] = INFEASIBLE


@njit(cache=True, nogil=True)
def _step(lane, block, limits, total, sums, mu, level):
    """One subgradient step of one lane; whether its maximiser is the best feasible one so far.

    `mu` (L, m) are the multipliers that were tried, `level` (L, 3) is of `multipliers.fall`.
    """
    upper, lower = block.upper, block.lower
    if total[lane] == -np.inf:
        upper[lane] = -np.inf
        return False
    bound, objective, norm, feasible = total[lane], total[lane], 0.0, True
    for j in range(len(limits)):
        slack = sums[j, lane] - limits[j]
        bound += mu[lane, j] * limits[j]
        objective += mu[lane, j] * sums[j, lane]
        feasible = feasible and slack <= 0.0
        if slack > 0.0 or mu[lane, j] > 0.0:
            norm += slack * slack
    length = fall(bound, level[lane], DUAL_RULE) / norm if norm > 0.0 else 0.0
    if bound < upper[lane]:
        upper[lane] = level[lane, BEST] = bound
        for j in range(len(limits)):
            block.mu[lane, j] = mu[lane, j]
    for j in range(len(limits)):
        move = length * (sums[j, lane] - limits[j])
        mu[lane, j] = max(0.0, mu[lane, j] + move)
    improved = feasible and objective > lower[lane]
    if improved:
        lower[lane] = objective
    return improved


@njit(inner=True, nogil=True)
def descend_dual(plan, block, limits):
    """Several constraints: D(mu) of a block by subgradients with Polyak's step.

    Every D(mu) is a bound, whenever it stops. `choice` receives the best feasible maximiser seen,
    if lower > -inf.
    """
    h, t, values, carried = block.h, block.t, block.values, block.carried
    kind, upper = block.kind, block.upper
    lanes, constraints = h.shape[1], len(limits)
    total, carry = np.zeros(lanes), np.zeros(lanes)
    sums = np.zeros((constraints, lanes))
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    mu, level = np.zeros((lanes, constraints)), np.zeros((lanes, 3))
    for lane in range(lanes):
        level[lane, BEST] = np.inf
        kind[lane], upper[lane], block.lower[lane] = BOUND, np.inf, -np.inf
    _least_each(plan, block, limits, sums)
    for _ in range(EXACT.subgradient_steps):
        load_priced(h, t, mu, values)
        eliminate_max(plan, values, carried[0], total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for j in range(constraints):
            totals(plan, t[j], choice, sums[j])
        for lane in range(lanes):
            if _step(lane, block, limits, total, sums, mu, level):
                for k in range(len(choice)):
                    block.choice[k, lane] = choice[k, lane]
    for j in range(constraints):  # messages at the best multipliers, with each t of the maximiser
        load_priced(h, t, block.mu, values)
        for e in range(h.shape[0]):
            for lane in range(lanes):
                carried[j, e, lane] = t[j, e, lane]
        eliminate_max(plan, values, carried[j], total, carry)
    for lane in range(lanes):
        if kind[lane] == INFEASIBLE or upper[lane] == -np.inf:
            kind[lane], upper[lane] = INFEASIBLE, -np.inf


@njit(cache=True, nogil=True)
def _decode_at(plan, block, at, choice):
    """The maximiser of h - at * t in every lane (`at` = inf: of -t) into `choice` (K, L)."""
    h, t, values = block.h, block.t[0], block.values
    lanes = h.shape[1]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    for e in range(h.shape[0]):
        for lane in range(lanes):
            if at[lane] < np.inf:
                values[e, lane] = h[e, lane] - at[lane] * t[e, lane]
            else:
                values[e, lane] = -t[e, lane] if h[e, lane] > -np.inf else -np.inf
    eliminate_max(plan, values, block.carried[0], total, carry)
    choice[:] = -1
    complete(plan, values, choice)


class DualResults(NamedTuple):
    """What the dual finds out about every row; see `lagrangian.Dual`."""

    feasible: Integers  # (B, n)
    violating: Integers  # (B, n)
    bound: Floats  # (B,)
    kind: Integers  # (B,)
    multipliers: Floats  # (B, m)


@njit(cache=True, nogil=True)
def dual_batch(rows, results):
    """The dual of every row."""
    plan, limits, lanes = rows.plan, rows.limits, rows.lanes
    count, constraints, buckets = rows.evidence.shape[1], len(limits), len(plan.buckets)
    block = make_block(plan, max(1, constraints), lanes)
    limit = limits[0] if constraints > 0 else np.inf  # without one, t = 0 <= inf
    low, high = block.choice, np.zeros((buckets, lanes), dtype=np.int64)
    for start in range(0, count, lanes):
        load_block(rows, start, block.h, block.t)
        if constraints <= 1:
            minimise_dual(plan, block, limit)
            _decode_at(plan, block, block.ends[0], low)
            _decode_at(plan, block, block.ends[1], high)
        else:
            descend_dual(plan, block, limits)
            high[:] = -1
            complete(plan, block.values, high)
        for lane in range(min(lanes, count - start)):
            row = start + lane
            results.kind[row] = block.kind[lane]
            results.bound[row] = block.upper[lane] + rounding(block.values, lane, buckets)
            for j in range(constraints):
                results.multipliers[row, j] = block.mu[lane, j]
            for k in range(buckets):
                variable = plan.buckets[k, VARIABLE]
                results.violating[row, variable] = high[k, lane]
                is_feasible = block.lower[lane] > -np.inf
                results.feasible[row, variable] = low[k, lane] if is_feasible else -1
