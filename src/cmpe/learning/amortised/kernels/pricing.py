"""Multipliers of a block of rows on their way, and the numbers of a round that depend on them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats
from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import LANES
from cmpe.learning.amortised.kernels.sending import PassBlock, PassTables, Singles

LEAN_UNIT = 10.0  # a lean of 1: the root of the number of free variables over this, in mean slopes
Asked = tuple[Floats, Floats, Floats]  # q (LANES, m), free variables (LANES,), raw mu (LANES, m)


class PassWeights(NamedTuple):
    """The weights of a network of R rounds, as they are used."""

    how: Floats  # (4, R, 3): log T, log sharpness, logit of damping, log of what steps of mu are
    # multiplied by; each by `free` and by price
    node_in: Singles  # (R, 7, H)
    node_bias: Singles  # (R, H)
    node_out: Singles
    price_in: Floats  # (R, 3, P)
    price_bias: Floats
    price_out: Floats
    price_step: Floats  # (R,)
    lean: Floats  # (3,): of what mu follows; by `free`, by price
    first: Floats  # (4, P): by the room of the uniform answer, by `free`, bias, out
    first_price: float
    sure: float  # sharpness of the answer whose t is compared with q; 0: as sharp as the others


@njit(inner=True, counted=False)
def softplus(x: float) -> float:
    """log(1 + exp(x)): a multiplier of its raw number."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(inner=True, counted=False)
def weigh(gram: Floats, net: PassWeights, asked: Asked, k: int, block: PassBlock) -> None:
    """What round k begins with: 1 and -mu over the size of theta; T, sharpness, damping; the size
    of steps of mu, and how far they lean."""
    how, lean = net.how, net.lean
    _, free, raw = asked
    for lane in range(LANES):
        total, price = 1e-8, 0.0
        for f in range(len(gram)):
            one = 1.0 if f == 0 else -softplus(raw[lane, f - 1])
            price += max(0.0, -one)
            for g in range(len(gram)):
                two = 1.0 if g == 0 else -softplus(raw[lane, g - 1])
                total += one * two * gram[f, g]
        size = math.sqrt(total)
        for f in range(len(gram)):
            one = 1.0 if f == 0 else -softplus(raw[lane, f - 1])
            block.weights[f, lane] = np.float32(one / size)
        share, dear = free[lane] / len(block.fixed), price / (1.0 + price)
        temperature = math.exp(how[0, k, 0] + how[0, k, 1] * share + how[0, k, 2] * dear)
        sharpness = math.exp(how[1, k, 0] + how[1, k, 1] * share + how[1, k, 2] * dear)
        damping = how[2, k, 0] + how[2, k, 1] * share + how[2, k, 2] * dear
        block.how[0, lane] = np.float32(temperature)
        block.how[1, lane] = np.float32(1.0 / temperature)
        block.how[2, lane] = np.float32(sharpness)
        block.how[3, lane] = np.float32(1.0 / (1.0 + math.exp(-damping)) if k else 0.0)
        step = math.exp(how[3, k, 0] + how[3, k, 1] * share + how[3, k, 2] * dear)
        block.how[4, lane] = np.float32(net.price_step[k] * step)
        more = (lean[0] + lean[1] * share + lean[2] * dear) / LEAN_UNIT
        block.how[5, lane] = np.float32(more / math.sqrt(max(1.0, free[lane])))


@njit(counted=False)
def _room(model: PassTables, block: PassBlock, asked: Asked, lane: int, j: int) -> float:
    """(q - t) of limit j a free variable, in mean slopes."""
    left = asked[0][lane, j] - block.values[1 + j, lane]
    room: float = left / (model.scale * max(1.0, asked[1][lane]))
    return room


@njit(inner=True, counted=False)
def first_prices(model: PassTables, block: PassBlock, net: PassWeights, asked: Asked) -> None:
    """The first raw multipliers, by the room of the uniform answer."""
    _, free, raw = asked
    for lane in range(LANES):
        share = free[lane] / len(model.cards)
        for j in range(raw.shape[1]):
            room, total = _room(model, block, asked, lane, j), net.first_price
            for h in range(net.first.shape[1]):
                seen = net.first[2, h] + room * net.first[0, h] + share * net.first[1, h]
                total += net.first[3, h] * math.tanh(seen)
            raw[lane, j] = total


@njit(inner=True, counted=False)
def reprice(
    model: PassTables,
    block: PassBlock,
    net: PassWeights,
    k: int,
    asked: Asked,
) -> None:
    """Move the raw multipliers by how much room each limit leaves; heads of the correction."""
    _, free, raw = asked
    for lane in range(LANES):
        price, every, share = 0.0, 0.0, free[lane] / len(model.cards)
        for j in range(raw.shape[1]):
            room = _room(model, block, asked, lane, j)
            price, every = price + softplus(raw[lane, j]), every + room
            total = block.how[4, lane] * (room + block.how[5, lane])
            for h in range(net.price_bias.shape[1]):
                seen = net.price_bias[k, h] + raw[lane, j] * net.price_in[k, 0, h]
                seen += room * net.price_in[k, 1, h]
                seen += share * net.price_in[k, 2, h]
                total += net.price_out[k, h] * math.tanh(seen)
            raw[lane, j] -= total
        hidden = net.node_bias.shape[1]
        for h in range(hidden):
            same = net.node_bias[k, h] + price * net.node_in[k, 3, h]
            same += every * net.node_in[k, 4, h] + share * net.node_in[k, 6, h]
            block.heads[h, lane] = np.float32(same)
            block.heads[hidden + h, lane] = np.float32(
                net.node_in[k, 1, h] + price * net.node_in[k, 5, h]
            )
