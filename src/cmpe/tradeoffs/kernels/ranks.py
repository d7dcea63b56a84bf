"""The k best feasible assignments of every row of a batch.

Let H be a guess at the k-th best h. Dynamic programming over the bucket trees collects the partial
assignments that may belong to a feasible y with h(y) >= H (`columns`): at the multipliers s mu*,

    h(y) >= H, t(y) <= q   imply   (h - s mu* . t)(y) >= H - s mu* . q,

and what a partial assignment can reach there at most is known exactly, by elimination. So each s
prunes; so do h and every t_j alone. A partial assignment that k others of its bucket entry
dominate is not needed: each of its completions has k better ones. The components' lists are merged
to two, which are joined without forming all sums: in the order of t, what fits beside a state is a
beginning of the other list, whose highest h says whether anything in it is wanted. Everything
feasible with h >= H is found, so if that is k or more the best k of them are proved; else H falls.
"""

from __future__ import annotations

import numpy as np

from cmpe.bounds.kernels.dual import rounding, satisfy
from cmpe.compiling.functions import njit
from cmpe.elimination.kernels import VARIABLE, eliminate_max
from cmpe.solvers.exact.kernels.proof import find_losses
from cmpe.tradeoffs.kernels.branches import component_list
from cmpe.tradeoffs.kernels.columns import BLOCK, FREE, H, T, add_node
from cmpe.tradeoffs.kernels.joins import joined, merged
from cmpe.tradeoffs.kernels.references import load_weighted

MOST_ROUNDS = 60
SCALES = (1.0, 0.6, 0.85, 1.15, 1.6)  # of mu*: the multipliers that prune
FIRST_SHARE = 0.002  # of the bound: the first gap looked into
GROWTH = 1.6  # of the gap from round to round, at most, where answers become more
COMPLETE, ALL, OVERFLOW, IMPOSSIBLE = range(4)


@njit(cache=True, nogil=True)
def workspace(states, constraints, plan, rank):
    """Arrays that all rows of one thread share."""
    columns = T + constraints + len(SCALES)
    messages, components = plan.total - plan.entries, len(plan.component_start)
    room = max(4 * rank, 1024)
    return (
        np.empty((states, columns)),  # points
        np.empty(states, dtype=np.int64),  # node of each
        np.empty((2 * states, 2), dtype=np.int64),  # nodes: two parts, or a value and a bucket
        np.zeros(4, dtype=np.int64),  # how many states, nodes, sums looked at, sums allowed
        np.zeros((2, messages), dtype=np.int64),  # the list of each message entry: first and end
        np.zeros((2, components + 1), dtype=np.int64),  # that of each component
        (
            np.empty(states),
            np.empty(states, dtype=np.int64),
            np.empty(states, dtype=np.int64),
            np.empty((states, columns)),
            np.empty(states, dtype=np.int64),
        ),  # to sort with
        (np.empty(columns), np.empty((states // BLOCK + 2, columns)), np.empty(rank)),  # scratch
        (np.empty(room), np.empty((room, 2), dtype=np.int64)),  # answers: h, their two nodes
    )


@njit(cache=True, nogil=True)
def _feasible_above(plan, tables, need, budget, constraints, rank, work):
    """The best `rank` feasible answers above the need: (how many, node of what they share).

    -1 without room. Lists of one state are what all share.
    """
    points, node, nodes, sizes, lists = work[0], work[1], work[2], work[3], work[5]
    sizes[0], sizes[1] = 0, 0
    rest = need - tables[0][0]  # entry 0 is the constant
    active, shared, constant = 0, FREE, tables[0][0, H]
    is_thinned = constraints == 1
    for c in range(len(plan.component_start) - 1 if len(plan.buckets) > 0 else 0):
        low = sizes[0]
        if not component_list(plan, c, tables, budget, rank, is_thinned, work):
            return -1, shared
        if sizes[0] == low:
            return 0, shared
        if sizes[0] - low > 1:
            lists[0, active], lists[1, active] = low, sizes[0]
            active += 1
            continue
        rest -= points[low]
        constant += points[low, H]
        shared = node[low] if shared < 0 else add_node(nodes, sizes, shared, node[low])
        if shared < 0:
            return -1, shared
        sizes[0] = low
    active = merged(active, rest, rank, is_thinned, work)
    if active < 0:
        return -1, shared
    for c in range(active, 2):  # an empty sum is one state of zeros
        if sizes[0] + 1 >= len(points):
            return -1, shared
        points[sizes[0]] = 0.0
        node[sizes[0]] = FREE
        lists[0, c], lists[1, c] = sizes[0], sizes[0] + 1
        sizes[0] += 1
    count = joined(rest, constraints, rank, work)
    for i in range(count):
        work[8][0][i] += constant
    return count, shared


@njit(cache=True, nogil=True)
def _columns_of(plan, h, t, mu, limits):
    """Weights and prices of the columns, their tables, totals, limits' part of the need, slack."""
    constraints = t.shape[0]
    columns = T + constraints + len(SCALES)
    weight, price = np.ones(columns), np.zeros((columns, constraints))
    for j in range(constraints):
        weight[T + j], price[T + j, j] = 0.0, 1.0
    for s in range(len(SCALES)):
        price[T + constraints + s] = SCALES[s] * mu
    values, carried = np.zeros((plan.total, columns)), np.zeros((plan.total, columns))
    totals, slack = np.zeros(columns), np.zeros(columns)
    load_weighted(h, t, weight, price, values)
    eliminate_max(plan, values, carried, totals, slack)
    loss = np.zeros((plan.pairs, columns))
    reach = np.zeros((plan.total - plan.entries, columns))
    find_losses(plan, values, loss, reach, np.zeros((len(plan.component_start) - 1, columns)))
    asked = np.zeros(columns)
    for r in range(columns):
        for j in range(constraints):
            asked[r] -= price[r, j] * limits[j] if price[r, j] > 0.0 else 0.0
        slack[r] = 4.0 * rounding(values, r, len(plan.buckets)) + 1e-14 * abs(asked[r])
    return weight, (values, loss, reach), totals, asked, slack


@njit(cache=True, nogil=True)
def _largest(loss):
    """No allowed assignment has an h this far below the highest (crude)."""
    total = 0.0
    for pair in range(len(loss)):
        if loss[pair, H] < np.inf:
            total += loss[pair, H]
    return total


@njit(cache=True, nogil=True)
def _ranked_row(plan, h, t, limits, mu, rank, guess, work):
    """(kind, how many, node of what all share, bound on what is missing, gap of the last)."""
    weight, tables, totals, asked, slack = _columns_of(plan, h, t, mu, limits)
    if totals[H] == -np.inf:
        return IMPOSSIBLE, 0, FREE, -np.inf, guess
    constraints = t.shape[0]
    upper = totals[H]
    for r in range(len(weight)):
        if weight[r] > 0.0:
            upper = min(upper, totals[r] - asked[r])
        elif totals[r] < asked[r] - slack[r]:
            return IMPOSSIBLE, 0, FREE, -np.inf, guess
    cap = upper - totals[H] + _largest(tables[1]) + slack[H]
    gap = guess if guess > 0.0 else FIRST_SHARE * (1.0 + abs(upper))
    covered, ceiling = 0.0, np.inf
    count, shared, before, is_last = 0, FREE, 0, False
    for _ in range(MOST_ROUNDS):
        lowest = upper - gap if gap < cap else -np.inf
        need = asked - slack
        for r in range(len(weight)):
            if weight[r] > 0.0:
                need[r] += lowest
        budget = totals - need
        count, shared = _feasible_above(plan, tables, need, budget, constraints, rank, work)
        if is_last:
            break
        if count < 0:
            ceiling = gap
            gap = covered + (gap - covered) / 3.0
            if work[3][2] > work[3][3] or gap - covered <= 1e-3 * ceiling:
                is_last, gap = True, covered  # what was found there was written over
                work[3][2] = -(1 << 40)
            continue
        covered = gap
        if count == rank:
            return COMPLETE, count, shared, work[8][0][count - 1], upper - work[8][0][count - 1]
        if lowest == -np.inf:
            return ALL, count, shared, -np.inf, guess
        more = min(GROWTH, max(1.1, (rank / count) ** 0.3)) if count > before else 2.0
        gap, before = more * covered, count
        if gap >= ceiling:
            gap = covered + (ceiling - covered) / 2.0
            if gap - covered <= 1e-3 * ceiling:
                break
    if is_last:
        work[3][2] = work[3][3] + 1
    return OVERFLOW, max(0, count), shared, upper - covered + slack[H], guess


@njit(cache=True, nogil=True)
def _read(plan, nodes, root, stack, row):
    """What the node `root` decides, into `row`."""
    depth = 0
    if root >= 0:
        stack[0] = root
        depth = 1
    while depth > 0:
        depth -= 1
        left, right = nodes[stack[depth], 0], nodes[stack[depth], 1]
        if right < 0:
            row[plan.buckets[-1 - right, VARIABLE]] = -1 - left
        else:
            stack[depth], stack[depth + 1] = left, right
            depth += 2


@njit(cache=True, nogil=True)
def ranked_batch(plan, offsets, h, t, limits, finite, mu, rank, guess, work, results):
    """The best `rank` of every row: h (R, E), t (R, m, E), mu (R, m).

    `guess[0]` is the gap between bound and last answer that rows before had, or 0. `results` are
    assignments (R, rank, n), with evidence filled in, counts (R,), kinds (R,), bounds (R,).
    """
    assignments, counts, kinds, bounds = results
    stack = np.zeros(2 * len(plan.buckets) + 2, dtype=np.int64)
    for row in range(len(h)):
        if not finite:
            for j in range(t.shape[1]):
                column = t[row, j].copy().reshape((-1, 1))
                satisfy(column, offsets, limits[j])
                t[row, j] = column[:, 0]
        work[3][2] = 0
        kind, count, shared, bound, gap = _ranked_row(
            plan, h[row], t[row], limits, mu[row], rank, guess[0], work
        )
        if kind == COMPLETE:
            guess[0] = 1.1 * gap if guess[0] == 0.0 else 0.8 * guess[0] + 0.22 * gap
        kinds[row], counts[row], bounds[row] = kind, count, bound
        for i in range(count):
            if i == 0:
                _read(plan, work[2], shared, stack, assignments[row, 0])
            else:
                assignments[row, i] = assignments[row, 0]
            for side in range(2):
                _read(plan, work[2], work[8][1][i, side], stack, assignments[row, i])
