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
from cmpe.tradeoffs.kernels.branches import component_list, component_maximiser
from cmpe.tradeoffs.kernels.columns import BLOCK, FREE, H, T
from cmpe.tradeoffs.kernels.joins import NOTHING, joined, merged
from cmpe.tradeoffs.kernels.reading import (
    LANES,
    given_tables,
    read,
    reading_room,
    write_rows,
    write_values,
)
from cmpe.tradeoffs.kernels.references import load_weighted

MOST_ROUNDS = 60
SCALES = (1.0, 0.6, 0.85, 1.15, 1.6)  # of mu*: the multipliers that prune
FIRST_SHARE = 0.002  # of the bound: the first gap looked into
CAUTION = 0.85  # of the gap of rows before: to look into too much costs more than a round
GROWTH = 2.0  # of the gap from round to round, at most
MOST_POWER = 0.5
SIDE_BY_SIDE = 8  # rows that are eliminated together
WORKING_SET = 1 << 23  # numbers of them
COMPLETE, ALL, OVERFLOW, IMPOSSIBLE = range(4)


@njit(cache=True, nogil=True)
def workspace(states, constraints, plan, rank):
    """Arrays that all rows of one thread share."""
    columns = T + constraints + len(SCALES)
    messages, components = plan.total - plan.entries, len(plan.component_start)
    room = max(4 * rank, 1024)
    scratch = (
        np.empty(states),  # to sort with: keys, order, spare, states, nodes
        np.empty(states, dtype=np.int64),
        np.empty(states, dtype=np.int64),
        np.empty((states, columns)),
        np.empty(states, dtype=np.int64),
        np.empty(rank),  # a heap
        np.empty(columns),  # to combine with
        np.empty((states // BLOCK + 2, columns)),
    )
    return (
        np.empty((states, columns)),  # points
        np.empty(states, dtype=np.int64),  # node of each
        np.empty((2 * states, 2), dtype=np.int32),  # nodes: two parts, or a value and a bucket
        np.zeros(4, dtype=np.int64),  # how many states, nodes, sums looked at, sums allowed
        np.zeros(messages, dtype=np.int64),  # the list of each message entry: first
        np.zeros(messages, dtype=np.int64),  # and end
        np.zeros((2, components + 1), dtype=np.int64),  # the list of each component
        np.zeros(len(plan.buckets), dtype=np.int64),  # what all answers share
        scratch,
        np.empty(room),  # answers: h
        np.empty((room, 2), dtype=np.int64),  # and their two nodes
    )


@njit(cache=True, nogil=True)
def _only_one(second, c, budget):
    """A column whose maximiser is all that component c may be; -1 if there is none."""
    for r in range(len(budget)):
        if second[c, r] > budget[r]:
            return r
    return -1


@njit(cache=True, nogil=True)
def _feasible_above(plan, tables, need, budget, constraints, rank, work):
    """The best `rank` feasible answers above the need: how many; -1 without room.

    What components that are decided take is in `work`, the rest in nodes.
    """
    points, node, sizes, lists, choice = work[0], work[1], work[3], work[6], work[7]
    values, loss, reach, second = tables
    sizes[0], sizes[1] = 0, 0
    constant = values[0].copy()  # entry 0 is the constant
    choice[:] = -1
    active = np.int64(0)  # not 0: numba would compile what is called for that number, too
    thins = rank if constraints == 1 else 0 * rank
    for c in range(len(plan.component_start) - 1 if len(plan.buckets) > 0 else 0):
        decided = _only_one(second, c, budget)
        if decided >= 0:
            component_maximiser(plan, c, values, loss, decided, choice, constant)
            continue
        low = sizes[0]
        if not component_list(plan, c, values, loss, reach, budget, thins, work):
            return -1
        if sizes[0] == low:
            return 0
        lists[0, active], lists[1, active] = low, sizes[0]
        active += 1
    rest = need - constant
    active = merged(active, rest, thins, work)
    if active < 0:
        return 0 if active == NOTHING else -1
    for c in range(active, 2):  # an empty sum is one state of zeros
        if sizes[0] + 1 >= len(points):
            return -1
        points[sizes[0]] = 0.0
        node[sizes[0]] = FREE
        lists[0, c], lists[1, c] = sizes[0], sizes[0] + 1
        sizes[0] += 1
    count = joined(rest, constraints, rank, work)
    for i in range(count):
        work[9][i] += constant[H]
    return count


@njit(cache=True, nogil=True)
def _columns_of(mu):
    """Weights and prices of the columns (see `columns`)."""
    constraints = len(mu)
    columns = T + constraints + len(SCALES)
    weight, price = np.ones(columns), np.zeros((columns, constraints))
    for j in range(constraints):
        weight[T + j], price[T + j, j] = 0.0, 1.0
    for s in range(len(SCALES)):
        price[T + constraints + s] = SCALES[s] * mu
    return weight, price


@njit(cache=True, nogil=True)
def _eliminated(plan, h, t, mu, first, values, carried, loss, reach, second, totals):
    """Values, losses and totals of rows first.. at all their columns, side by side."""
    columns = T + t.shape[1] + len(SCALES)
    lanes = values.shape[1]
    for lane in range(0, lanes, columns):
        row = min(first + lane // columns, len(h) - 1)
        weight, price = _columns_of(mu[row])
        load_weighted(h[row], t[row], weight, price, values[:, lane : lane + columns])
    eliminate_max(plan, values, carried, totals, np.empty(lanes))
    find_losses(plan, values, loss, reach, second)


@njit(cache=True, nogil=True)
def _largest(loss):
    """No allowed assignment has an h this far below the highest (crude)."""
    total = 0.0
    for pair in range(len(loss)):
        if loss[pair, H] < np.inf:
            total += loss[pair, H]
    return total


@njit(cache=True, nogil=True)
def _learn(guess, gap, h, rank):
    """`guess`: the gap of the last answer, and the power of its rank that gaps grow with."""
    half = gap + h[rank - 1] - h[(rank - 1) // 2]
    power = MOST_POWER
    if half > 0.0:
        power = min(MOST_POWER, np.log(gap / half) / np.log(rank / (1.0 + (rank - 1) // 2)))
    share = 1.0 if guess[0] == 0.0 else 0.2
    guess[0] += share * (gap - guess[0])
    guess[1] += share * (power - guess[1])


@njit(cache=True, nogil=True)
def _ranked_row(plan, tables, totals, price, limits, rank, guess, work):
    """(kind, how many, bound on what is missing, gap of the last)."""
    columns, constraints = price.shape
    asked, slack = np.zeros(columns), np.zeros(columns)
    is_h = np.ones(columns, dtype=np.bool_)
    is_h[T : T + constraints] = False
    if totals[H] == -np.inf:
        return IMPOSSIBLE, 0, -np.inf, 0.0
    upper = totals[H]
    for r in range(columns):
        for j in range(constraints):
            asked[r] -= price[r, j] * limits[j] if price[r, j] > 0.0 else 0.0
        slack[r] = 4.0 * rounding(tables[0], r, len(plan.buckets)) + 1e-14 * abs(asked[r])
        if is_h[r]:
            upper = min(upper, totals[r] - asked[r])
        elif totals[r] < asked[r] - slack[r]:
            return IMPOSSIBLE, 0, -np.inf, 0.0
    cap = upper - totals[H] + _largest(tables[1]) + slack[H]
    gap = FIRST_SHARE * (1.0 + abs(upper))
    if guess[0] > 0.0:  # rows whose answers are all tied teach a gap of next to nothing
        gap = max(CAUTION * guess[0], 1e-3 * gap)
    power = guess[1] if guess[0] > 0.0 else 0.3
    covered, ceiling = 0.0, np.inf
    count, before, is_last = 0, 0, False
    for number in range(MOST_ROUNDS):
        lowest = upper - gap if gap < cap else -np.inf
        need = asked - slack
        for r in range(columns):
            need[r] += lowest if is_h[r] else 0.0
        count = _feasible_above(plan, tables, need, totals - need, constraints, rank, work)
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
            return COMPLETE, count, work[9][count - 1], upper - work[9][count - 1]
        if lowest == -np.inf:
            return ALL, count, -np.inf, 0.0
        more = 1.04 * (rank / count) ** power if count > before else 2.0
        more = max(more, 1.0 + 0.05 * number)  # so that the rounds suffice
        gap, before = min(max(GROWTH, 1.0 + 0.05 * number), more) * covered, count
        if gap >= ceiling:
            gap = covered + (ceiling - covered) / 2.0
            if gap - covered <= 1e-3 * ceiling:
                break
    if is_last:
        work[3][2] = work[3][3] + 1
    return OVERFLOW, max(0, count), upper - covered + slack[H], 0.0


@njit(cache=True, nogil=True)
def _recalled(work, count, room, tables, variables, begun, rows, values):
    """The first `count` answers and their values, into `rows` and `values`.

    What all of them share is as evidence.
    """
    block, stack, shared = room[0], room[3], begun.copy()
    runs = (np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int32))
    varying = np.flatnonzero(work[7] < 0)
    for k in range(len(variables)):
        if work[7][k] >= 0:
            shared[variables[k]] = work[7][k]
    given = given_tables(shared, variables, varying, tables)
    for low in range(0, count, LANES):
        lanes = min(LANES, count - low)
        for lane in range(lanes):
            for side in range(2):
                read(work[2], runs, work[10][low + lane, side], stack, block, lane)
        write_rows(block, variables, varying, shared, rows, low, lanes)
        write_values(tables, given, room, values, low, lanes)


@njit(cache=True, nogil=True)
def ranked_batch(
    plan, offsets, h, t, limits, finite, mu, rank, guess, tables, begun, work, results
):
    """The best `rank` of every row: h (R, E), t (R, m, E), mu (R, m), begun (R, n).

    `guess` is what rows before taught (`_learn`), zeros at first; `tables` are the functions
    (`reading.recall`). `results` are assignments (R, rank, n), values (R, rank, 1 + m), and counts,
    kinds and bounds (R,).
    """
    assignments, evaluated, counts, kinds, bounds = results
    variables, room = plan.buckets[:, VARIABLE].copy(), reading_room(len(plan.buckets))
    columns, messages = work[0].shape[1], plan.total - plan.entries
    side = max(
        1, min(len(h), SIDE_BY_SIDE, WORKING_SET // (columns * (2 * plan.total + plan.pairs)))
    )
    lanes = side * columns
    values, carried = np.zeros((plan.total, lanes)), np.zeros((plan.total, lanes))
    loss, reach = np.zeros((plan.pairs, lanes)), np.zeros((messages, lanes))
    second, totals = np.zeros((len(plan.component_start) - 1, lanes)), np.zeros(lanes)
    for row in range(len(h)):
        if row % side == 0:
            for other in range(row, min(row + side, len(h)) if not finite else row):
                for j in range(t.shape[1]):
                    column = t[other, j].copy().reshape((-1, 1))
                    satisfy(column, offsets, limits[j])
                    t[other, j] = column[:, 0]
            _eliminated(plan, h, t, mu, row, values, carried, loss, reach, second, totals)
        own = slice((row % side) * columns, (row % side + 1) * columns)
        near = (values[:, own].copy(), loss[:, own].copy(), reach[:, own].copy(),
                second[:, own].copy())  # fmt: skip
        work[3][2] = 0
        kind, count, bound, gap = _ranked_row(
            plan, near, totals[own], _columns_of(mu[row])[1], limits, rank, guess, work
        )
        if kind == COMPLETE:
            _learn(guess, gap, work[9], rank)
        kinds[row], counts[row], bounds[row] = kind, count, bound
        _recalled(
            work, count, room, tables, variables, begun[row], assignments[row], evaluated[row]
        )
