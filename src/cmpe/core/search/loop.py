"""The compiled loop of `search`: a block of LANES rows through a list of passes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import LANES
from cmpe.core.loops import count_up
from cmpe.core.moves import climb, exchange, load, polish
from cmpe.core.repair import repair, shake, unpack
from cmpe.core.search.passes import decode, eliminate, evaluate, fetch, fold
from cmpe.core.search.settings import SETTINGS

BEGIN, CLIMB, RUN, FINISH = range(4)  # kinds of `Task`
BUCKETS, PIECES, FOLDS, TOUCHED, OWN_ROWS, TABLE_ROWS = 0, 2, 4, 6, 8, 9  # of pool.members
FORBIDDEN = 1e4  # nats: what stands for -inf within float32 tables


class State(NamedTuple):
    """A block of rows on its way, one lane each."""

    tables: Any  # (C E, L) float32: h, t_1, ..., each table's largest entry taken off
    z: Any  # (F, L)
    current: Any  # (C T, L) float32: each table's entry at z
    totals: Any  # (C, L): each function at z
    multipliers: Any  # (m, L)
    steps: Any  # (m, L): of the multipliers
    signs: Any  # (m, L): +1 violated last, -1 satisfied; twice that before the first change
    best: Any  # (L,): h of the best feasible assignment
    kept: Any  # (F, L): that assignment
    random: Any  # (L,)
    rest: Any  # (L,): passes to go before the lane is polished again
    block: Any  # (C E, L): the conditioned tables as they are


class Task(NamedTuple):
    """What `work` does to a block: one of BEGIN, CLIMB, RUN and FINISH."""

    kind: int
    starts: Any  # (F, L) where BEGIN and CLIMB stand; -1: anywhere
    passes: Any  # (P,) the members that RUN re-optimises
    heats: Any  # (P,) the noise of each pass
    caps: Any  # (P,) the longest step of a multiplier in each pass
    lanes: Any  # the lanes that FINISH answers
    answers: Any  # (lanes, F) their answers
    repairs: int  # steps of repair at most
    sweeps: int  # of the final polish
    kicks: int


class SearchTables(NamedTuple):
    """What all blocks share."""

    pool: Any
    layout: Any
    graph: Any
    scales: Any  # (m,) mean spread of h per mean spread of t_j


class Scratch(NamedTuple):
    """Room that passes share."""

    values: Any  # (., L) float32: the rows of the largest member
    chosen: Any  # (., L)
    weights: Any  # (C, L) float32
    index: Any  # (1, L)
    moved: Any  # (F,): whether a variable changed in the pass, in any lane
    offsets: Any  # (most inputs,)
    steps: Any
    digits: Any  # (MOST_DIGITS,) the current entry of a message
    sizes: Any  # (MOST_DIGITS,) the cardinalities of its axes
    point: Any
    spare: Any  # another point of the same tables
    notes: Any


@njit(inner=True, nogil=True)
def take_up(layout, state):
    """Fill in the tables from the block; totals become what was taken off.

    -inf becomes a large finite loss in h, and in t a value below all others of its table.
    """
    block, entries = state.block, layout.offsets[-1]
    low, high, zero = np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)
    state.totals[:] = 0.0
    for c in range(len(state.totals)):
        for f in range(len(layout.offsets) - 1):
            first, end = c * entries + layout.offsets[f], c * entries + layout.offsets[f + 1]
            low[:], high[:] = np.inf, -np.inf
            for e in range(first, end):
                for lane in range(LANES):
                    x = block[e, lane]
                    high[lane] = max(high[lane], x)
                    low[lane] = min(low[lane], x if x > -np.inf else np.inf)
            for lane in range(LANES):
                if high[lane] == -np.inf:
                    low[lane], high[lane] = 0.0, 0.0
                spread = high[lane] - low[lane]
                zero[lane] = -10.0 * (1.0 + spread) - (spread if c > 0 else FORBIDDEN)
                state.totals[c, lane] += high[lane]
            for e in range(first, end):
                for lane in range(LANES):
                    x = block[e, lane]
                    state.tables[e, lane] = x - high[lane] if x > -np.inf else zero[lane]


@njit(cache=True, nogil=True)
def _uniform(random, lane):
    x = random[lane]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[lane] = x
    return np.float32(np.int64(x >> np.uint64(40)) * (1.0 / (1 << 23)) - 1.0)


@njit(cache=True, nogil=True)
def _add_noise(values, own, rows, heat, random):
    """Uniform noise on the own tables of a member, `heat` times how rough the lane's tables are:
    the mean difference of neighbouring entries, which shrinks where mu t cancels h. Steps to
    forbidden entries do not count."""
    size = np.zeros(LANES, dtype=np.float32)
    count = 0
    for r in range(0, rows - 1, SETTINGS.roughness_stride):
        count += 1
        for lane in range(LANES):
            rise = abs(values[r + 1, lane] - values[r, lane])
            if rise < SETTINGS.steep:
                size[lane] += rise
    for lane in range(LANES):
        size[lane] *= np.float32(heat / max(count, 1))
    for r in range(own):
        for lane in range(LANES):
            values[r, lane] += size[lane] * _uniform(random, lane)


@njit(cache=True, nogil=True)
def _optimise(pool, m, layout, state, room, heat):
    """One pass: re-optimise member m for every lane."""
    row = pool.members[m]
    values, weights = room.values, room.weights
    for j in range(len(state.multipliers)):
        for lane in range(LANES):
            weights[j + 1, lane] = -state.multipliers[j, lane]
    values[: row[TABLE_ROWS]] = 0.0
    fetch(pool, row[PIECES], row[PIECES + 1], layout.offsets[-1], state, room)
    if heat > 0.0:
        _add_noise(values, row[OWN_ROWS], row[TABLE_ROWS], heat, state.random)
    fold(pool.folds, row[FOLDS], row[FOLDS + 1], values)
    low, high = row[BUCKETS], row[BUCKETS + 1]
    eliminate(pool, low, high, layout.cards, room)
    room.moved[:] = 0
    decode(pool, low, high, state.z, room)
    evaluate(pool.touched, row[TOUCHED], row[TOUCHED + 1], layout, state, room)


@njit(inner=True, nogil=True)
def improve(lane, steps, graph, rules, state, room):
    """Repair and polish what the lane stands at, `steps` at most; keep it if it is the best."""
    point, notes = room.point, room.notes
    unpack(state.block, lane, rules.zeros, point.values)
    for i in range(len(point.z)):
        point.z[i] = state.z[i, lane]
    load(graph, point)
    notes.state[0] = state.random[lane]
    if not repair(steps, graph, rules, point, notes):
        return
    climb(graph, rules, point)
    exchange(0, SETTINGS.tries, graph, rules, point)
    climb(graph, rules, point)
    if point.total[0] > state.best[lane] + rules.gain:
        state.best[lane] = point.total[0]
        for i in range(len(point.z)):
            state.kept[i, lane] = point.z[i]


@njit(cache=True, nogil=True)
def _adapt(j, lane, over, cap, state):
    """A step of multiplier j by the sign of the violation: doubled until the sign first changes,
    then a little longer on the same sign and shorter on a change."""
    before, sign = state.signs[j, lane], 1.0 if over > 0.0 else -1.0
    step = state.steps[j, lane]
    if before * sign < 0.0:
        step *= SETTINGS.shorter
        state.signs[j, lane] = sign
    else:
        step *= SETTINGS.doubled if abs(before) == SETTINGS.doubled else SETTINGS.longer
        state.signs[j, lane] = SETTINGS.doubled * sign if before == 0.0 else before
    step = min(step, cap)
    state.steps[j, lane] = step
    state.multipliers[j, lane] = max(0.0, state.multipliers[j, lane] + sign * step)


@njit(inner=True, nogil=True)
def judge(lane, cap, scales, rules, state):
    """Keep the lane's assignment if it is the best, adapt its multipliers; the h it promises,
    or -inf where it is far from feasible."""
    h, promise, feasible = state.totals[0, lane], state.totals[0, lane], True
    away = 0.0
    for j in range(len(state.multipliers)):
        over = state.totals[j + 1, lane] - rules.limits[j]
        if over > 0.0:
            feasible = False
            promise -= state.multipliers[j, lane] * over
            away += rules.weights[j] * over
        _adapt(j, lane, over, cap * scales[j], state)
    if feasible and h > state.best[lane] + SETTINGS.promise:
        state.best[lane] = h
        for i in range(len(state.z)):
            state.kept[i, lane] = state.z[i, lane]
    return promise if away < SETTINGS.near else -np.inf


@njit(inner=True, nogil=True)
def run(task, shared, rules, state, room):
    """Go through the members in `passes`.

    A promising lane is polished, but no more often than every so much work.
    """
    pool, layout, scales = shared.pool, shared.layout, shared.scales
    pause = SETTINGS.rest * layout.offsets[-1]
    for p in range(len(task.passes)):
        m = task.passes[p]
        _optimise(pool, m, layout, state, room, task.heats[p])
        for lane in range(LANES):
            promise = judge(lane, task.caps[p], scales, rules, state)
            state.rest[lane] -= pool.work[m]
            if promise > state.best[lane] + SETTINGS.promise and state.rest[lane] < 0:
                state.rest[lane] = pause
                improve(lane, task.repairs, shared.graph, rules, state, room)


@njit(inner=True, nogil=True)
def evaluate_all(layout, state, room):
    """Bring every table and the totals up to date with z."""
    room.moved[:] = 1
    tables = count_up(len(layout.offsets) - 1)
    evaluate(tables, 0, len(tables), layout, state, room)


@njit(inner=True, nogil=True)
def begin(starts, layout, rules, state, room):
    """Take up the block and stand at `starts` (F, L); a -1 is replaced by a random value."""
    take_up(layout, state)
    for i in range(len(state.z)):
        for lane in range(LANES):
            x = starts[i, lane]
            if x < 0:
                x = np.int32((_uniform(state.random, lane) + 1.0) * 0.4999 * layout.cards[i])
            state.z[i, lane] = x
    evaluate_all(layout, state, room)
    for lane in range(LANES):
        over = 0.0
        for j in range(len(rules.limits)):
            over = max(over, state.totals[j + 1, lane] - rules.limits[j])
        if over <= 0.0:
            state.best[lane] = state.totals[0, lane]
            for i in range(len(state.z)):
                state.kept[i, lane] = state.z[i, lane]


@njit(inner=True, nogil=True)
def climb_from(starts, layout, graph, unlimited, state, room):
    """Single moves that raise h, limits aside, from where each lane without a start stands."""
    point = room.point
    for lane in range(LANES):
        chosen = False
        for i in range(len(starts)):
            chosen = chosen or starts[i, lane] < 0
        if chosen:
            unpack(state.block, lane, unlimited.zeros, point.values)
            for i in range(len(point.z)):
                point.z[i] = state.z[i, lane]
            load(graph, point)
            climb(graph, unlimited, point)
            for i in range(len(point.z)):
                state.z[i, lane] = point.z[i]
    evaluate_all(layout, state, room)


@njit(inner=True, nogil=True)
def finish(task, graph, rules, state, room):
    """Repair and polish the best of the chosen lanes."""
    point, notes = room.point, room.notes
    for k in range(len(task.lanes)):
        lane = task.lanes[k]
        is_feasible = state.best[lane] > -np.inf
        unpack(state.block, lane, rules.zeros, point.values)
        for i in range(len(point.z)):
            point.z[i] = state.kept[i, lane] if is_feasible else state.z[i, lane]
        load(graph, point)
        notes.state[0] = state.random[lane]
        if repair(task.repairs, graph, rules, point, notes):
            polish(task.sweeps, graph, rules, point, notes)
            if task.kicks > 0:
                shake(task.kicks, graph, rules, point, room.spare, notes)
                polish(task.sweeps, graph, rules, point, notes)
        for i in range(len(point.z)):
            task.answers[k, i] = point.z[i]


@njit(cache=True, nogil=True)
def work(task, shared, rules, state, room):
    """Do one task. The four are one function to compile because they share most of their code."""
    if task.kind == BEGIN:
        begin(task.starts, shared.layout, rules, state, room)
    elif task.kind == CLIMB:
        climb_from(task.starts, shared.layout, shared.graph, rules, state, room)
    elif task.kind == RUN:
        run(task, shared, rules, state, room)
    else:
        finish(task, shared.graph, rules, state, room)
