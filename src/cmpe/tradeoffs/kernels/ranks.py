"""The k best feasible assignments of one row.

At the dual's multipliers every feasible y within G of the bound has a loss of at most G (see
`solvers.exact.kernels.proof`). All of them are collected, with the lists of the dynamic programme
thinned to what fewer than k others dominate; G grows until the k best found lie within it.
"""

from __future__ import annotations

import numpy as np

from cmpe.bounds.kernels.dual import rounding, satisfy
from cmpe.compiling.functions import njit
from cmpe.elimination.kernels import eliminate_max
from cmpe.solvers.exact.kernels.proof import find_losses
from cmpe.tradeoffs.kernels.fronts import reachable
from cmpe.tradeoffs.kernels.lists import H, T
from cmpe.tradeoffs.kernels.references import load_weighted
from cmpe.tradeoffs.kernels.trees import row_list

MOST_ROUNDS = 40
COMPLETE, ALL, OVERFLOW, IMPOSSIBLE = range(4)


@njit(cache=True, nogil=True)
def _largest(loss, t, limits, mu):
    """No allowed assignment has a gap above this (crude)."""
    total = 0.0
    for pair in range(len(loss)):
        if loss[pair, 0] < np.inf:
            total += loss[pair, 0]
    for j in range(len(limits)):
        total += mu[j] * (abs(limits[j]) + np.abs(t[j]).sum())
    return total


@njit(cache=True, nogil=True)
def _feasible(points, low, high, limits, most, out):
    """The numbers of up to `most` states within the limits, by falling h."""
    count = 0
    for i in range(low, high):
        fits = count < most
        for j in range(len(limits)):
            fits = fits and points[i, T + j] <= limits[j]
        if fits:
            out[count] = i
            count += 1
    return count


@njit(cache=True, nogil=True)
def ranked_row(plan, offsets, h, t, limits, finite, mu, rank, guess, work):
    """(kind, h and node of each, nodes, bound on what is missing, G that was enough).

    h (E,), t (m, E); mu (m,) are multipliers of the dual; `guess` is a first G, or 0.
    """
    if not finite:
        for j in range(t.shape[0]):
            column = t[j].copy().reshape((-1, 1))
            satisfy(column, offsets, limits[j])
            t[j] = column[:, 0]
    weight, price = np.ones(1), mu.copy().reshape((1, -1))
    values, carried = np.zeros((plan.total, 1)), np.zeros((plan.total, 1))
    upper, slack = np.zeros(1), np.zeros(1)
    load_weighted(h, t, weight, price, values)
    eliminate_max(plan, values, carried, upper, slack)
    points, nodes = np.zeros((0, 2)), np.zeros((0, 2), dtype=np.int32)
    if upper[0] == -np.inf:
        return IMPOSSIBLE, points, nodes, -np.inf, guess
    loss, reach = np.zeros((plan.pairs, 1)), np.zeros((plan.total - plan.entries, 1))
    find_losses(plan, values, loss, reach, np.zeros((len(plan.component_start) - 1, 1)))
    slack[0] = 4.0 * rounding(values, 0, len(plan.buckets))
    upper[0] += (mu * limits).sum()
    cap = _largest(loss, t, limits, mu) + slack[0]
    budget = np.full(1, min(cap, guess if guess > 0.0 else 0.01 * (1.0 + abs(upper[0]))))
    found = np.zeros(rank, dtype=np.int64)
    covered, ceiling = 0.0, np.inf
    for _ in range(MOST_ROUNDS):
        low, high = row_list(
            plan, h, t, (values, loss, reach), weight, price, budget + slack, limits, rank, work
        )
        if low < 0:
            ceiling = budget[0]
            budget[0] = covered + (budget[0] - covered) / 3.0
            if work[4][2] > work[4][3] or budget[0] - covered <= 1e-3 * ceiling:
                break
            continue
        count = _feasible(work[0], low, high, limits, rank, found)
        nodes, roots = reachable(work[3], work[1], found[:count])
        points = np.empty((count, 2))
        for i in range(count):
            points[i, 0], points[i, 1] = work[0][found[i], H], roots[i]
        covered = max(covered, budget[0])
        need = upper[0] - points[rank - 1, 0] if count == rank else np.inf
        if need <= covered + slack[0]:
            return COMPLETE, points, nodes, points[rank - 1, 0], need
        if covered >= cap:
            return ALL, points, nodes, -np.inf, guess
        budget[0] = min(cap, min(need, 3.0 * covered))
        if budget[0] >= ceiling:
            budget[0] = covered + (ceiling - covered) / 2.0
            if budget[0] - covered <= 1e-3 * ceiling:
                break
    return OVERFLOW, points, nodes, upper[0] - covered + slack[0], guess
