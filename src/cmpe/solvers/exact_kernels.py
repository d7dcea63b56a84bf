"""The compiled heart of `exact`: losses, frontiers, and the search for a proved optimum.

At the dual's minimiser mu*, with W = max of h - mu* t and UB = W + mu* q, every y satisfies

    UB - h(y) = loss(y) + mu* (q - t(y)),     loss(y) = W - (h - mu* t)(y) >= 0,

and loss(y) is a sum of one non-negative term per bucket: what the bucket's message loses by
not taking its maximiser. So a feasible y within G of the bound has loss(y) <= G: few partial
assignments do. Dynamic programming over the bucket tree collects them as states (loss, t),
keeps those that are not dominated (no other has t as low and h as high), and joins the
components. If the best gap found is at most G, it is proved optimal.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cmpe.bounds.dual_kernels import BOUND, FREE, INFEASIBLE, minimise_dual
from cmpe.elimination_kernels import (
    AXIS_COUNT,
    CARD,
    CHILD,
    COMPONENT,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    PAIRS,
    SIZE,
    STEP,
    VARIABLE,
    add_up,
    begin,
    complete,
    eliminate_max,
    step,
)
from cmpe.models.kernels import condition
from cmpe.solvers.frontier_kernels import OVERFLOW, search

SLACK = 1e-11  # of 1 + |UB| and per bucket: what rounding can move a loss by
MOST_ROUNDS = 40


@njit(cache=True, nogil=True)
def find_losses(plan, values, loss, reach, second):  # type: ignore[no-untyped-def]
    """Each (bucket, entry, value) pair's loss; the least loss that reaches each message entry;
    per component the least loss of any assignment that leaves the maximiser's path.

    loss (pairs, L), reach (messages, L), second (components, L).
    """
    buckets, inputs, strides, axis_cards = plan.buckets, plan.inputs, plan.strides, plan.axis_cards
    lanes = values.shape[1]
    first_message = plan.entries
    digits = np.zeros(plan.widest, dtype=np.int64)
    offsets = np.zeros(plan.most_inputs, dtype=np.int64)
    rows = np.zeros(plan.most_inputs, dtype=np.int64)
    value, through, taken = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
    reach[:] = np.inf
    second[:] = np.inf
    for k in range(len(buckets) - 1, -1, -1):
        first, count = buckets[k, INPUTS], buckets[k, INPUT_COUNT]
        component = buckets[k, COMPONENT]
        begin(buckets, inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            target = buckets[k, MESSAGE] + entry
            here = target - first_message
            if buckets[k, AXIS_COUNT] == 0:
                for lane in range(lanes):
                    reach[here, lane] = 0.0
            for lane in range(lanes):
                taken[lane] = 0.0
            for a in range(buckets[k, CARD]):
                for i in range(count):
                    rows[i] = offsets[i] + a * inputs[first + i, STEP]
                add_up(values, rows, count, value)
                pair = buckets[k, PAIRS] + entry * buckets[k, CARD] + a
                for lane in range(lanes):
                    lost = values[target, lane] - value[lane]
                    lost = lost if lost >= 0.0 else np.inf  # -inf - -inf: forbidden either way
                    value[lane] = lost
                for lane in range(lanes):
                    loss[pair, lane] = value[lane]
                for lane in range(lanes):
                    through[lane] = reach[here, lane] + value[lane]
                for i in range(count):
                    if inputs[first + i, CHILD] >= 0:
                        child = rows[i] - first_message
                        for lane in range(lanes):
                            reach[child, lane] = min(reach[child, lane], through[lane])
                for lane in range(lanes):  # the first value of loss 0 is the maximiser
                    is_best = value[lane] == 0.0 and taken[lane] == 0.0
                    away = np.inf if is_best else through[lane]
                    taken[lane] = 1.0 if is_best else taken[lane]
                    second[component, lane] = min(second[component, lane], away)
            step(buckets, inputs, strides, axis_cards, k, digits, offsets)


@njit(cache=True, nogil=True)
def _read_states(buckets, left, right, found, stack, choice, lane):  # type: ignore[no-untyped-def]
    """What the states in `found` decide, into column `lane` of `choice`; -1 elsewhere."""
    for k in range(len(buckets)):
        choice[k, lane] = -1
    for start in found:
        depth = 0
        if start >= 0:
            stack[0] = start
            depth = 1
        while depth > 0:
            depth -= 1
            here = stack[depth]
            if right[here] < 0:
                k, pair = -1 - right[here], -1 - left[here]
                choice[k, lane] = (pair - buckets[k, PAIRS]) % buckets[k, CARD]
            else:
                stack[depth], stack[depth + 1] = left[here], right[here]
                depth += 2


@njit(cache=True, nogil=True)
def _prove(plan, lane, tables, carried, loss, reach, second, limit, dual, guess, work, out):  # type: ignore[no-untyped-def]
    """Search with a growing G until the best gap is within it: (gap, G covered, states).

    `dual` is (mu, upper, lower); gap = inf: nothing found. After an overflow G shrinks.
    """
    mu, upper, lower = dual
    found, stack, choice = out
    slack = SLACK * (1.0 + abs(upper)) * (1.0 + len(plan.buckets))
    cap = upper - lower + slack
    most = min(cap, guess) if guess > 0.0 else cap / 8.0
    covered, best, ceiling, states = 0.0, np.inf, np.inf, 0
    for _ in range(MOST_ROUNDS):
        best_loss, best_t = search(
            plan, lane, tables, carried, loss, reach, second, limit, mu, most + slack, work, found
        )
        states = max(states, work[5][0])
        if best_loss == OVERFLOW:
            ceiling = most
            most = covered + (most - covered) / 4.0
        else:
            gap = max(0.0, best_loss + mu * (limit - best_t))
            if gap < best:
                best = gap
                _read_states(plan.buckets, work[3], work[4], found, stack, choice, lane)
            covered = max(covered, most)
            if best <= most + slack or most >= cap:
                break
            most = min(best, min(3.0 * most, cap))
            if most >= ceiling:
                most = covered + (ceiling - covered) / 2.0
        if most - covered <= 1e-3 * ceiling and ceiling < np.inf:
            break
    return best, covered, states


@njit(cache=True, nogil=True)
def _satisfy(t, offsets, limit):  # type: ignore[no-untyped-def]
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


@njit(cache=True, nogil=True)
def _workspace(states, messages, plan):  # type: ignore[no-untyped-def]
    components = len(plan.component_start) - 1
    return (
        np.zeros(states),  # loss of each state
        np.zeros(states),  # its t
        np.zeros(states, dtype=np.int64),  # its node
        np.zeros(2 * states, dtype=np.int64),  # each node's two parts, or
        np.zeros(2 * states, dtype=np.int64),  # its pair and bucket
        np.zeros(2, dtype=np.int64),  # how many states and nodes
        np.zeros(messages, dtype=np.int64),  # the list of each message entry: first
        np.zeros(messages, dtype=np.int64),  # and end
        np.zeros(plan.widest, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
        np.zeros(components + 2, dtype=np.int64),  # the list of each component: first
        np.zeros(components + 2, dtype=np.int64),  # and end
        np.zeros((2, components + 2)),
    )


@njit(cache=True, nogil=True)
def solve_free(plan, offsets, gathers, evidence, limit, lanes, finite, results):  # type: ignore[no-untyped-def]
    """Answer every row whose unconstrained optimum satisfies the constraint; list the others.

    One elimination at mu = 0 decides. Returns the numbers of the rows that are left.
    """
    assignments, upper_out, gap_out, kind_out, _, _ = results
    count = evidence.shape[1]
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    h, t = values[: plan.entries], carried[: plan.entries]
    total, carry = np.zeros(lanes), np.zeros(lanes)
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    block = np.zeros((evidence.shape[0], lanes), dtype=np.int64)
    rows = np.zeros(lanes, dtype=np.int64)
    waiting = np.zeros(count, dtype=np.int64)
    left = 0
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = min(start + lane, count - 1)
        _take(evidence, rows, block)
        condition(block, gathers[0], h)
        condition(block, gathers[1], t)
        if not finite:
            _satisfy(t, offsets, limit)
        eliminate_max(plan, values, carried, total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for lane in range(min(lanes, count - start)):
            row = start + lane
            upper_out[row], gap_out[row] = total[lane], np.inf
            if total[lane] == -np.inf:
                kind_out[row] = INFEASIBLE
            elif carry[lane] <= limit:
                kind_out[row], gap_out[row] = FREE, 0.0
                for k in range(len(plan.buckets)):
                    assignments[row, plan.buckets[k, VARIABLE]] = choice[k, lane]
            else:
                waiting[left] = row
                left += 1
    return waiting[:left]


@njit(cache=True, nogil=True)
def solve_constrained(
    plan, offsets, gathers, evidence, limit, lanes, finite, states, waiting, results
):  # type: ignore[no-untyped-def]
    """Prove the rows in `waiting`: dual, losses, frontiers."""
    assignments, upper_out, gap_out, kind_out, mu_out, states_out = results
    count, messages = len(waiting), plan.total - plan.entries
    h, t = np.zeros((plan.entries, lanes)), np.zeros((plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    loss, reach = np.zeros((plan.pairs, lanes)), np.zeros((messages, lanes))
    second = np.zeros((len(plan.component_start) - 1, lanes))
    mu, upper, lower = np.zeros(lanes), np.zeros(lanes), np.zeros(lanes)
    kind, rows = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
    limits = np.full(lanes, limit)
    block = np.zeros((evidence.shape[0], lanes), dtype=np.int64)
    work = _workspace(states, messages, plan)
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    found, stack = np.zeros(2, dtype=np.int64), np.zeros(2 * len(plan.buckets) + 2, dtype=np.int64)
    typical = 0.0
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = waiting[min(start + lane, count - 1)]
        _take(evidence, rows, block)
        condition(block, gathers[0], h)
        condition(block, gathers[1], t)
        if not finite:
            _satisfy(t, offsets, limit)
        minimise_dual(plan, h, t, limits, values, carried, mu, upper, lower, kind)
        find_losses(plan, values, loss, reach, second)
        choice[:] = -1
        for lane in range(min(lanes, count - start)):
            row = rows[lane]
            gap, covered, seen = np.inf, 0.0, 0
            if kind[lane] == BOUND:
                gap, covered, seen = _prove(
                    plan, lane, t, carried, loss, reach, second, limit,
                    (mu[lane], upper[lane], lower[lane]), 1.2 * typical, work, (found, stack, choice),
                )  # fmt: skip
                if gap < np.inf:
                    typical = gap if typical == 0.0 else 0.9 * typical + 0.1 * gap
            upper_out[row] = upper[lane] - min(gap, covered)
            gap_out[row], kind_out[row] = gap, kind[lane]
            mu_out[row], states_out[row] = mu[lane], seen
        complete(plan, values, choice)
        for lane in range(min(lanes, count - start)):
            for k in range(len(plan.buckets)):
                assignments[rows[lane], plan.buckets[k, VARIABLE]] = choice[k, lane]


@njit(cache=True, nogil=True)
def _take(evidence, rows, block):  # type: ignore[no-untyped-def]
    """Copy the columns `rows` of `evidence` into `block`."""
    for x in range(evidence.shape[0]):
        for lane in range(len(rows)):
            block[x, lane] = evidence[x, rows[lane]]
