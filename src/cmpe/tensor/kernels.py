"""Compiled inference: up and down passes over a plan, a block of rows (lanes) at a time.

With s(e, a) the sum of a bucket's inputs at entry e of its message and value a of its variable,

    max-sum      message(e) = max over a of s(e, a)
    log-sum-exp  message(e) = log sum over a of exp s(e, a)

and the answer is the constant plus the messages of the roots. Max-marginals go down again with

    gain(e, a) = s(e, a) - message(e) <= 0,

which is what leaving the maximiser costs in this bucket alone, so that no sum over "all other
inputs" is needed and -inf is never subtracted from itself.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cmpe.elimination.kernels import (
    AXIS_COUNT,
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    SIZE,
    STEP,
    VARIABLE,
    add_up,
    begin,
    complete,
    step,
)
from cmpe.models.kernels import condition


@njit(cache=True, nogil=True)
def _load(gather, evidence, start, sign, values):
    """Condition on the rows from `start` on; lanes past the end repeat the last row."""
    lanes, last = values.shape[1], evidence.shape[1] - 1
    block = np.zeros((evidence.shape[0], lanes), dtype=np.int64)
    for x in range(evidence.shape[0]):
        for lane in range(lanes):
            block[x, lane] = evidence[x, min(start + lane, last)]
    condition(block, gather, values)
    if sign < 0.0:
        for e in range(values.shape[0]):
            for lane in range(lanes):
                values[e, lane] = -values[e, lane]


@njit(cache=True, nogil=True)
def _sum_inputs(plan, values, k, offsets, rows, sums):
    """s(e, a) of bucket k for every a, where `offsets` says where e is: sums (card, L)."""
    first, count = plan.buckets[k, INPUTS], plan.buckets[k, INPUT_COUNT]
    for a in range(plan.buckets[k, CARD]):
        for i in range(count):
            rows[i] = offsets[i] + a * plan.inputs[first + i, STEP]
        add_up(values, rows, count, sums[a])


@njit(cache=True, nogil=True)
def _largest(sums, card, out):
    for lane in range(len(out)):
        out[lane] = sums[0, lane]
    for a in range(1, card):
        for lane in range(len(out)):
            value, best = sums[a, lane], out[lane]
            out[lane] = value if value > best else best


@njit(cache=True, nogil=True)
def _log_sum(sums, card, out):
    """log sum exp of the rows of `sums`, whose largest are in `out`; -inf where all are."""
    for lane in range(len(out)):
        highest = out[lane]
        if highest > -np.inf:
            total = 0.0
            for a in range(card):
                total += np.exp(sums[a, lane] - highest)
            out[lane] = highest + np.log(total)


@njit(cache=True, nogil=True)
def _scratch(plan, lanes):
    """(digits, offsets, rows, sums) for a walk over the plan."""
    card = 1
    for k in range(len(plan.buckets)):
        card = max(card, plan.buckets[k, CARD])
    return (
        np.zeros(plan.widest, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
        np.zeros((card, lanes)),
    )


@njit(cache=True, nogil=True)
def eliminate(plan, values, summing, total):
    """Fill the messages of `values` (total, L) by max-sum, or log-sum-exp if `summing`."""
    buckets, inputs, strides, axis_cards = plan.buckets, plan.inputs, plan.strides, plan.axis_cards
    lanes = values.shape[1]
    digits, offsets, rows, sums = _scratch(plan, lanes)
    for lane in range(lanes):
        total[lane] = values[0, lane]
    for k in range(len(buckets)):
        begin(buckets, inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            _sum_inputs(plan, values, k, offsets, rows, sums)
            message = values[buckets[k, MESSAGE] + entry]
            _largest(sums, buckets[k, CARD], message)
            if summing:
                _log_sum(sums, buckets[k, CARD], message)
            if buckets[k, AXIS_COUNT] == 0:
                for lane in range(lanes):
                    total[lane] += message[lane]
            step(buckets, inputs, strides, axis_cards, k, digits, offsets)


@njit(cache=True, nogil=True)
def descend(plan, values, columns, reach, best):
    """The greatest sum of gains that each (variable, value) can be part of: `best` (S, L).

    `values` (total, L) holds max-sum messages; value a of bucket k is row columns[k] + a. What
    reaches a message entry is the best of its parent's pairs that agree with it: `reach`.
    """
    buckets, inputs, strides, axis_cards = plan.buckets, plan.inputs, plan.strides, plan.axis_cards
    lanes = values.shape[1]
    digits, offsets, rows, sums = _scratch(plan, lanes)
    reach[:] = -np.inf
    best[:] = -np.inf
    for k in range(len(buckets) - 1, -1, -1):
        first, message = buckets[k, INPUTS], buckets[k, MESSAGE]
        if buckets[k, AXIS_COUNT] == 0:
            reach[message - plan.entries] = 0.0
        begin(buckets, inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            _sum_inputs(plan, values, k, offsets, rows, sums)
            here = message + entry - plan.entries
            for a in range(buckets[k, CARD]):
                through, target = sums[a], best[columns[k] + a]
                for lane in range(lanes):
                    value = through[lane]
                    if value > -np.inf:
                        value = reach[here, lane] + (value - values[message + entry, lane])
                    through[lane] = value
                    target[lane] = max(target[lane], value)
                for i in range(buckets[k, INPUT_COUNT]):
                    if inputs[first + i, CHILD] >= 0:
                        child = reach[offsets[i] + a * inputs[first + i, STEP] - plan.entries]
                        for lane in range(lanes):
                            child[lane] = max(child[lane], through[lane])
            step(buckets, inputs, strides, axis_cards, k, digits, offsets)


@njit(cache=True, nogil=True)
def extreme(plan, gather, evidence, lanes, sign, totals, assignments):
    """Max-sum of `sign` times the function, decoded, for every column of `evidence` (|X|, B)."""
    count = evidence.shape[1]
    values, total = np.zeros((plan.total, lanes)), np.zeros(lanes)
    choice = np.zeros((len(plan.buckets), lanes), dtype=np.int64)
    for start in range(0, count, lanes):
        _load(gather, evidence, start, sign, values[: plan.entries])
        eliminate(plan, values, False, total)
        choice[:] = -1
        complete(plan, values, choice)
        for lane in range(min(lanes, count - start)):
            totals[start + lane] = sign * total[lane]
            for k in range(len(plan.buckets)):
                assignments[start + lane, plan.buckets[k, VARIABLE]] = choice[k, lane]


@njit(cache=True, nogil=True)
def log_partition(plan, gather, evidence, lanes, out):
    """log sum over completions of exp, for every column of `evidence` (|X|, B)."""
    count = evidence.shape[1]
    values, total = np.zeros((plan.total, lanes)), np.zeros(lanes)
    for start in range(0, count, lanes):
        _load(gather, evidence, start, 1.0, values[: plan.entries])
        eliminate(plan, values, True, total)
        for lane in range(min(lanes, count - start)):
            out[start + lane] = total[lane]


@njit(cache=True, nogil=True)
def max_marginals(plan, gather, evidence, lanes, columns, out):
    """Up, then down: out (B, S) is the maximum given each value of each free variable."""
    count = evidence.shape[1]
    values, total = np.zeros((plan.total, lanes)), np.zeros(lanes)
    reach = np.zeros((plan.total - plan.entries, lanes))
    best = np.zeros((out.shape[1], lanes))
    for start in range(0, count, lanes):
        _load(gather, evidence, start, 1.0, values[: plan.entries])
        eliminate(plan, values, False, total)
        descend(plan, values, columns, reach, best)
        for lane in range(min(lanes, count - start)):
            for s in range(out.shape[1]):
                out[start + lane, s] = total[lane] + best[s, lane]
