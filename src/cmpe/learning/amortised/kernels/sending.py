"""Messages of a block of rows: what every table says to its variables, LANES rows at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import least, load, minus, plus, spread, store, times
from cmpe.core.messages import soft_message

Singles = Any  # float32 arrays; those of numbers by row have LANES columns


class PassTables(NamedTuple):
    """The functions of a model, table after table."""

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
    scale: float


class PassBlock(NamedTuple):
    """LANES rows on their way; `x K + value` numbers the values of variable or axis x."""

    bars: Singles  # (n K, LANES): OUT where a value is not allowed, else -OUT
    fixed: Any  # (n,) whether every row observes the variable
    order: Integers  # tables, those with a variable that is not fixed first
    base: Singles  # (F, LANES): what the others say at the evidence
    beliefs: Singles  # (n K, LANES)
    unary: Singles  # (n K, LANES): theta of single values
    points: Singles  # (n K, LANES)
    sure: Singles  # (n K, LANES): the same, nearly rounded
    messages: Singles  # (A K, LANES)
    cavity: Singles  # (longest table's values, LANES): what its variables heard elsewhere
    work: Singles  # (largest table + K, LANES)
    weights: Singles  # (F, LANES): 1, -mu over the size of theta
    how: Singles  # (6, LANES): T, 1 / T, sharpness, damping, step of mu, lean
    values: Singles  # (F, LANES)
    heads: Singles  # (2 H, LANES): what hidden units read that is the same for all values


@njit(counted=False)
def _listen(model: PassTables, t: int, block: PassBlock, width: int) -> None:
    """What the variables of a table heard elsewhere, into `cavity`."""
    at = 0
    for a in range(model.axes[t], model.axes[t + 1]):
        v = model.owner[a]
        for value in range(model.cards[v]):
            here = v * width + value
            heard = least(load(block.beliefs, here), load(block.bars, here))
            store(block.cavity, at, minus(heard, load(block.messages, a * width + value)))
            at += 1


@njit(counted=False)
def _theta(model: PassTables, block: PassBlock, entry: int) -> Any:
    """h - mu t of one entry."""
    total = times(load(block.weights, 0), spread(model.entries[0, entry]))
    for f in range(1, len(model.constant)):
        total = plus(total, times(load(block.weights, f), spread(model.entries[f, entry])))
    return total


@njit(counted=False)
def _join(model: PassTables, t: int, block: PassBlock) -> None:
    """theta of every entry of a table plus what its variables heard elsewhere, into `work`."""
    begin, low, high = model.starts[t], model.axes[t], model.axes[t + 1]
    if high - low == 2:
        one, two = model.cards[model.owner[low]], model.cards[model.owner[low + 1]]
        for i in range(one):
            for j in range(two):
                e = i * two + j
                heard = plus(load(block.cavity, i), load(block.cavity, one + j))
                store(block.work, e, plus(_theta(model, block, begin + e), heard))
        return
    for e in range(model.starts[t + 1] - begin):
        total, rest, at = _theta(model, block, begin + e), e, 0
        for a in range(low, high):
            at += model.cards[model.owner[a]]
        for a in range(high - 1, low - 1, -1):
            card = model.cards[model.owner[a]]
            at -= card
            total = plus(total, load(block.cavity, at + rest % card))
            rest //= card
        store(block.work, e, total)


@njit(inner=True, counted=False)
def send(model: PassTables, block: PassBlock, live: int) -> None:
    """The first `live` tables speak to all their variables that are not fixed."""
    width = model.unary.shape[2]
    how = load(block.how, 0), load(block.how, 1), load(block.how, 3)
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
