"""The k best feasible assignments of every row of a batch.

At the dual's minimiser mu* every y has a gap UB - h(y) = loss(y) + mu* (q - t(y)), as in `exact`
(`solvers.exact.kernels.proof`), so what is feasible and within G of the bound has loss(y) <= G.
The dynamic programme of `exact` lists the partial assignments of such losses, of every component;
one that k others of its bucket entry dominate is not needed: each of its completions has k better
ones. The components' lists are merged to two, with more multipliers to prune by (`columns`), and
the two are joined without forming all sums. Everything feasible within G is found, so if that is k
or more the best k of them are proved; else G grows.

How far to look: the losses of the lists say how many assignments, feasible or not, lie within any
G. How many of those it takes to have k feasible ones is learned from row to row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.core.compiler.functions import njit, uncompiled
from cmpe.core.dual import INFEASIBLE, rounding
from cmpe.core.elimination import complete
from cmpe.core.frontiers import list_components
from cmpe.core.fronts.columns import BLOCK, FREE, H, T
from cmpe.core.fronts.counting import BINS, counted, first_gap, gap_of, learn, number_within
from cmpe.core.fronts.joins import NOTHING, joined, merged
from cmpe.core.fronts.packing import recalled
from cmpe.core.fronts.reading import padded
from cmpe.core.fronts.tilts import TILT, tilt, tilt_room
from cmpe.core.proof import block_room, bound_block, largest_gap, state_space
from cmpe.core.states import COST, LOSS
from cmpe.core.states import T as FIRST_T

MOST_ROUNDS = 60
SCALES = (1.0, 0.6, 0.85, 1.15, 1.6)  # of mu*: the multipliers that prune
FIRST_SHARE = 0.002  # of the bound: the first gap looked into
FURTHER = 1.3  # than the gap of rows before: what is listed
TIED = 2e-9  # of 1 + |h|
COMPLETE, ALL, OVERFLOW, IMPOSSIBLE = range(4)


def workspace(states: int, constraints: int, plan: Any, rank: int) -> tuple[Any, Any]:
    """Arrays that all rows of one thread share: of the lists, and of their sums.

    Python calls it once a thread, so numpy makes them: as compiled code it took 0.7 s to compile.
    """
    columns, components = T + constraints + len(SCALES), len(plan.component_start)
    room = max(4 * rank, 1024)
    longest = max(states, room)  # of what is sorted
    lists = uncompiled(state_space)(states, constraints, plan, rank, 1 << 22)
    scratch = (
        np.empty(longest),  # to sort with: keys, order, spare, states, nodes
        np.empty(longest, dtype=np.int64),
        np.empty(longest, dtype=np.int64),
        np.empty((states, columns)),
        np.empty(states, dtype=np.int64),
        np.empty(rank),  # a heap
        np.empty(columns),  # to combine with
        np.empty((states // BLOCK + 2, columns)),
    )
    sums = (
        np.empty((states, columns)),  # points
        np.empty(states, dtype=np.int64),  # node of each
        lists[2],
        lists[3],
        np.zeros((2, components + 1), dtype=np.int64),  # the list of each component
        scratch,
        np.empty(room),  # answers: h
        np.empty((room, 2), dtype=np.int64),  # and their two nodes
        np.zeros(components + 1, dtype=np.int64),  # how many nodes all answers share, and which
    )
    return lists, sums


@njit(cache=True, nogil=True)
def _as_columns(lists, listed, mu, gap, sums, rest):
    """The states of loss <= gap as columns: (how many lists have several, the loss of the others).

    A list of a single state is a constant, whose node is kept; it may lose something, where what
    loses nothing was dropped. `rest` is what such lists leave. -1: a list has no state.
    """
    states, node, lows, highs = lists[0], lists[1], lists[8], lists[9]
    points, own, sizes, ranges = sums[0], sums[1], sums[3], sums[4]
    constraints, top, active, lost = len(mu), 0, np.int64(0), 0.0
    sums[8][0] = 0
    for c in range(listed):
        low, last = top, 0.0
        for i in range(lows[c], highs[c]):
            if states[i, LOSS] > gap:
                continue
            cost = states[i, COST]
            points[top, H] = -cost
            for j in range(constraints):
                points[top, T + j] = -states[i, FIRST_T + j]
            for s in range(len(SCALES)):
                points[top, T + constraints + s] = -cost - SCALES[s] * (states[i, LOSS] - cost)
            own[top], last = node[i], states[i, LOSS]
            top += 1
        if top - low > 1:
            ranges[0, active], ranges[1, active] = low, top
            active += 1
        elif top == low:
            return -1, 0.0
        else:
            lost += last
            for j in range(constraints):
                rest[j] += points[low, T + j]
            sums[8][0] += 1
            sums[8][sums[8][0]] = own[low]
            top = low
    sizes[0] = top
    return active, lost


@njit(cache=True, nogil=True)
def _within(lists, listed, mu, gap, rank, sums):
    """The best `rank` feasible answers within the gap: (how many, price); -1 without room.

    h of an answer is, but for a constant, what is found of it less the price.
    """
    points, node, sizes, ranges = sums[0], sums[1], sums[3], sums[4]
    constraints = len(mu)
    rest = lists[11].copy()
    active, lost = _as_columns(lists, listed, mu, gap, sums, rest)
    if active < 0:
        return 0, 0.0
    spent = 0.0
    for j in range(constraints):
        spent += mu[j] * rest[j]
    price = spent + lost
    need = np.empty(points.shape[1])
    need[H] = price - gap
    for j in range(constraints):
        need[T + j] = -rest[j]
    for s in range(len(SCALES)):
        need[T + constraints + s] = lost - gap - (SCALES[s] - 1.0) * spent
    thins = rank if constraints == 1 else 0 * rank
    active = merged(active, need, thins, sums)
    if active < 0:
        return (0 if active == NOTHING else -1), price
    for c in range(active, 2):  # an empty sum is one state of zeros
        if sizes[0] + 1 >= len(points):
            return -1, price
        points[sizes[0]] = 0.0
        node[sizes[0]] = FREE
        ranges[0, c], ranges[1, c] = sizes[0], sizes[0] + 1
        sizes[0] += 1
    return joined(need, constraints, rank, sums), price


@njit(cache=True, nogil=True)
def _is_priced(mu, lane):
    for j in range(mu.shape[1]):
        if mu[lane, j] > 0.0:
            return True
    return False


@njit(cache=True, nogil=True)
def _listed(plan, lane, block, tilts, limits, gap, slack, rank, lists):
    """The components' lists of a row within the gap; see `list_components`."""
    _, t, _, carried, loss, reach, second, mu, _, _, _, _, _ = block
    rise, drift, away = tilts
    share, spent, most = TILT if _is_priced(mu, lane) else 0.0, 0.0, gap + 2.0 * slack
    for j in range(len(limits)):
        spent += mu[lane, j] * limits[j]
    tilted = (most + rise[0, lane] - share * spent, most + rise[1, lane] + share * spent)
    return list_components(
        plan, lane, t, carried, loss, reach, second, limits, mu[lane], gap + slack, rank,
        (share, tilted, drift, away), lists,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _ranked_row(plan, lane, block, tilts, limits, slack, wanted, rank, guess, space):
    """Of one row (kind, how many, the gap within which everything is known).

    At least `wanted` answers are looked for, and at most `rank` given.
    """
    t, loss, mu, upper = block[1], block[4], block[7], block[8]
    lists, sums = space
    sizes, own_mu = lists[3], mu[lane]
    cap = largest_gap(plan.buckets, loss, t, limits, own_mu, lane) + slack
    below = np.zeros(BINS)
    gap = FIRST_SHARE * (1.0 + abs(upper[lane]))
    if guess[0] > 0.0:  # rows whose answers are all tied teach a gap of next to nothing
        gap = max(FURTHER * guess[0], 1e-3 * gap)
    walked, covered, ceiling, listed, made = -1.0, 0.0, np.inf, np.int64(0), 0
    is_last, price = False, 0.0
    for _ in range(MOST_ROUNDS):
        gap = min(gap, cap)
        count = 0
        if gap > walked or is_last:
            walked = gap
            listed = _listed(plan, lane, block, tilts, limits, gap, slack, rank, lists)
            made = sizes[1]
            if listed >= 0 and not is_last and walked < cap:
                counted(lists, listed, walked, below)
                if covered == 0.0 and ceiling == np.inf:
                    gap = first_gap(guess, below, walked, wanted)
                    if gap > walked:
                        continue
        if listed >= 0:
            sizes[1] = made
            count, price = _within(lists, listed, own_mu, gap + slack, rank, sums)
        if is_last:
            break
        if listed < 0 or count < 0:
            ceiling, walked = gap, -1.0
            gap = covered + (gap - covered) / 3.0
            if sizes[2] > sizes[3] or gap - covered <= 1e-3 * ceiling:
                is_last, gap = True, covered  # what was found there was written over
                sizes[2] = -(1 << 40)
            continue
        covered = gap
        if count >= wanted:
            last = price - sums[6][wanted - 1]
            if walked >= cap:
                counted(lists, listed, walked, below)  # not yet, or of a walk before
            learn(guess, last, below, walked, wanted)
            known = price - sums[6][count - 1] if count == rank else gap
            return COMPLETE, count, known
        if gap >= cap:
            return ALL, count, np.inf
        more = min(4.0, 1.15 * wanted / max(1, count))
        number = more * number_within(below, walked, gap)
        gap = max(gap_of(below, walked, number), 1.05 * gap)
        if gap >= ceiling:
            gap = covered + (ceiling - covered) / 2.0
            if gap - covered <= 1e-3 * ceiling:
                break
    if is_last:
        sizes[2] = sizes[3] + 1
    return OVERFLOW, max(0, count), covered - slack


@njit(cache=True, nogil=True)
def _as_good(h, count, wanted, size):
    """How many of the answers come before `wanted` or are tied with the last before it."""
    kept = min(count, wanted)
    if wanted > 1:
        while kept < count and h[kept] >= h[wanted - 2] - TIED * (1.0 + size):
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _answer_lanes(
    plan, rows, lanes, is_now, block, tilts, limits, wanted, rank, guess, tables, begun, space,
    order, room, results,
):  # fmt: skip
    """Rank those of a block's rows that `is_now` says."""
    evaluated, counts, kinds, bounds, which, stored, places = results
    values, mu, upper, kind, choice = block[2], block[7], block[8], block[10], block[12]
    for lane in range(lanes):
        if not is_now[lane]:
            continue
        row = rows[lane]
        slack = 4.0 * rounding(values, lane, len(plan.buckets))
        found, known = 0, np.inf
        kinds[row] = IMPOSSIBLE
        space[0][3][2] = 0
        if kind[lane] != INFEASIBLE:
            own = guess[1 if _is_priced(mu, lane) else 0]
            kinds[row], found, known = _ranked_row(
                plan, lane, block, tilts, limits, slack, wanted, rank, own, space
            )
        counts[row] = _as_good(space[1][6], found, wanted, abs(upper[lane]))
        bounds[row] = upper[lane] - known
        first, low = places[len(counts), 0], places[len(counts), 2]
        differ = recalled(
            plan, space[1], counts[row], order, room, choice, lane, tables, begun[row],
            (which[first:], stored[low:]), evaluated[row],
        )  # fmt: skip
        places[row, 0], places[row, 1], places[row, 2] = first, differ, low
        places[row, 3] = padded(counts[row])
        places[len(counts), 0] += differ
        places[len(counts), 2] += differ * padded(counts[row])


@njit(cache=True, nogil=True)
def _choose(mu, lanes, is_last, is_now):
    """Which lanes to rank now: those without multipliers, or all where most have some.

    Returns whether any of them has some.
    """
    priced = 0
    for lane in range(lanes):
        is_now[lane] = not _is_priced(mu, lane)
        priced += 0 if is_now[lane] else 1
    if is_last or 2 * priced >= lanes:
        is_now[:] = True
        return priced > 0
    return False


@njit(cache=True, nogil=True)
def ranked_batch(
    plan, offsets, gathers, evidence, limits, lanes, finite, wanted, rank, guess, tables, order,
    begun, space, results,
):  # fmt: skip
    """At least `wanted` and at most `rank` best answers of every column of `evidence` (|X|, B).

    `guess` (2, 4) is what rows before taught (`counting.learn`), without and with multipliers;
    `tables` are the functions (`reading.recall`), `order` the buckets by their variables. Of each
    row `begun` (B, n) receives what its answers share, and `results` values (B, rank, 1 + m),
    counts, kinds and the h above which every answer is known (B,), and, end to end, the variables
    that differ with their values; `places` (B + 1, 4) says where a row's begin and how many there
    are. Rows that need multipliers wait for others.
    """
    count, buckets = evidence.shape[1], len(plan.buckets)
    asked = limits if len(limits) > 0 else np.zeros(1)  # a t of nothing but zeros
    block, (other, losses, tilts) = block_room(plan, len(asked), lanes), tilt_room(plan, lanes)
    room = (
        np.zeros(2 * buckets * padded(rank), dtype=np.uint16),
        np.zeros((2, rank), dtype=np.int64),
        np.zeros(2 * buckets + 2, dtype=np.int64),
        np.zeros(padded(rank), dtype=np.uint32),
        np.zeros(padded(rank)),
    )
    rows, is_now = np.zeros(lanes, dtype=np.int64), np.ones(lanes, dtype=np.bool_)
    waiting, left = np.zeros(count, dtype=np.int64), count
    for i in range(count):
        waiting[i] = i
    for attempt in range(2):
        here, left = left, 0
        for start in range(0, here, lanes):
            for lane in range(lanes):
                rows[lane] = waiting[min(start + lane, here - 1)]
            bound_block(plan, offsets, gathers, evidence, rows, limits, asked, finite, block)
            own = min(lanes, here - start)
            if _choose(block[7], own, attempt > 0, is_now):
                tilt(plan, block, other, losses, tilts)
            block[12][:] = -1
            complete(plan, block[2], block[12])
            _answer_lanes(
                plan, rows, own, is_now, block, tilts, asked, wanted, rank, guess, tables, begun,
                space, order, room, results,
            )  # fmt: skip
            for lane in range(own):
                if not is_now[lane]:
                    waiting[left] = rows[lane]
                    left += 1
