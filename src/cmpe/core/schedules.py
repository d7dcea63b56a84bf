"""Messages of a schedule on the factor graph of h - mu t, LANES rows at a time.

Round k sends on theta = (h - sum of mu_j t_j) / its size soft max-marginals

    m_fi(a) <- T_k log of the sum over a' with a'_i = a of
               exp((theta_f(a') + sum over j != i of b_j(a'_j) - m_fj(a'_j)) / T_k)

with damping d_k, all tables at once. b_j is theta of the values of j plus all messages to it. Then
the raw multipliers, of which mu is the softplus, are lowered by a step s_k times q - t plus a
*lean*. q - t is measured in mean spreads of a table of h and per free variable; t is evaluated at
an answer that is nearly rounded, since t of the relaxed answer leaves room that is never used.

Numbers are float32, a lane for each row (`core.lanes`). A variable that is observed in all rows of
a block is *fixed*: tables of fixed variables are evaluated once, and no message is sent to one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Assignments, Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import (
    LANES,
    exp_down,
    least,
    load,
    minus,
    most,
    over,
    plus,
    spread,
    store,
    times,
)
from cmpe.core.messages import soft_message

OUT = -1e4  # the belief of a value that is not allowed
SURE = 32.0  # sharpness of an answer that is nearly rounded
LEAN_UNIT = 10.0  # a lean of 1: the root of the number of free variables over this
LOG_WARMTH, DAMPING_LOGIT, LOG_STEP = range(3)  # of `PassSchedule.rounds`,
CONSTANT, BY_SHARE, BY_PRICE = range(3)  # and the terms of each
WARMTH, INVERSE, DAMPING, STEP, LEAN = range(5)  # rows of `PassBlock.now`

Singles = Any  # float32 arrays; those of numbers by row have LANES columns


class PassTables(NamedTuple):
    """The functions of a model, table after table; those of one variable are `unary`."""

    cards: Integers  # (n,)
    constant: Singles  # (F,)
    unary: Singles  # (F, n, K)
    entries: Singles  # (F, E)
    starts: Integers  # (T + 1,) of each table's entries
    axes: Integers  # (T + 1,) of each table's axes
    owner: Integers  # (A,) the variable of each axis
    first: Integers  # (n + 1,) of each variable's axes in `own`
    own: Integers  # (A,) axes, variable after variable
    gram: Floats  # (F, F): products of the functions' entries, over their number
    scale: float  # the mean spread of a table of h


class PassSchedule(NamedTuple):
    """The numbers of R rounds. Each is linear in two features of a row: its share of free
    variables, and mu / (1 + mu)."""

    rounds: Floats  # (3, R, 3) log T, logit of the damping, log of the step: 1 and both features
    lean: Floats  # (3,) how far answers may go over the limit: 1 and both features
    first: Floats  # (3,) the first raw multiplier: 1, the room of the uniform answer, the share


class Questions(NamedTuple):
    """LANES rows of one block: their evidence and limits, and their current multipliers."""

    given: Integers  # (LANES, n): values, -1 where free
    limits: Floats  # (LANES, m)
    free: Floats  # (LANES,): how many variables are free
    raw: Floats  # (LANES, m)


class PassBlock(NamedTuple):
    """Working memory for LANES rows; row `x K + value` is of a value of variable or axis x."""

    bars: Singles  # (n K, LANES): OUT where a value is not allowed, else -OUT
    fixed: Any  # (n,) whether every row observes the variable
    order: Integers  # tables: first those with a variable that is not fixed, then the others
    base: Singles  # (F, LANES): each function's sum of the other tables, and its constant
    beliefs: Singles  # (n K, LANES)
    sure: Singles  # (n K, LANES): the answer, nearly rounded
    messages: Singles  # (A K, LANES)
    cavity: Singles  # (longest table's values, LANES): messages to its variables from other tables
    work: Singles  # (largest table + K, LANES)
    weights: Singles  # (F, LANES): 1, -mu over the size of theta
    now: Singles  # (5, LANES): T, 1 / T, damping, step of mu, lean
    values: Singles  # (F, LANES)


class Passed(NamedTuple):
    """The results for B rows."""

    values: Assignments  # (B, n); given ones stay
    multipliers: Floats  # (B, m): mu
    rooms: Floats  # (B, m): q - t of the uniform answer per free variable, in mean spreads


# --- multipliers ---


@njit(inner=True, counted=False)
def softplus(x: float) -> float:
    """log(1 + exp(x)): a multiplier of its raw number."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(counted=False)
def _room(model: PassTables, block: PassBlock, rows: Questions, lane: int, j: int) -> float:
    """q - t of limit j per free variable, in mean spreads."""
    left = rows.limits[lane, j] - block.values[1 + j, lane]
    room: float = left / (model.scale * max(1.0, rows.free[lane]))
    return room


@njit(inner=True, counted=False)
def _first_prices(
    model: PassTables, block: PassBlock, schedule: PassSchedule, rows: Questions
) -> None:
    """The first raw multipliers, by the room of the uniform answer."""
    same, by_room, by_share = schedule.first
    for lane in range(LANES):
        share = math.tanh(rows.free[lane] / len(model.cards))
        for j in range(rows.raw.shape[1]):
            room = _room(model, block, rows, lane, j)
            rows.raw[lane, j] = same + by_room * math.tanh(room) + by_share * share


@njit(inner=True, counted=False)
def _number(how: Floats, which: int, k: int, share: float, dear: float) -> Any:
    """One number of round k, by the share of free variables and by how large the price is."""
    by_share, by_price = how[which, k, BY_SHARE], how[which, k, BY_PRICE]
    return how[which, k, CONSTANT] + by_share * share + by_price * dear


@njit(inner=True, counted=False)
def _weigh(
    model: PassTables, block: PassBlock, schedule: PassSchedule, k: int, rows: Questions
) -> None:
    """Prepare round k: the weights 1 and -mu over the size of theta; T, damping, step, lean."""
    functions, how, lean = len(model.constant), schedule.rounds, schedule.lean
    for lane in range(LANES):
        total, price = 1e-8, 0.0
        for f in range(functions):
            one = 1.0 if f == 0 else -softplus(rows.raw[lane, f - 1])
            price += max(0.0, -one)
            for g in range(functions):
                two = 1.0 if g == 0 else -softplus(rows.raw[lane, g - 1])
                total += one * two * model.gram[f, g]
        size = math.sqrt(total)
        for f in range(functions):
            one = 1.0 if f == 0 else -softplus(rows.raw[lane, f - 1])
            block.weights[f, lane] = np.float32(one / size)
        free, dear = rows.free[lane], price / (1.0 + price)
        share = free / len(model.cards)
        warmth = math.exp(_number(how, LOG_WARMTH, k, share, dear))
        damping = _number(how, DAMPING_LOGIT, k, share, dear)
        step = math.exp(_number(how, LOG_STEP, k, share, dear))
        more = (lean[0] + lean[1] * share + lean[2] * dear) / LEAN_UNIT
        block.now[WARMTH, lane] = np.float32(warmth)
        block.now[INVERSE, lane] = np.float32(1.0 / warmth)
        block.now[DAMPING, lane] = np.float32(1.0 / (1.0 + math.exp(-damping)) if k else 0.0)
        block.now[STEP, lane] = np.float32(step)
        block.now[LEAN, lane] = np.float32(more / math.sqrt(max(1.0, free)))


@njit(inner=True, counted=False)
def _reprice(model: PassTables, block: PassBlock, rows: Questions) -> None:
    """Move the raw multipliers by the room that each limit leaves, and the lean."""
    for lane in range(LANES):
        for j in range(rows.raw.shape[1]):
            room = _room(model, block, rows, lane, j) + block.now[LEAN, lane]
            rows.raw[lane, j] -= block.now[STEP, lane] * room


# --- messages ---


@njit(counted=False)
def _theta(block: PassBlock, numbers: Singles, at: int) -> Any:
    """h - mu t of one entry of tables (F, .)."""
    total = times(load(block.weights, 0), spread(numbers[0, at]))
    for f in range(1, len(numbers)):
        total = plus(total, times(load(block.weights, f), spread(numbers[f, at])))
    return total


@njit(counted=False)
def _listen(model: PassTables, t: int, block: PassBlock, width: int) -> None:
    """Put the messages to a table's variables from other tables into `cavity`."""
    at = 0
    for a in range(model.axes[t], model.axes[t + 1]):
        v = model.owner[a]
        for value in range(model.cards[v]):
            here = v * width + value
            heard = least(load(block.beliefs, here), load(block.bars, here))
            store(block.cavity, at, minus(heard, load(block.messages, a * width + value)))
            at += 1


@njit(counted=False)
def _join(model: PassTables, t: int, block: PassBlock) -> None:
    """Put theta of every entry of a table plus the messages in `cavity` into `work`."""
    begin, low, high = model.starts[t], model.axes[t], model.axes[t + 1]
    if high - low == 2:
        one, two = model.cards[model.owner[low]], model.cards[model.owner[low + 1]]
        for i in range(one):
            for j in range(two):
                e = i * two + j
                heard = plus(load(block.cavity, i), load(block.cavity, one + j))
                store(block.work, e, plus(_theta(block, model.entries, begin + e), heard))
        return
    for e in range(model.starts[t + 1] - begin):
        total, rest, at = _theta(block, model.entries, begin + e), e, 0
        for a in range(low, high):
            at += model.cards[model.owner[a]]
        for a in range(high - 1, low - 1, -1):
            card = model.cards[model.owner[a]]
            at -= card
            total = plus(total, load(block.cavity, at + rest % card))
            rest //= card
        store(block.work, e, total)


@njit(inner=True, counted=False)
def _send(model: PassTables, block: PassBlock, live: int) -> None:
    """Messages of the first `live` tables to all their variables that are not fixed."""
    width = model.unary.shape[2]
    how = load(block.now, WARMTH), load(block.now, INVERSE), load(block.now, DAMPING)
    for i in range(live):
        t = block.order[i]
        size = model.starts[t + 1] - model.starts[t]
        _listen(model, t, block, width)
        _join(model, t, block)
        stride, heard = 1, 0
        for a in range(model.axes[t], model.axes[t + 1]):
            heard += model.cards[model.owner[a]]
        for a in range(model.axes[t + 1] - 1, model.axes[t] - 1, -1):
            card = model.cards[model.owner[a]]
            heard -= card
            if not block.fixed[model.owner[a]]:
                axis = a * width, card, stride, heard
                soft_message(block.messages, block.work, block.cavity, size, axis, how)
            stride *= card


@njit(counted=False)
def _believe(model: PassTables, block: PassBlock) -> None:
    """Beliefs: theta of each value plus all messages to it; and the answer, nearly rounded."""
    width = model.unary.shape[2]
    unary, steep = model.unary.reshape(len(model.constant), -1), spread(np.float32(SURE))
    for v in range(len(model.cards)):
        if block.fixed[v]:
            continue
        top = spread(np.float32(-1e30))
        for value in range(model.cards[v]):
            here = v * width + value
            total = _theta(block, unary, here)
            for i in range(model.first[v], model.first[v + 1]):
                total = plus(total, load(block.messages, model.own[i] * width + value))
            store(block.beliefs, here, total)
            top = most(top, least(total, load(block.bars, here)))
        every = spread(np.float32(0.0))
        for value in range(model.cards[v]):
            here = v * width + value
            below = minus(least(load(block.beliefs, here), load(block.bars, here)), top)
            near = exp_down(times(steep, below))
            store(block.sure, here, near)
            every = plus(every, near)
        for value in range(model.cards[v]):
            here = v * width + value
            store(block.sure, here, over(load(block.sure, here), every))


# --- values of the functions ---


@njit(counted=False)
def _table_value(model: PassTables, block: PassBlock, f: int, t: int) -> Any:
    """Table t of function f at the answer that is nearly rounded."""
    width, begin = model.unary.shape[2], model.starts[t]
    low, high = model.axes[t], model.axes[t + 1]
    total = spread(np.float32(0.0))
    if high - low == 2:
        v, w, e = model.owner[low], model.owner[low + 1], begin
        for i in range(model.cards[v]):
            part = spread(np.float32(0.0))
            for j in range(model.cards[w]):
                more = times(load(block.sure, w * width + j), spread(model.entries[f, e]))
                part = plus(part, more)
                e += 1
            total = plus(total, times(part, load(block.sure, v * width + i)))
        return total
    for e in range(model.starts[t + 1] - begin):
        rest, part = e, spread(model.entries[f, begin + e])
        for a in range(high - 1, low - 1, -1):
            v = model.owner[a]
            part = times(part, load(block.sure, v * width + rest % model.cards[v]))
            rest //= model.cards[v]
        total = plus(total, part)
    return total


@njit(counted=False)
def _evaluate(model: PassTables, block: PassBlock, low: int, high: int, fixed: bool) -> None:
    """Add tables low to high to `values`, and the unary tables of variables that are `fixed`."""
    width = model.unary.shape[2]
    for f in range(1, len(model.constant)):
        total = load(block.values, f)
        for v in range(len(model.cards)):
            if block.fixed[v] == fixed:
                for value in range(model.cards[v]):
                    here = load(block.sure, v * width + value)
                    total = plus(total, times(here, spread(model.unary[f, v, value])))
        for i in range(low, high):
            total = plus(total, _table_value(model, block, f, block.order[i]))
        store(block.values, f, total)


# --- the pass ---


@njit(counted=False)
def _begin(model: PassTables, block: PassBlock, rows: Questions) -> int:
    """Fill in bars, the uniform answer, `fixed` and `order`; how many tables are not fixed."""
    width = model.unary.shape[2]
    rows.free[:] = 0.0
    for v in range(len(model.cards)):
        block.fixed[v] = True
        for lane in range(LANES):
            seen = rows.given[lane, v] if model.cards[v] > 1 else 0
            block.fixed[v] &= seen >= 0
            rows.free[lane] += seen < 0
            for value in range(model.cards[v]):
                here, barred = v * width + value, seen >= 0 and seen != value
                block.bars[here, lane] = OUT if barred else -OUT
                even = 1.0 / model.cards[v] if seen < 0 else 0.0
                block.sure[here, lane] = 1.0 if seen == value else even
    block.beliefs[:] = 0.0
    block.messages[:] = 0.0
    count, last = 0, len(model.starts) - 1
    dead = last
    for t in range(last):
        observed = True
        for a in range(model.axes[t], model.axes[t + 1]):
            observed &= block.fixed[model.owner[a]]
        if observed:
            dead -= 1
            block.order[dead] = t
        else:
            block.order[count] = t
            count += 1
    return count


@njit(counted=False)
def _copy(source: Singles, target: Singles) -> None:
    for row in range(len(source)):
        store(target, row, load(source, row))


@njit(counted=False)
def _read(
    model: PassTables, beliefs: Singles, lane: int, row: Integers, answer: Assignments
) -> None:
    """The value of the greatest belief of each free variable, the first of equals."""
    width = model.unary.shape[2]
    for v in range(len(model.cards)):
        answer[v] = max(row[v], 0)
        if row[v] < 0:
            for value in range(1, model.cards[v]):
                if beliefs[v * width + value, lane] > beliefs[v * width + answer[v], lane]:
                    answer[v] = value


@njit()
def message_passes(
    model: PassTables,
    schedule: PassSchedule,
    questions: tuple[Integers, Floats],
    work: tuple[PassBlock, Questions],
    out: Passed,
) -> None:
    """Answer rows: `questions` has evidence (B, n), -1 where free, and q (B, m)."""
    given, limits = questions
    block, rows = work
    count, tables = len(given), len(model.starts) - 1
    for begin in range(0, count, LANES):
        for lane in range(LANES):
            row = min(begin + lane, count - 1)
            rows.given[lane], rows.limits[lane] = given[row], limits[row]
        live = _begin(model, block, rows)
        for f in range(len(model.constant)):
            store(block.values, f, spread(model.constant[f]))
        _evaluate(model, block, live, tables, True)
        _copy(block.values, block.base)
        _evaluate(model, block, 0, live, False)
        for lane in range(min(LANES, count - begin)):
            for j in range(limits.shape[1]):
                out.rooms[begin + lane, j] = _room(model, block, rows, lane, j)
        _first_prices(model, block, schedule, rows)
        for k in range(schedule.rounds.shape[1]):
            _weigh(model, block, schedule, k, rows)
            _send(model, block, live)
            _believe(model, block)
            _copy(block.base, block.values)
            _evaluate(model, block, 0, live, False)
            _reprice(model, block, rows)
        for lane in range(min(LANES, count - begin)):
            _read(model, block.beliefs, lane, rows.given[lane], out.values[begin + lane])
            for j in range(limits.shape[1]):
                out.multipliers[begin + lane, j] = softplus(rows.raw[lane, j])


def room_for(model: PassTables) -> tuple[PassBlock, Questions]:
    """Arrays for a block of rows."""
    n, width, functions = len(model.cards), model.unary.shape[2], len(model.constant)
    values = np.concatenate([[0], np.cumsum(model.cards[model.owner])])
    longest = int(np.diff(values[model.axes]).max(initial=1))
    largest = int(np.diff(model.starts).max(initial=1))

    def lanes(rows: int) -> Singles:
        return np.zeros((rows, LANES), dtype=np.float32)

    block = PassBlock(
        bars=lanes(n * width),
        fixed=np.zeros(n, dtype=np.bool_),
        order=np.zeros(len(model.starts), dtype=np.int64),
        base=lanes(functions),
        beliefs=lanes(n * width),
        sure=lanes(n * width),
        messages=lanes(len(model.owner) * width),
        cavity=lanes(longest),
        work=lanes(largest + width),
        weights=lanes(functions),
        now=lanes(5),
        values=lanes(functions),
    )
    limits = LANES, functions - 1
    given = np.zeros((LANES, n), dtype=np.int64)
    return block, Questions(given, np.zeros(limits), np.zeros(LANES), np.zeros(limits))
