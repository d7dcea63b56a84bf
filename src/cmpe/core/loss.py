"""Compiled bounds for learning: see `bounds.loss` and `lagrangian.dual_bound`."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.dual import SLACK, load_block, load_priced, make_block, minimise_dual, rounding
from cmpe.core.elimination import eliminate_max


@njit(cache=True, nogil=True)
def least_batch(rows, out):
    """The least finite h of every row, less rounding; inf if there is none."""
    plan, lanes, count = rows.plan, rows.lanes, rows.evidence.shape[1]
    t = np.zeros((0, plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    total, carry = np.zeros(lanes), np.zeros(lanes)
    h = values[: plan.entries]
    for start in range(0, count, lanes):
        load_block(rows, start, h, t)
        for e in range(plan.entries):
            for lane in range(lanes):
                h[e, lane] = -h[e, lane] if h[e, lane] > -np.inf else -np.inf
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(min(lanes, count - start)):
            out[start + lane] = -total[lane] - rounding(values, lane, len(plan.buckets))


@njit(cache=True, nogil=True)
def opposite_batch(rows, bound, kind):
    """A bound on max h - t subject to t >= limit for every row: see `bounds.loss`.

    An assignment with t = -inf does not count.
    """
    plan, lanes, count = rows.plan, rows.lanes, rows.evidence.shape[1]
    block = make_block(plan, 1, lanes)
    h, t = block.h, block.t
    for start in range(0, count, lanes):
        load_block(rows, start, h, t)
        for e in range(plan.entries):
            for lane in range(lanes):
                if t[0, e, lane] == -np.inf:
                    h[e, lane], t[0, e, lane] = -np.inf, 0.0
                else:
                    h[e, lane] -= t[0, e, lane]
                    t[0, e, lane] = -t[0, e, lane]
        minimise_dual(plan, block, -rows.limits[0])
        for lane in range(min(lanes, count - start)):
            slack = rounding(block.values, lane, len(plan.buckets))
            bound[start + lane] = block.upper[lane] + slack
            kind[start + lane] = block.kind[lane]


@njit(cache=True, nogil=True)
def priced_batch(rows, mu, out):
    """D(mu) of every row at the given multipliers mu (B, m)."""
    plan, limits, lanes = rows.plan, rows.limits, rows.lanes
    count, constraints = rows.evidence.shape[1], len(limits)
    h, t = np.zeros((plan.entries, lanes)), np.zeros((constraints, plan.entries, lanes))
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    total, carry = np.zeros(lanes), np.zeros(lanes)
    price = np.zeros((lanes, constraints))
    for start in range(0, count, lanes):
        for lane in range(lanes):
            for j in range(constraints):
                price[lane, j] = mu[min(start + lane, count - 1), j]
        load_block(rows, start, h, t)
        load_priced(h, t, price, values)
        eliminate_max(plan, values, carried, total, carry)
        for lane in range(min(lanes, count - start)):
            bound = total[lane] + rounding(values, lane, len(plan.buckets))
            for j in range(constraints):
                bound += price[lane, j] * limits[j] + SLACK * abs(price[lane, j] * limits[j])
            out[start + lane] = bound
