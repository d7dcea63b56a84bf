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

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Assignments, Floats, Integers
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
    load_rows,
    make_block,
    minimise_dual,
    rounding,
)
from cmpe.core.elimination import add_up, begin, complete, eliminate_max, step, totals
from cmpe.core.frontiers import OVERFLOW, make_space, search
from cmpe.core.settings import EXACT
from cmpe.core.states import STATE_COUNT, make_walk, read


@njit(inner=True, nogil=True)
def find_losses(plan, values, losses, reach, second):
    """Each (bucket, entry, value) pair's loss; the least loss that reaches each message entry;
    per component the least loss of any assignment that leaves the maximiser's path.

    losses (pairs, L), reach (messages, L), second (components, L).
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
                    losses[pair, lane] = value[lane]
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
def bound_block(rows, numbers, limits, block):
    """The dual and the losses of the rows of these numbers.

    `limits` are those of `rows`, or one where there are none: t is 0 then.
    """
    load_rows(rows, numbers, block.h, block.t)
    if len(limits) == 1:
        minimise_dual(rows.plan, block, limits[0])
    else:
        descend_dual(rows.plan, block, limits)
    find_losses(rows.plan, block.values, block.losses, block.reach, block.second)


@njit(inner=True, nogil=True)
def largest_gap(plan, block, limits, lane):
    """No allowed assignment of the row has a gap above this (crude)."""
    buckets, total = plan.buckets, 0.0
    for k in range(len(buckets)):
        largest, first = 0.0, buckets[k, PAIRS]
        for pair in range(first, first + buckets[k, SIZE] * buckets[k, CARD]):
            if block.losses[pair, lane] < np.inf:
                largest = max(largest, block.losses[pair, lane])
        total += largest
    for j in range(len(limits)):
        size = abs(limits[j])
        for e in range(plan.entries):
            size += abs(block.t[j, e, lane])
        total += block.mu[lane, j] * size
    return total


class RowProof(NamedTuple):
    """What the search of one row has shown."""

    gap: float  # of the best feasible assignment, inf if there is none so far
    covered: float  # every assignment within this gap was covered; inf: every allowed one
    states: int  # most states of a round


@njit(cache=True, nogil=True)
def _prove(rows, lane, block, slack, guess, rounds, space):
    """Search with a growing G until the best gap is within it. After an overflow G shrinks."""
    plan, limits, choice = rows.plan, rows.limits, block.choice
    upper, lower = block.upper[lane], block.lower[lane]
    cap = upper - lower + slack
    if lower == -np.inf:  # there may be no feasible assignment
        cap = largest_gap(plan, block, limits, lane) + slack
    most = min(cap, guess) if guess > 0.0 else min(cap / 4.0, 0.02 * (1.0 + abs(upper)))
    covered, best, ceiling, states = 0.0, np.inf, np.inf, 0
    for _ in range(rounds):
        gap = search(plan, lane, block, limits, most + slack, space)
        states = max(states, space.states.counts[STATE_COUNT])
        if gap == OVERFLOW:
            ceiling = most
            most = covered + (most - covered) / 4.0
        else:
            if gap < best:
                best = max(0.0, gap)
                for k in range(len(choice)):
                    choice[k, lane] = -1
                for root in space.roots:
                    read(space.states.nodes, root, space.stack, choice, lane)
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
    return RowProof(best, covered, states)


class ProofResults(NamedTuple):
    """What is proved of every row."""

    assignments: Assignments  # (B, n)
    bound: Floats  # (B,)
    gap: Floats  # (B,) inf where no feasible assignment was seen
    kind: Integers  # (B,) see `dual`
    multipliers: Floats  # (B, m)
    states: Integers  # (B,) most states of a round


@njit(cache=True, nogil=True)
def _holds(sums, lane, limits):
    for j in range(len(limits)):
        if sums[j, lane] > limits[j]:
            return False
    return True


@njit(cache=True, nogil=True)
def _solve_free(rows, results):
    """Answer every row whose unconstrained optimum satisfies every constraint; list the others.

    One elimination decides. Returns the numbers of the rows that are left.
    """
    plan, limits, lanes = rows.plan, rows.limits, rows.lanes
    count, constraints = rows.evidence.shape[1], len(limits)
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    t = np.zeros((constraints, plan.entries, lanes))
    total, carry, sums = np.zeros(lanes), np.zeros(lanes), np.zeros((constraints, lanes))
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    waiting = np.zeros(count, dtype=np.int64)
    left = 0
    for start in range(0, count, lanes):
        load_block(rows, start, values[: plan.entries], t)
        eliminate_max(plan, values, carried, total, carry)
        choice[:] = -1
        complete(plan, values, choice)
        for j in range(constraints):
            totals(plan, t[j], choice, sums[j])
        for lane in range(min(lanes, count - start)):
            row = start + lane
            results.bound[row], results.gap[row] = total[lane], np.inf
            if total[lane] == -np.inf:
                results.kind[row] = INFEASIBLE
            elif _holds(sums, lane, limits):
                results.kind[row], results.gap[row] = INACTIVE, 0.0
                results.bound[row] += rounding(values, lane, len(plan.buckets))
                for k in range(len(plan.buckets)):
                    results.assignments[row, plan.buckets[k, VARIABLE]] = choice[k, lane]
            else:
                waiting[left] = row
                left += 1
    return waiting[:left]


@njit(cache=True, nogil=True)
def _solve_constrained(rows, waiting, states, rounds, results):
    """Prove the rows in `waiting`: dual, losses, frontiers; `states` and `rounds` limit a row."""
    plan, limits, lanes = rows.plan, rows.limits, rows.lanes
    count, constraints, buckets = len(waiting), len(limits), len(plan.buckets)
    block = make_block(plan, constraints, lanes)
    space = make_space(plan, make_walk(plan), constraints, states, 1, EXACT.products)
    numbers = np.zeros(lanes, dtype=np.int64)
    typical = 0.0
    for start in range(0, count, lanes):
        for lane in range(lanes):
            numbers[lane] = waiting[min(start + lane, count - 1)]
        bound_block(rows, numbers, limits, block)
        block.choice[:] = -1
        for lane in range(min(lanes, count - start)):
            row, kind = numbers[lane], block.kind[lane]
            proof = RowProof(np.inf, 0.0, 0)
            slack = rounding(block.values, lane, buckets)
            if kind == BOUND:
                proof = _prove(rows, lane, block, slack, 1.2 * typical, rounds, space)
                if proof.gap == np.inf and proof.covered == np.inf:
                    kind = INFEASIBLE
                if proof.gap < np.inf:
                    typical = proof.gap if typical == 0.0 else 0.9 * typical + 0.1 * proof.gap
            results.bound[row] = block.upper[lane] - min(proof.gap, proof.covered) + slack
            results.gap[row], results.kind[row] = proof.gap, kind
            results.states[row] = proof.states
            for j in range(constraints):
                results.multipliers[row, j] = block.mu[lane, j]
        complete(plan, block.values, block.choice)
        for k in range(buckets):
            for lane in range(min(lanes, count - start)):
                variable = plan.buckets[k, VARIABLE]
                results.assignments[numbers[lane], variable] = block.choice[k, lane]


@njit(cache=True, nogil=True)
def prove_rows(rows, states, rounds, results):
    """Prove every row within so many states and rounds. One function, so one to compile."""
    waiting = _solve_free(rows, results)
    if len(waiting) > 0:
        _solve_constrained(rows, waiting, states, rounds, results)
