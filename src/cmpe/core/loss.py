"""Compiled bounds for learning: see `bounds.loss` and `lagrangian.dual_bound`."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.dual import SLACK, load_block, load_priced, minimise_dual, rounding
from cmpe.core.elimination import eliminate_max


@njit(cache=True, nogil=True)
def least_batch(plan, offsets, gathers, evidence, lanes, out):
    """The least finite h of every column of `evidence`, less rounding; inf if there is none."""
    count = evidence.shape[1]
    t = np.zeros((0, plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    total, carry = np.zeros(lanes), np.zeros(lanes)
    rows = np.zeros(lanes, dtype=np.int64)
    h = values[: plan.entries]
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = min(start + lane, count - 1)
        load_block(plan, offsets, gathers, evidence, rows, np.zeros(0), True, h, t)
        for e in range(plan.entries):
            for lane in range(lanes):
                h[e, lane] = -h[e, lane] if h[e, lane] > -np.inf else -np.inf
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(min(lanes, count - start)):
            out[start + lane] = -total[lane] - rounding(values, lane, len(plan.buckets))


@njit(cache=True, nogil=True)
def opposite_batch(plan, offsets, gathers, evidence, limit, lanes, upper_out, kind_out):
    """A bound on max h - t subject to t >= limit for every column of `evidence`: see
    `bounds.loss`. An assignment with t = -inf does not count."""
    count = evidence.shape[1]
    h, t = np.zeros((plan.entries, lanes)), np.zeros((1, plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    mu, ends = np.zeros(lanes), np.zeros((2, lanes))
    upper, lower = np.zeros(lanes), np.zeros(lanes)
    kind, rows = np.zeros(lanes, dtype=np.int64), np.zeros(lanes, dtype=np.int64)
    limits = np.full(1, limit)
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = min(start + lane, count - 1)
        load_block(plan, offsets, gathers, evidence, rows, limits, True, h, t)
        for e in range(plan.entries):
            for lane in range(lanes):
                if t[0, e, lane] == -np.inf:
                    h[e, lane], t[0, e, lane] = -np.inf, 0.0
                else:
                    h[e, lane] -= t[0, e, lane]
                    t[0, e, lane] = -t[0, e, lane]
        minimise_dual(plan, h, t[0], -limit, values, carried, mu, upper, lower, kind, ends)
        for lane in range(min(lanes, count - start)):
            upper_out[start + lane] = upper[lane] + rounding(values, lane, len(plan.buckets))
            kind_out[start + lane] = kind[lane]


@njit(cache=True, nogil=True)
def priced_batch(plan, offsets, gathers, evidence, limits, mu, lanes, finite, out):
    """D(mu) of every column of `evidence` at the given multipliers mu (B, m)."""
    count, constraints = evidence.shape[1], len(limits)
    h, t = np.zeros((plan.entries, lanes)), np.zeros((constraints, plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    total, carry = np.zeros(lanes), np.zeros(lanes)
    rows = np.zeros(lanes, dtype=np.int64)
    price = np.zeros((lanes, constraints))
    for start in range(0, count, lanes):
        for lane in range(lanes):
            rows[lane] = min(start + lane, count - 1)
            for j in range(constraints):
                price[lane, j] = mu[rows[lane], j]
        load_block(plan, offsets, gathers, evidence, rows, limits, finite, h, t)
        load_priced(h, t, price, values)
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(min(lanes, count - start)):
            bound = total[lane] + rounding(values, lane, len(plan.buckets))
            for j in range(constraints):
                bound += price[lane, j] * limits[j] + SLACK * abs(price[lane, j] * limits[j])
            out[start + lane] = bound
