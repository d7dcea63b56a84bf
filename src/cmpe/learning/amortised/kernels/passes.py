"""The pass of a message network, LANES rows at a time: the numbers of `networks.MessageNetwork`.

On a core a row alone costs torch a thousand calls; here a block of rows is one loop over tables.
Numbers are float32, a lane for each row (`core.lanes`). What evidence fixes in all rows of a
block is left out: tables of fixed variables count once, and nothing is said to a fixed variable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.arrays import Floats, Integers
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
    tanh,
    times,
)
from cmpe.learning.amortised.kernels.pricing import (
    Asked,
    PassWeights,
    first_prices,
    reprice,
    softplus,
    weigh,
)
from cmpe.learning.amortised.kernels.sending import PassBlock, PassTables, Singles, send

OUT = -1e4  # as in `tables`
FARTHEST = 10.0  # a belief is at most so far from the mean where a network reads it


@njit(counted=False)
def _believe(model: PassTables, block: PassBlock, sure: float) -> None:
    """Beliefs: theta of each value and all messages; their soft-max, and a sure one beside it."""
    width = model.unary.shape[2]
    steep = spread(np.float32(sure)) if sure > 0.0 else load(block.how, 2)
    for v in range(len(model.cards)):
        if block.fixed[v]:
            continue
        top = spread(np.float32(-1e30))
        for value in range(model.cards[v]):
            here = v * width + value
            total = times(load(block.weights, 0), spread(model.unary[0, v, value]))
            for f in range(1, len(model.constant)):
                total = plus(total, times(load(block.weights, f), spread(model.unary[f, v, value])))
            store(block.unary, here, total)
            for i in range(model.first[v], model.first[v + 1]):
                total = plus(total, load(block.messages, model.own[i] * width + value))
            store(block.beliefs, here, total)
            top = most(top, least(total, load(block.bars, here)))
        every, all_sure = spread(np.float32(0.0)), spread(np.float32(0.0))
        for value in range(model.cards[v]):
            here = v * width + value
            below = minus(least(load(block.beliefs, here), load(block.bars, here)), top)
            chance, near = exp_down(times(load(block.how, 2), below)), exp_down(times(steep, below))
            store(block.points, here, chance)
            store(block.sure, here, near)
            every, all_sure = plus(every, chance), plus(all_sure, near)
        for value in range(model.cards[v]):
            here = v * width + value
            store(block.points, here, over(load(block.points, here), every))
            store(block.sure, here, over(load(block.sure, here), all_sure))


@njit(counted=False)
def _table_value(model: PassTables, block: PassBlock, f: int, t: int) -> Any:
    """Table t of function f at the answer that is nearly sure."""
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
    """Add to `values` what tables low to high, and variables that are fixed or not, come to."""
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


@njit(counted=False)
def _correct(model: PassTables, block: PassBlock, net: PassWeights, k: int) -> None:
    """Add to the belief of each value what the small network of round k says of it."""
    width, hidden = model.unary.shape[2], net.node_bias.shape[1]
    far = spread(np.float32(FARTHEST))
    near = spread(np.float32(-FARTHEST))
    for v in range(len(model.cards)):
        if block.fixed[v]:
            continue
        mean = spread(np.float32(0.0))
        for value in range(model.cards[v]):
            here = v * width + value
            mean = plus(mean, times(load(block.points, here), load(block.beliefs, here)))
        for value in range(model.cards[v]):
            here = v * width + value
            belief, chance = load(block.beliefs, here), load(block.points, here)
            centre = most(least(minus(belief, mean), far), near)
            theta = load(block.unary, here)
            for h in range(hidden):
                seen = plus(load(block.heads, h), times(theta, load(block.heads, hidden + h)))
                seen = plus(seen, times(centre, spread(net.node_in[k, 0, h])))
                seen = plus(seen, times(chance, spread(net.node_in[k, 2, h])))
                belief = plus(belief, times(spread(net.node_out[k, h]), tanh(seen)))
            store(block.beliefs, here, belief)


@njit(counted=False)
def _begin(model: PassTables, block: PassBlock, given: Integers, free: Floats) -> int:
    """Bars, the uniform answer, what is fixed, the tables that are not; how many are live."""
    width = model.unary.shape[2]
    free[:] = 0.0
    for v in range(len(model.cards)):
        block.fixed[v] = True
        for lane in range(LANES):
            seen = given[lane, v]
            block.fixed[v] &= seen >= 0
            free[lane] += seen < 0
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
        known = True
        for a in range(model.axes[t], model.axes[t + 1]):
            known &= block.fixed[model.owner[a]]
        if known:
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
def _answer(
    model: PassTables,
    net: PassWeights,
    block: PassBlock,
    given: Integers,
    asked: Asked,
) -> None:
    """Beliefs and raw multipliers after the last round."""
    live, tables = _begin(model, block, given, asked[1]), len(model.starts) - 1
    for f in range(len(model.constant)):
        store(block.values, f, spread(model.constant[f]))
    _evaluate(model, block, live, tables, True)
    _copy(block.values, block.base)
    _evaluate(model, block, 0, live, False)
    first_prices(model, block, net, asked)
    for k in range(len(net.node_bias)):
        weigh(model.gram, net, asked, k, block)
        send(model, block, live)
        _believe(model, block, net.sure)
        _copy(block.base, block.values)
        _evaluate(model, block, 0, live, False)
        reprice(model, block, net, k, asked)
        _correct(model, block, net, k)


@njit()
def message_passes(
    model: PassTables, net: PassWeights, given: Integers, limits: Floats
) -> tuple[Integers, Floats]:
    """Values (B, n) and multipliers (B, m) of evidence (B, n), -1 where free, and q (B, m)."""
    count, n = given.shape
    width, m, functions = model.unary.shape[2], limits.shape[1], len(model.constant)
    longest, largest = 1, 1
    for t in range(len(model.starts) - 1):
        values = 0
        for a in range(model.axes[t], model.axes[t + 1]):
            values += model.cards[model.owner[a]]
        longest, largest = max(longest, values), max(largest, model.starts[t + 1] - model.starts[t])
    one, two = (n * width, LANES), (functions, LANES)
    block = PassBlock(
        np.zeros(one, np.float32), np.zeros(n, np.bool_), np.zeros(len(model.starts), np.int64),
        np.zeros(two, np.float32), np.zeros(one, np.float32), np.zeros(one, np.float32),
        np.zeros(one, np.float32), np.zeros(one, np.float32),
        np.zeros((len(model.owner) * width, LANES), np.float32),
        np.zeros((longest, LANES), np.float32), np.zeros((largest + width, LANES), np.float32),
        np.zeros(two, np.float32), np.zeros((6, LANES), np.float32), np.zeros(two, np.float32),
        np.zeros((2 * net.node_bias.shape[1], LANES), np.float32),
    )  # fmt: skip
    answers, prices = np.zeros((count, n), np.int64), np.zeros((count, m))
    rows, q = np.zeros((LANES, n), np.int64), np.zeros((LANES, m))
    free, raw = np.zeros(LANES), np.zeros((LANES, m))
    for begin in range(0, count, LANES):
        for lane in range(LANES):
            row = min(begin + lane, count - 1)
            rows[lane], q[lane] = given[row], limits[row]
        _answer(model, net, block, rows, (q, free, raw))
        for lane in range(min(LANES, count - begin)):
            _read(model, block.beliefs, lane, rows[lane], answers[begin + lane])
            for j in range(m):
                prices[begin + lane, j] = softplus(raw[lane, j])
    return answers, prices


@njit(counted=False)
def _read(model: PassTables, beliefs: Singles, lane: int, row: Integers, answer: Integers) -> None:
    """The value that each variable believes in most, the lower of two; given values stay."""
    width = model.unary.shape[2]
    for v in range(len(model.cards)):
        answer[v] = max(row[v], 0)
        if row[v] < 0:
            for value in range(1, model.cards[v]):
                if beliefs[v * width + value, lane] > beliefs[v * width + answer[v], lane]:
                    answer[v] = value
