"""The k best feasible assignments of every row of a batch.

At the dual's minimiser mu* every y has a gap UB - h(y) = loss(y) + mu* (q - t(y)), as in `exact`
(`core.proof`), so what is feasible and within G of the bound has loss(y) <= G.
The dynamic programme of `exact` lists the partial assignments of such losses, of every component;
one that k others of its bucket entry dominate is not needed: each of its completions has k better
ones. The components' lists are merged to two, with more multipliers to prune by (`columns`), and
the two are joined without forming all sums. Everything feasible within G is found, so if that is k
or more the best k of them are proved; else G grows.

The first G is predicted from the rows before (`counting`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers, Values
from cmpe.core.buckets import CompiledPlan
from cmpe.core.compiler.functions import njit, uncompiled
from cmpe.core.dual import INFEASIBLE, DualBlock, make_block, rounding
from cmpe.core.elimination import complete
from cmpe.core.frontiers import Space, Tilt, list_components, make_space
from cmpe.core.fronts.columns import BLOCK, FREE, ColumnRoom, H, T
from cmpe.core.fronts.counting import GAP, count_losses, first_gap, gap_of, learn, number_within
from cmpe.core.fronts.joins import NOTHING, ColumnSums, joined, merged
from cmpe.core.fronts.packing import PackedRow, Packing, make_packing, pack
from cmpe.core.fronts.reading import padded
from cmpe.core.fronts.settings import RANKS
from cmpe.core.fronts.tilts import TiltBlock, make_tilts, tilt
from cmpe.core.proof import bound_block, largest_gap
from cmpe.core.states import (
    ABOVE,
    BELOW,
    COST,
    LOSS,
    NODE_COUNT,
    STATE_COUNT,
    SUM_COUNT,
    SUM_LIMIT,
    States,
    make_walk,
)
from cmpe.core.states import T as FIRST_T

TIED = 2e-9  # answers this share of 1 + |h| apart count as equal
COMPLETE, ALL, OVERFLOW, IMPOSSIBLE = range(4)
FIRST_DIFFERING, DIFFERING, FIRST_STORED, STORED_WIDTH = range(4)  # columns of `places`


class RankSpace(NamedTuple):
    """What all rows of one thread share."""

    lists: Space
    sums: ColumnSums


class RankedRows(NamedTuple):
    """The answers of some rows, end to end."""

    begun: Values  # (R, n) what the answers of a row share
    values: Floats  # (R, rank, 1 + m): h and every t
    counts: Integers  # (R,)
    kinds: Integers  # (R,)
    bounds: Floats  # (R,) every answer of a higher h is listed
    which: Integers  # the variables in which a row's answers differ, row by row
    stored: Any  # their values
    places: Integers  # (R + 1, 4) where a row's parts begin; the last row: where the next begins


class Ranking(NamedTuple):
    """What the functions below need while rows are ranked."""

    plan: CompiledPlan
    limits: Floats  # (m,), or one where there are none: t is 0 then
    wanted: int  # answers that are required; `results` may hold more
    tables: Any  # `points.EvaluatedTables`
    block: DualBlock
    tilts: TiltBlock
    space: RankSpace
    packing: Packing
    results: RankedRows


def make_rank_space(states: int, constraints: int, plan: Any, rank: int) -> RankSpace:
    """Arrays that all rows of one thread share.

    Python calls it once a thread, so numpy makes them: as compiled code it took 0.7 s to compile.
    """
    columns, components = T + constraints + len(RANKS.scales), len(plan.component_start)
    room = max(4 * rank, 1024)
    longest = max(states, room)  # of what is sorted
    walk = uncompiled(make_walk)(plan)
    lists = uncompiled(make_space)(plan, walk, constraints, states, rank, RANKS.products)
    scratch = ColumnRoom(
        np.empty(longest),
        np.empty(longest, dtype=np.int64),
        np.empty(longest, dtype=np.int64),
        np.empty((states, columns)),
        np.empty(states, dtype=np.int64),
        np.empty(rank),
        np.empty(columns),
        np.empty((states // BLOCK + 2, columns)),
    )
    sums = ColumnSums(
        States(
            np.empty((states, columns)),
            np.empty(states, dtype=np.int64),
            lists.states.nodes,
            lists.states.counts,
        ),
        np.zeros(components + 1, dtype=np.int64),
        np.zeros(components + 1, dtype=np.int64),
        np.zeros(components + 1, dtype=np.int64),
        scratch,
        np.empty(room),
        np.empty((room, 2), dtype=np.int64),
        np.zeros(components + 1, dtype=np.int64),
    )
    return RankSpace(lists, sums)


def for_rank(space: RankSpace, rank: int, sums: int) -> RankSpace:
    """The same space for a lower rank; a row may form so many sums."""
    lists, columns = space.lists, space.sums
    lists.states.counts[SUM_LIMIT] = sums
    scratch = columns.scratch._replace(heap=columns.scratch.heap[:rank])
    return RankSpace(lists._replace(heap=lists.heap[:rank]), columns._replace(scratch=scratch))


@njit(cache=True, nogil=True, counted=False)
def _as_columns(space, listed, mu, gap, rest):
    """The states of loss <= gap as columns: (how many lists have several, the loss of the others).

    A list of a single state is a constant, whose node is kept; it may lose something, where what
    loses nothing was dropped. `rest` is what such lists leave. -1: a list has no state.
    """
    lists, sums = space.lists, space.sums
    states, values, node = lists.states.values, sums.states.values, sums.states.node
    constraints, top, active, lost = len(mu), 0, np.int64(0), 0.0
    sums.shared[:] = FREE
    for c in range(listed):
        low, last = top, 0.0
        for i in range(lists.walk.lows[c], lists.walk.highs[c]):
            if states[i, LOSS] > gap:
                continue
            cost = states[i, COST]
            values[top, H] = -cost
            for j in range(constraints):
                values[top, T + j] = -states[i, FIRST_T + j]
            for s in range(len(RANKS.scales)):
                values[top, T + constraints + s] = -cost - RANKS.scales[s] * (
                    states[i, LOSS] - cost
                )
            node[top], last = lists.states.node[i], states[i, LOSS]
            top += 1
        if top - low > 1:
            sums.lows[active], sums.highs[active] = low, top
            active += 1
        elif top == low:
            return -1, 0.0
        else:
            lost += last
            for j in range(constraints):
                rest[j] += values[low, T + j]
            sums.shared[c] = node[low]
            top = low
    sums.states.counts[STATE_COUNT] = top
    return active, lost


@njit(cache=True, nogil=True)
def _within(space, listed, mu, gap, rank):
    """The best `rank` feasible answers within the gap: (how many, price); -1 without room.

    h of an answer is, but for a constant, what is found of it less the price.
    """
    sums = space.sums
    values, counts = sums.states.values, sums.states.counts
    constraints = len(mu)
    rest = space.lists.rest.copy()
    active, lost = _as_columns(space, listed, mu, gap, rest)
    if active < 0:
        return 0, 0.0
    spent = 0.0
    for j in range(constraints):
        spent += mu[j] * rest[j]
    price = spent + lost
    need = np.empty(values.shape[1])
    need[H] = price - gap
    for j in range(constraints):
        need[T + j] = -rest[j]
    for s in range(len(RANKS.scales)):
        need[T + constraints + s] = lost - gap - (RANKS.scales[s] - 1.0) * spent
    active = merged(active, need, constraints == 1, sums)
    if active < 0:
        return (0 if active == NOTHING else -1), price
    for c in range(active, 2):  # an empty sum is one state of zeros
        top = counts[STATE_COUNT]
        if top + 1 >= len(values):
            return -1, price
        values[top] = 0.0
        sums.states.node[top] = FREE
        sums.order[c], sums.lows[c], sums.highs[c] = c, top, top + 1
        counts[STATE_COUNT] += 1
    return joined(need, constraints, rank, sums), price


@njit(cache=True, nogil=True, counted=False)
def _is_priced(mu, lane):
    for j in range(mu.shape[1]):
        if mu[lane, j] > 0.0:
            return True
    return False


@njit(cache=True, nogil=True, counted=False)
def _listed(ranking, lane, gap, slack):
    """The components' lists of a row within the gap; see `list_components`."""
    mu, limits, tilts = ranking.block.mu, ranking.limits, ranking.tilts
    share, spent, most = RANKS.tilt if _is_priced(mu, lane) else 0.0, 0.0, gap + 2.0 * slack
    for j in range(len(limits)):
        spent += mu[lane, j] * limits[j]
    below = most + tilts.rise[BELOW, lane] - share * spent
    above = most + tilts.rise[ABOVE, lane] + share * spent
    further = Tilt(share, below, above, tilts.drift, tilts.away)
    return list_components(
        ranking.plan, lane, ranking.block, limits, gap + slack, further, ranking.space.lists
    )


@njit(cache=True, nogil=True)
def _ranked_row(ranking, lane, slack, guess):
    """Of one row (kind, how many, the gap within which every answer is listed).

    At least `wanted` answers are listed, if there are so many, and no more than there is room for.
    """
    space, wanted, rank = ranking.space, ranking.wanted, ranking.results.values.shape[1]
    lists, answers, mu = space.lists, space.sums.h, ranking.block.mu[lane]
    counts = lists.states.counts
    cap = largest_gap(ranking.plan, ranking.block, ranking.limits, lane) + slack
    below = np.zeros(RANKS.bins)
    gap = RANKS.first_gap * (1.0 + abs(ranking.block.upper[lane]))
    if guess[GAP] > 0.0:  # the gap is nearly 0 after rows whose answers are all tied
        gap = max(RANKS.list_window * guess[GAP], 1e-3 * gap)
    walked, covered, ceiling, listed, made = -1.0, 0.0, np.inf, np.int64(0), 0
    is_last, price = False, 0.0
    for _ in range(RANKS.rounds):
        gap = min(gap, cap)
        count = 0
        if gap > walked or is_last:
            walked = gap
            listed = _listed(ranking, lane, gap, slack)
            made = counts[NODE_COUNT]
            if listed >= 0 and not is_last and walked < cap:
                count_losses(lists, listed, walked, below)
                if covered == 0.0 and ceiling == np.inf:
                    gap = first_gap(guess, below, walked, wanted)
                    if gap > walked:
                        continue
        if listed >= 0:
            counts[NODE_COUNT] = made
            count, price = _within(space, listed, mu, gap + slack, rank)
        if is_last:
            break
        if listed < 0 or count < 0:
            ceiling, walked = gap, -1.0
            gap = covered + (gap - covered) / 3.0
            if counts[SUM_COUNT] > counts[SUM_LIMIT] or gap - covered <= 1e-3 * ceiling:
                is_last, gap = True, covered  # the answers of that gap were written over
                counts[SUM_COUNT] = -(1 << 40)
            continue
        covered = gap
        if count >= wanted:
            if walked >= cap:
                count_losses(lists, listed, walked, below)  # not yet, or of a walk before
            learn(guess, price - answers[wanted - 1], below, walked, wanted)
            return COMPLETE, count, price - answers[count - 1] if count == rank else gap
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
        counts[SUM_COUNT] = counts[SUM_LIMIT] + 1
    return OVERFLOW, max(0, count), covered - slack


@njit(cache=True, nogil=True, counted=False)
def _as_good(h, count, wanted, size):
    """How many of the answers come before `wanted` or are tied with the last before it."""
    end = min(count, wanted)
    if wanted > 1:
        while end < count and h[end] >= h[wanted - 2] - TIED * (1.0 + size):
            end += 1
    return end


@njit(cache=True, nogil=True)
def _answer_row(ranking, row, lane, guess):
    """Rank the row in a lane, and store its answers."""
    plan, block, results, sums = ranking.plan, ranking.block, ranking.results, ranking.space.sums
    places, next_place = results.places, len(results.counts)
    slack = 4.0 * rounding(block.values, lane, len(plan.buckets))
    kind, answers, gap = IMPOSSIBLE, 0, np.inf
    sums.states.counts[SUM_COUNT] = 0
    if block.kind[lane] != INFEASIBLE:
        is_priced = 1 if _is_priced(block.mu, lane) else 0
        kind, answers, gap = _ranked_row(ranking, lane, slack, guess[is_priced])
    count = _as_good(sums.h, answers, ranking.wanted, abs(block.upper[lane]))
    results.kinds[row], results.counts[row] = kind, count
    results.bounds[row] = block.upper[lane] - gap
    first, low = places[next_place, FIRST_DIFFERING], places[next_place, FIRST_STORED]
    packed = PackedRow(
        results.begun[row], results.which[first:], results.stored[low:], results.values[row]
    )
    differ = pack(plan, sums, count, block.choice, lane, ranking.tables, ranking.packing, packed)
    places[row, FIRST_DIFFERING], places[row, DIFFERING] = first, differ
    places[row, FIRST_STORED], places[row, STORED_WIDTH] = low, padded(count)
    places[next_place, FIRST_DIFFERING] += differ
    places[next_place, FIRST_STORED] += differ * padded(count)


@njit(cache=True, nogil=True, counted=False)
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
def rank_rows(rows, wanted, guess, tables, order, space, results):
    """At least `wanted` best answers of every row, and at most as many as `results` has room for.

    `guess` (2, 4) has averages of earlier rows (`counting.learn`), without and with multipliers;
    `tables` are the functions (`points.EvaluatedTables`), `order` the buckets by their variables.
    Rows that need multipliers wait for others.
    """
    plan, lanes, count = rows.plan, rows.lanes, rows.evidence.shape[1]
    limits = rows.limits if len(rows.limits) > 0 else np.zeros(1)
    block, tilts = make_block(plan, len(limits), lanes), make_tilts(plan, lanes)
    packing = make_packing(order, results.values.shape[1])
    ranking = Ranking(plan, limits, wanted, tables, block, tilts, space, packing, results)
    numbers, is_now = np.zeros(lanes, dtype=np.int64), np.ones(lanes, dtype=np.bool_)
    waiting, left = np.zeros(count, dtype=np.int64), count
    for i in range(count):
        waiting[i] = i
    for attempt in range(2):
        here, left = left, 0
        for start in range(0, here, lanes):
            for lane in range(lanes):
                numbers[lane] = waiting[min(start + lane, here - 1)]
            bound_block(rows, numbers, limits, block)
            used = min(lanes, here - start)
            if _choose(block.mu, used, attempt > 0, is_now):
                tilt(plan, block, tilts)
            block.choice[:] = -1
            complete(plan, block.values, block.choice)
            for lane in range(used):
                if is_now[lane]:
                    _answer_row(ranking, numbers[lane], lane, guess)
                else:
                    waiting[left] = numbers[lane]
                    left += 1
