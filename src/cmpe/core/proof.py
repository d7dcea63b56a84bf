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

from cmpe.core.buckets import (
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
)
from cmpe.core.compiler.functions import njit
from cmpe.core.dual import (
    BOUND,
    INACTIVE,
    INFEASIBLE,
    descend_dual,
    load_block,
    minimise_dual,
    rounding,
)
from cmpe.core.elimination import add_up, begin, complete, eliminate_max, step, totals
from cmpe.core.frontiers import OVERFLOW, search
from cmpe.core.states import MOST_PRODUCTS, read


@njit(inner=True, nogil=True)
def find_losses(plan, values, loss, reach, second):
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


@njit(inner=True, nogil=True)
def largest_gap(buckets, loss, tables, limits, mu, lane):
    """No allowed assignment of the row has a gap above this (crude)."""
    total = 0.0
    for k in range(len(buckets)):
        largest = 0.0
        for pair in range(
            buckets[k, PAIRS], buckets[k, PAIRS] + buckets[k, SIZE] * buckets[k, CARD]
        ):
            if loss[pair, lane] < np.inf:
                largest = max(largest, loss[pair, lane])
        total += largest
    for j in range(len(limits)):
        size = abs(limits[j])
        for e in range(tables.shape[1]):
            size += abs(tables[j, e, lane])
        total += mu[j] * size
    return total


@njit(cache=True, nogil=True)
def _prove(
    plan, lane, tables, carried, loss, reach, second, limits, dual, guess, rounds, work, out
):
    """Search with a growing G until the best gap is within it: (gap, G covered, states).

    `dual` is (mu, upper, lower, slack); gap = inf: nothing found. After an overflow G shrinks.
    G covered = inf: every allowed assignment was looked at.
    """
    mu, upper, lower, slack = dual
    found, stack, choice = out
    cap = upper - lower + slack
    if lower == -np.inf:  # no feasible assignment is known: there may be none
        cap = largest_gap(plan.buckets, loss, tables, limits, mu, lane) + slack
    most = min(cap, guess) if guess > 0.0 else min(cap / 4.0, 0.02 * (1.0 + abs(upper)))
    covered, best, ceiling, states = 0.0, np.inf, np.inf, 0
    for _ in range(rounds):
        gap = search(
            plan, lane, tables, carried, loss, reach, second, limits, mu, most + slack, work, found
        )
        states = max(states, work[3][0])
        if gap == OVERFLOW:
            ceiling = most
            most = covered + (most - covered) / 4.0
        else:
            if gap < best:
                best = max(0.0, gap)
                for k in range(len(choice)):
                    choice[k, lane] = -1
                for root in found:
                    read(work[2], root, stack, choice, lane)
            covered = max(covered, most)
            if best <= most + slack:
                break
            if most >= cap:
                covered = np.inf if lower == -np.inf else covered
                break
            most = min(best, min(3.0 * most, cap))
            if most >= ceiling:
                most = covered + (ceiling - covered) / 2.0
        if ceiling < np.inf and most - covered <= 1e-3 * ceiling:
            break
    return best, covered, states


@njit(inner=True, nogil=True)
def state_space(states, constraints, plan, rank, products):
    """Where the states of one row are kept, for the `rank` best answers."""
    messages, components = plan.total - plan.entries, len(plan.component_start) - 1
    sizes = np.zeros(5, dtype=np.int64)
    sizes[3], sizes[4] = 1 << 62, products
    return (
        np.empty((states, 2 + constraints)),  # loss, cost and t of each state
        np.empty(states, dtype=np.int64),  # its node
        np.empty((2 * states, 2), dtype=np.int32),  # nodes: two parts, or a value and a bucket
        sizes,  # how many states, nodes, sums looked at; sums allowed, and of one combination
        np.zeros(messages, dtype=np.int64),  # the list of each message entry: first
        np.zeros(messages, dtype=np.int64),  # and end
        np.zeros(plan.widest, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
        np.zeros(components + 2, dtype=np.int64),  # the list of each component: first
        np.zeros(components + 2, dtype=np.int64),  # and end
        np.zeros((2, components + 2)),
        np.zeros(constraints),
        np.empty(rank),  # a heap
    )


@njit(inner=True, nogil=True)
def block_room(plan, constraints, lanes):
    """What `bound_block` fills in for a block of rows."""
    return (
        np.zeros((plan.entries, lanes)),  # h
        np.zeros((constraints, plan.entries, lanes)),  # t
        np.zeros((plan.total, lanes)),  # h - mu t, with messages
        np.zeros((constraints, plan.total, lanes)),  # t along the maximiser
        np.zeros((plan.pairs, lanes)),  # losses
        np.zeros((plan.total - plan.entries, lanes)),  # the least loss that reaches an entry
        np.zeros((len(plan.component_start) - 1, lanes)),  # the least of another assignment
        np.zeros((lanes, constraints)),  # mu
        np.zeros(lanes),  # the bound
        np.zeros(lanes),  # the best feasible line
        np.zeros(lanes, dtype=np.int64),  # the kind of row
        np.zeros((2, lanes)),
        np.zeros((len(plan.buckets), lanes), dtype=np.int64),  # an assignment
    )


@njit(inner=True, nogil=True)
def bound_block(plan, offsets, gathers, evidence, rows, limits, asked, finite, room):
    """The dual and the losses of a block of rows.

    `asked` are the limits, or one where there are none: t is 0 then.
    """
    h, t, values, carried, loss, reach, second, mu, upper, lower, kind, ends, choice = room
    load_block(plan, offsets, gathers, evidence, rows, limits, finite, h, t)
    if len(asked) == 1:
        one = mu[:, 0]
        minimise_dual(plan, h, t[0], asked[0], values, carried[0], one, upper, lower, kind, ends)
    else:
        descend_dual(plan, h, t, asked, values, carried, mu, upper, lower, kind, choice)
    find_losses(plan, values, loss, reach, second)


@njit(cache=True, nogil=True)
def _holds(sums, lane, limits):
    for j in range(len(limits)):
        if sums[j, lane] > limits[j]:
            return False
    return True


@njit(cache=True, nogil=True)
def _solve_free(plan, offsets, gathers, evidence, limits, lanes, finite, results):
    """Answer every row whose unconstrained optimum satisfies every constraint; list the others.

    One elimination decides. Returns the numbers of the rows that are left.
    """
    assignments, upper_out, gap_out, kind_out, _, _ = results
    count, constraints = evidence.shape[1], len(limits)
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    t = np.zeros((constraints, plan.entries, lanes))
    total, carry, sums = np.zeros(lanes), np.zeros(lanes), np.zeros((constraints, lanes))
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    rows = np.zeros(lanes, dtype=np.int64)
    waiting = np.zeros(count, dtype=np.int64)
    left = 0
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = min(start + lane, count - 1)
        h = values[: plan.entries]
        load_block(plan, offsets, gathers, evidence, rows, limits, finite, h, t)
        eliminate_max(plan, values, carried, total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for j in range(constraints):
            totals(plan, t[j], choice, sums[j])
        for lane in range(min(lanes, count - start)):
            row = start + lane
            upper_out[row], gap_out[row] = total[lane], np.inf
            if total[lane] == -np.inf:
                kind_out[row] = INFEASIBLE
            elif _holds(sums, lane, limits):
                kind_out[row], gap_out[row] = INACTIVE, 0.0
                upper_out[row] += rounding(values, lane, len(plan.buckets))
                for k in range(len(plan.buckets)):
                    assignments[row, plan.buckets[k, VARIABLE]] = choice[k, lane]
            else:
                waiting[left] = row
                left += 1
    return waiting[:left]


@njit(cache=True, nogil=True)
def _solve_constrained(
    plan, offsets, gathers, evidence, limits, lanes, finite, budget, waiting, results
):
    """Prove the rows in `waiting`: dual, losses, frontiers. `budget` is (states, rounds) a row."""
    states, rounds = budget
    assignments, upper_out, gap_out, kind_out, mu_out, states_out = results
    count, constraints = len(waiting), len(limits)
    room = block_room(plan, constraints, lanes)
    _, t, values, carried, loss, reach, second, mu, upper, lower, kind, _, choice = room
    rows = np.zeros(lanes, dtype=np.int64)
    work = state_space(states, constraints, plan, 1, MOST_PRODUCTS)
    found, stack = np.zeros(2, dtype=np.int64), np.zeros(2 * len(plan.buckets) + 2, dtype=np.int64)
    typical = 0.0
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = waiting[min(start + lane, count - 1)]
        bound_block(plan, offsets, gathers, evidence, rows, limits, limits, finite, room)
        choice[:] = -1
        for lane in range(min(lanes, count - start)):
            row = rows[lane]
            gap, covered, seen = np.inf, 0.0, 0
            slack = rounding(values, lane, len(plan.buckets))
            if kind[lane] == BOUND:
                dual = (mu[lane], upper[lane], lower[lane], slack)
                gap, covered, seen = _prove(
                    plan, lane, t, carried, loss, reach, second, limits, dual, 1.2 * typical,
                    rounds, work, (found, stack, choice),
                )  # fmt: skip
                if gap == np.inf and covered == np.inf:
                    kind[lane] = INFEASIBLE
                if gap < np.inf:
                    typical = gap if typical == 0.0 else 0.9 * typical + 0.1 * gap
            upper_out[row] = upper[lane] - min(gap, covered) + slack
            gap_out[row], kind_out[row] = gap, kind[lane]
            states_out[row] = seen
            for j in range(constraints):
                mu_out[row, j] = mu[lane, j]
        complete(plan, values, choice)
        for lane in range(min(lanes, count - start)):
            for k in range(len(plan.buckets)):
                assignments[rows[lane], plan.buckets[k, VARIABLE]] = choice[k, lane]


@njit(cache=True, nogil=True)
def solve_rows(plan, offsets, gathers, evidence, limits, lanes, finite, budget, results):
    """Prove every row; `budget` is (states, rounds) a row. One function, so one to compile."""
    waiting = _solve_free(plan, offsets, gathers, evidence, limits, lanes, finite, results)
    if len(waiting) > 0:
        _solve_constrained(
            plan, offsets, gathers, evidence, limits, lanes, finite, budget, waiting, results
        )
