"""The pass of a message network, row by row: the same numbers as `networks.MessageNetwork`.

On a core a row alone costs torch a thousand calls. Here it is one loop over tables. What log of
1 + exp(-x) is, is read from a kept curve (`STEPS` a unit, straight lines in between: 2e-6 off), and
tanh is a continued fraction (1e-4 off), so that compiled loops take several hidden units at once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.compiling.functions import njit

STEPS = 256
REACH = 20  # where log(1 + exp(-x)) is 0
LARGEST = 4.97  # where the fraction of tanh reaches 1
OUT = -1e4  # as in `tables`
SOFT = np.log1p(np.exp(-np.arange(STEPS * REACH + 2) / STEPS))


class PassTables(NamedTuple):
    """The functions of a model, table after table."""

    cards: Integers  # (n,)
    constant: Floats  # (F,)
    unary: Floats  # (F, n, K)
    entries: Floats  # (F, E)
    starts: Integers  # (T + 1,) of each table's entries
    axes: Integers  # (T + 1,) of each table's axes
    owner: Integers  # (A,) the variable of each axis
    gram: Floats  # (F, F): products of the functions' entries, over their number
    scale: float


class PassWeights(NamedTuple):
    """The weights of a network of R rounds, as they are used."""

    temperature: Floats  # (R,)
    sharpness: Floats
    damping: Floats
    node_in: Any  # (R, 6, H): float32, as the next two
    node_bias: Any  # (R, H)
    node_out: Any
    price_in: Floats  # (R, 3, P)
    price_bias: Floats
    price_out: Floats
    price_step: Floats  # (R,)
    first_price: float


@njit(counted=False)
def _softer(curve: Floats, x: float, y: float, temperature: float) -> float:
    """T log(exp(x / T) + exp(y / T))."""
    at = abs(x - y) * (STEPS / temperature)
    if at >= STEPS * REACH:
        return max(x, y)
    low = int(at)
    more: float = curve[low] + (at - low) * (curve[low + 1] - curve[low])
    return max(x, y) + temperature * more


@njit(counted=False, fastmath=True)
def _tanh(x: Any) -> Any:
    """Lambert's continued fraction, cut after seven terms; float32, so that eight go at once."""
    x = min(max(x, np.float32(-LARGEST)), np.float32(LARGEST))
    s = x * x
    above = x * (np.float32(135135.0) + s * (np.float32(17325.0) + s * (np.float32(378.0) + s)))
    below = np.float32(62370.0) + s * (np.float32(3150.0) + np.float32(28.0) * s)
    return above / (np.float32(135135.0) + s * below)


@njit(counted=False)
def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(counted=False)
def _size(gram: Floats, weights: Floats) -> float:
    total = 1e-8
    for f in range(len(weights)):
        for g in range(len(weights)):
            total += weights[f] * weights[g] * gram[f, g]
    return math.sqrt(total)


@njit(counted=False)
def _joint(model: PassTables, t: int, weights: Floats, cavity: Floats, work: Floats) -> None:
    """theta of every entry of a table plus what its axes heard elsewhere, into `work`."""
    begin, low = model.starts[t], model.axes[t]
    if model.axes[t + 1] - low == 2:
        one, two = model.cards[model.owner[low]], model.cards[model.owner[low + 1]]
        for i in range(one):
            for j in range(two):
                e = i * two + j
                total = cavity[low, i] + cavity[low + 1, j]
                for f in range(len(weights)):
                    total += weights[f] * model.entries[f, begin + e]
                work[e] = total
        return
    for e in range(model.starts[t + 1] - begin):
        total, rest = 0.0, e
        for f in range(len(weights)):
            total += weights[f] * model.entries[f, begin + e]
        for a in range(model.axes[t + 1] - 1, low - 1, -1):
            card = model.cards[model.owner[a]]
            total += cavity[a, rest % card]
            rest //= card
        work[e] = total


@njit(counted=False)
def _soft(
    work: Floats, size: int, where: tuple[int, int, int], temperature: float, curve: Floats
) -> float:
    """T log of the sum of exp(w / T) over entries of one value of an axis: runs of `stride`, the
    first at `first`, each `period` after the last."""
    first, stride, period = where
    total = -np.inf
    for begin in range(first, size, period):
        for e in range(begin, begin + stride):
            total = _softer(curve, total, work[e], temperature)
    return total


@njit(counted=False)
def _send(
    model: PassTables,
    weights: Floats,
    how: tuple[float, float],
    state: tuple[Floats, Floats, Floats],
    curve: Floats,
) -> None:
    """What every table says to its axes: new messages (A, K), by temperature and damping."""
    temperature, damping = how
    messages, cavity, work = state
    for t in range(len(model.starts) - 1):
        size = model.starts[t + 1] - model.starts[t]
        _joint(model, t, weights, cavity, work)
        stride = 1
        for a in range(model.axes[t + 1] - 1, model.axes[t] - 1, -1):
            card = model.cards[model.owner[a]]
            top = -np.inf
            for value in range(card):
                where = (value * stride, stride, card * stride)
                said = _soft(work, size, where, temperature, curve) - cavity[a, value]
                work[size + value] = said
                top = max(top, said)
            for value in range(card):
                new = work[size + value] - top
                messages[a, value] = new + damping * (messages[a, value] - new)
            stride *= card


@njit(counted=False)
def _listen(
    model: PassTables, row: Integers, beliefs: Floats, messages: Floats, cavity: Floats
) -> None:
    """What each axis is without its own table's message; nothing but OUT where evidence rules."""
    for a in range(len(model.owner)):
        v = model.owner[a]
        for value in range(model.cards[v]):
            here = beliefs[v, value] if row[v] < 0 or row[v] == value else OUT
            cavity[a, value] = here - messages[a, value]


@njit(counted=False)
def _believe(
    model: PassTables, weights: Floats, messages: Floats, unary: Floats, beliefs: Floats
) -> None:
    """Beliefs: theta of each value, kept in `unary`, and all messages."""
    for v in range(len(model.cards)):
        for value in range(model.cards[v]):
            total = 0.0
            for f in range(len(weights)):
                total += weights[f] * model.unary[f, v, value]
            unary[v, value] = beliefs[v, value] = total
    for a in range(len(model.owner)):
        v = model.owner[a]
        for value in range(model.cards[v]):
            beliefs[v, value] += messages[a, value]


@njit(counted=False)
def _points(
    cards: Integers, row: Integers, sharpness: float, beliefs: Floats, points: Floats
) -> None:
    """Soft-max of the beliefs times the sharpness; all weight on a value that is given."""
    for v in range(len(cards)):
        top, total = -np.inf, 0.0
        for value in range(cards[v]):
            points[v, value] = 1.0 if row[v] == value else 0.0
            top = max(top, beliefs[v, value])
        if row[v] >= 0:
            continue
        for value in range(cards[v]):
            points[v, value] = math.exp(sharpness * (beliefs[v, value] - top))
            total += points[v, value]
        for value in range(cards[v]):
            points[v, value] /= total


@njit(counted=False)
def _value(model: PassTables, f: int, points: Floats) -> float:
    """Function f at `points`."""
    total: float = model.constant[f]
    for v in range(len(model.cards)):
        for value in range(model.cards[v]):
            total += points[v, value] * model.unary[f, v, value]
    for t in range(len(model.starts) - 1):
        begin, low = model.starts[t], model.axes[t]
        if model.axes[t + 1] - low == 2:
            one, two = model.owner[low], model.owner[low + 1]
            e = begin
            for i in range(model.cards[one]):
                for j in range(model.cards[two]):
                    total += points[one, i] * points[two, j] * model.entries[f, e]
                    e += 1
            continue
        for e in range(model.starts[t + 1] - begin):
            rest, part = e, model.entries[f, begin + e]
            for a in range(model.axes[t + 1] - 1, low - 1, -1):
                v = model.owner[a]
                part *= points[v, rest % model.cards[v]]
                rest //= model.cards[v]
            total += part
    return total


@njit(counted=False, fastmath=True)
def _correct(
    model: PassTables,
    row: Integers,
    layer: tuple[Floats, Floats, Floats],
    about: tuple[float, float],
    state: tuple[Floats, Floats, Floats],
    hidden: Floats,
) -> None:
    """Add to the belief of each value of a free variable what the small network says of it."""
    node_in, node_bias, node_out = layer
    beliefs, unary, points = state
    price, room = about
    for h in range(len(node_bias)):  # what is the same for all values
        hidden[0, h] = node_bias[h] + price * node_in[3, h] + room * node_in[4, h]
        hidden[1, h] = node_in[1, h] + price * node_in[5, h]
    for v in range(len(model.cards)):
        if row[v] >= 0:
            continue
        mean = 0.0
        for value in range(model.cards[v]):
            mean += points[v, value] * beliefs[v, value]
        for value in range(model.cards[v]):
            centre = np.float32(min(max(beliefs[v, value] - mean, -10.0), 10.0))
            theta, chance = np.float32(unary[v, value]), np.float32(points[v, value])
            total = np.float32(0.0)
            for h in range(len(node_bias)):
                seen = hidden[0, h] + theta * hidden[1, h]
                seen += centre * node_in[0, h] + chance * node_in[2, h]
                total += node_out[h] * _tanh(seen)
            beliefs[v, value] += total


@njit(counted=False)
def _reprice(net: PassWeights, k: int, raw: Floats, room: Floats, free: float) -> None:
    """Move the raw multipliers by how much room each limit leaves."""
    for j in range(len(raw)):
        total = net.price_step[k] * room[j]
        for h in range(net.price_bias.shape[1]):
            seen = net.price_bias[k, h] + raw[j] * net.price_in[k, 0, h]
            seen += room[j] * net.price_in[k, 1, h] + free * net.price_in[k, 2, h]
            total += net.price_out[k, h] * _tanh(np.float32(seen))
        raw[j] -= total


@njit(counted=False)
def _row(
    model: PassTables,
    net: PassWeights,
    asked: tuple[Integers, Floats],
    said: tuple[Floats, Floats],
    scratch: tuple[Floats, Floats, Floats, Floats, Floats, Floats, Floats, Floats],
    curve: Floats,
) -> None:
    """Beliefs (n, K) and raw multipliers (m,) after the last round, into `said`."""
    row, limits = asked
    beliefs, raw = said
    messages, cavity, unary, points, room, weights, work, hidden = scratch
    free = 0
    for v in range(len(row)):
        free += row[v] < 0
    beliefs[:] = 0.0
    messages[:] = 0.0
    raw[:] = net.first_price
    for k in range(len(net.temperature)):
        weights[0], price = 1.0, 0.0
        for j in range(len(raw)):
            weights[1 + j] = -_softplus(raw[j])
            price -= weights[1 + j]
        size = _size(model.gram, weights)
        for f in range(len(weights)):
            weights[f] /= size
        _listen(model, row, beliefs, messages, cavity)
        damping = net.damping[k] if k else 0.0
        _send(model, weights, (net.temperature[k], damping), (messages, cavity, work), curve)
        _believe(model, weights, messages, unary, beliefs)
        _points(model.cards, row, net.sharpness[k], beliefs, points)
        every = 0.0
        for j in range(len(raw)):
            room[j] = (limits[j] - _value(model, 1 + j, points)) / (model.scale * max(1, free))
            every += room[j]
        if net.node_bias.shape[1]:
            layer = (net.node_in[k], net.node_bias[k], net.node_out[k])
            _correct(model, row, layer, (price, every), (beliefs, unary, points), hidden)
        _reprice(net, k, raw, room, free / len(row))


@njit()
def message_passes(
    model: PassTables,
    net: PassWeights,
    given: Integers,
    limits: Floats,
    curve: Floats,
) -> tuple[Floats, Floats]:
    """Logits (B, n, K) and multipliers (B, m) of evidence (B, n), -1 where free, and q (B, m)."""
    count, n = given.shape
    width, axes, m = model.unary.shape[2], len(model.owner), limits.shape[1]
    largest = 0
    for t in range(len(model.starts) - 1):
        largest = max(largest, model.starts[t + 1] - model.starts[t])
    logits, prices = np.zeros((count, n, width)), np.zeros((count, m))
    scratch = (
        np.zeros((axes, width)), np.zeros((axes, width)), np.zeros((n, width)),
        np.zeros((n, width)), np.zeros(m), np.zeros(m + 1), np.zeros(largest + width),
        np.zeros((2, net.node_bias.shape[1]), dtype=np.float32),
    )  # fmt: skip
    for b in range(count):
        _row(model, net, (given[b], limits[b]), (logits[b], prices[b]), scratch, curve)
        for j in range(m):
            prices[b, j] = _softplus(prices[b, j])
    return logits * net.sharpness[-1], prices
