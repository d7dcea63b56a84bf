"""Max-sum elimination of many rows at once, along a plan as flat arrays.

All numbers of a row lie in one column: first the entries of the tables, then those of the
messages. Rows are lanes (the innermost axis), so that each step of the plan is one vector
operation over rows, and index arithmetic is paid once for all of them.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.buckets import (
    AXES,
    AXIS_COUNT,
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    OFFSET,
    SIZE,
    STEP,
    STRIDES,
)
from cmpe.core.compiler.functions import njit


@njit(inner=True, nogil=True)
def begin(buckets, inputs, k, digits, offsets):
    """Put the inputs of bucket k at the first entry of its message."""
    for axis in range(buckets[k, AXIS_COUNT]):
        digits[axis] = 0
    for i in range(buckets[k, INPUT_COUNT]):
        offsets[i] = inputs[buckets[k, INPUTS] + i, OFFSET]


@njit(inner=True, nogil=True)
def step(buckets, inputs, strides, axis_cards, k, digits, offsets):
    """Move the inputs of bucket k to the next entry of its message."""
    first, count = buckets[k, INPUTS], buckets[k, INPUT_COUNT]
    for axis in range(buckets[k, AXIS_COUNT] - 1, -1, -1):
        digits[axis] += 1
        if digits[axis] < axis_cards[buckets[k, AXES] + axis]:
            for i in range(count):
                offsets[i] += strides[inputs[first + i, STRIDES] + axis]
            return
        for i in range(count):
            offsets[i] -= (digits[axis] - 1) * strides[inputs[first + i, STRIDES] + axis]
        digits[axis] = 0


@njit(inner=True, nogil=True)
def add_up(values, rows, count, out):
    """The sum of `count` rows of `values` (., L) into `out` (L,).

    Row numbers are read before each loop, so that the compiler knows they do not change in it.
    """
    if count == 0:
        out[:] = 0.0
        return
    first = rows[0]
    if count == 1:
        for lane in range(len(out)):
            out[lane] = values[first, lane]
        return
    second = rows[1]
    for lane in range(len(out)):
        out[lane] = values[first, lane] + values[second, lane]
    for i in range(2, count):
        row = rows[i]
        for lane in range(len(out)):
            out[lane] += values[row, lane]


@njit(inner=True, nogil=True)
def keep_better(value, carry, best, best_carry):
    """Where `value` exceeds `best`, replace it and `best_carry` (written so that it vectorises)."""
    for lane in range(len(best)):
        v, b, c, d = value[lane], best[lane], carry[lane], best_carry[lane]
        if v > b:
            b, d = v, c
        best[lane] = b
        best_carry[lane] = d


@njit(inner=True, nogil=True)
def eliminate_max(plan, values, carried, total, total_carried):
    """Max-sum over `values` (total, L), carrying the sum of `carried` along the maximiser.

    Fills the messages of both and adds up the roots and the constant (entry 0).
    """
    buckets, inputs, strides, axis_cards = plan.buckets, plan.inputs, plan.strides, plan.axis_cards
    lanes = values.shape[1]
    digits = np.zeros(plan.widest, dtype=np.int64)
    offsets = np.zeros(plan.most_inputs, dtype=np.int64)
    rows = np.zeros(plan.most_inputs, dtype=np.int64)
    value, carry = np.zeros(lanes), np.zeros(lanes)
    best, best_carry = np.zeros(lanes), np.zeros(lanes)
    for lane in range(lanes):
        total[lane] = values[0, lane]
        total_carried[lane] = carried[0, lane]
    for k in range(len(buckets)):
        first, count = buckets[k, INPUTS], buckets[k, INPUT_COUNT]
        begin(buckets, inputs, k, digits, offsets)
        for entry in range(buckets[k, SIZE]):
            add_up(values, offsets, count, best)
            add_up(carried, offsets, count, best_carry)
            for a in range(1, buckets[k, CARD]):
                for i in range(count):
                    rows[i] = offsets[i] + a * inputs[first + i, STEP]
                add_up(values, rows, count, value)
                add_up(carried, rows, count, carry)
                keep_better(value, carry, best, best_carry)
            target = buckets[k, MESSAGE] + entry
            for lane in range(lanes):
                values[target, lane] = best[lane]
            for lane in range(lanes):
                carried[target, lane] = best_carry[lane]
            if buckets[k, AXIS_COUNT] == 0:
                for lane in range(lanes):
                    total[lane] += best[lane]
                for lane in range(lanes):
                    total_carried[lane] += best_carry[lane]
            step(buckets, inputs, strides, axis_cards, k, digits, offsets)


@njit(inner=True, nogil=True)
def complete(plan, values, choice):
    """Give every bucket whose `choice` (K, L) is -1 its maximiser, given its parents' choices.

    `values` (total, L) holds tables and messages. Parents are decided before their children.
    """
    buckets, inputs, strides = plan.buckets, plan.inputs, plan.strides
    lanes = values.shape[1]
    best = np.zeros(lanes)
    offsets = np.zeros((plan.most_inputs, lanes), dtype=np.int64)
    for k in range(len(buckets) - 1, -1, -1):
        first, count = buckets[k, INPUTS], buckets[k, INPUT_COUNT]
        for i in range(count):
            start = inputs[first + i, OFFSET]
            for lane in range(lanes):
                offsets[i, lane] = start
            for axis in range(buckets[k, AXIS_COUNT]):
                parent = plan.axis_buckets[buckets[k, AXES] + axis]
                stride = strides[inputs[first + i, STRIDES] + axis]
                if stride > 0:
                    for lane in range(lanes):
                        offsets[i, lane] += stride * choice[parent, lane]
        for lane in range(lanes):
            best[lane] = -np.inf
            if choice[k, lane] >= 0:
                best[lane] = np.inf
        for a in range(buckets[k, CARD]):
            for lane in range(lanes):
                value = 0.0
                for i in range(count):
                    value += values[offsets[i, lane] + a * inputs[first + i, STEP], lane]
                if value > best[lane]:
                    best[lane] = value
                    choice[k, lane] = a
        for lane in range(lanes):
            choice[k, lane] = max(choice[k, lane], 0)


@njit(inner=True, nogil=True)
def totals(plan, tables, choice, total):
    """The sum of `tables` (>= entries, L) at the assignment `choice` (K, L) of every lane."""
    buckets, inputs = plan.buckets, plan.inputs
    lanes = choice.shape[1]
    offsets = np.zeros(lanes, dtype=np.int64)
    for lane in range(lanes):
        total[lane] = tables[0, lane]
    for k in range(len(buckets)):
        for i in range(buckets[k, INPUTS], buckets[k, INPUTS] + buckets[k, INPUT_COUNT]):
            if inputs[i, CHILD] >= 0:
                continue
            start, stride = inputs[i, OFFSET], inputs[i, STEP]
            for lane in range(lanes):
                offsets[lane] = start + stride * choice[k, lane]
            for axis in range(buckets[k, AXIS_COUNT]):
                parent = plan.axis_buckets[buckets[k, AXES] + axis]
                stride = plan.strides[inputs[i, STRIDES] + axis]
                if stride > 0:
                    for lane in range(lanes):
                        offsets[lane] += stride * choice[parent, lane]
            for lane in range(lanes):
                total[lane] += tables[offsets[lane], lane]
