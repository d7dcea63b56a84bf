"""Compiled sums over assignments as circuits: log-partition, marginals, expectations, samples.

A node is the log of a sum of exponentials; each of its terms adds a constant and other nodes'
values, which come before it. The first nodes are leaves: the numbers of a row. Blocks of rows are
worked on at once, with rows as the innermost axis, so that loops over rows become vectors.

The backward pass gives the derivative of the last node by every leaf: a probability.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit

BLOCK = 32  # rows that are worked on at once
LEAST = -700.0  # the exponential of a smaller number is 0
HALVINGS = 10  # exp(x) is computed as exp(x / 2^10)^(2^10)
SCALE = 0.5**HALVINGS


class CircuitTerms(NamedTuple):
    """Nodes beyond the leaves, in an order in which they can be computed.

    Node `leaves + i` has the terms starts[i] <= t < starts[i + 1]; term t adds constants[t] and the
    values of the nodes operands[places[t]:places[t + 1]]. The whole sum is `base` more than the
    value of node `root`, or `base` where that is -1.
    """

    leaves: int
    starts: Integers  # (N + 1,)
    constants: Floats  # (T,)
    places: Integers  # (T + 1,)
    operands: Integers
    root: int
    base: float


class CircuitRoom(NamedTuple):
    """Working memory for a block of rows."""

    values: Floats  # (leaves + N, BLOCK)
    slopes: Floats  # (leaves + N, BLOCK) derivatives of the root
    shares: Floats  # (T, BLOCK) terms by the largest term of their node
    highest: Floats  # (BLOCK,)
    total: Floats  # (BLOCK,)


@njit(inner=True, nogil=True)
def _room(circuit):
    """Working memory."""
    nodes, terms = circuit.leaves + len(circuit.starts) - 1, len(circuit.constants)
    return CircuitRoom(
        np.zeros((nodes, BLOCK)),
        np.zeros((nodes, BLOCK)),
        np.zeros((terms, BLOCK)),
        np.zeros(BLOCK),
        np.zeros(BLOCK),
    )


@njit(inner=True, nogil=True)
def _exponentials(shares, t, highest, total):
    """Replace row t of `shares` by exp(row - highest), which `total` adds up.

    Sums and products only, so that they become vectors: the polynomial of exp of degree 8 at a
    number that is divided by 2^10, squared ten times. The relative error is below 1e-12.
    """
    for lane in range(BLOCK):
        x = shares[t, lane] - highest[lane]
        y = max(x, LEAST) * SCALE
        e = 1.0 + y * (1.0 / 8)
        e = 1.0 + y * e * (1.0 / 7)
        e = 1.0 + y * e * (1.0 / 6)
        e = 1.0 + y * e * (1.0 / 5)
        e = 1.0 + y * e * (1.0 / 4)
        e = 1.0 + y * e * (1.0 / 3)
        e = 1.0 + y * e * (1.0 / 2)
        e = 1.0 + y * e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e *= e
        e = e if x > LEAST else 0.0
        shares[t, lane] = e
        total[lane] += e


@njit(inner=True, nogil=True)
def _forward(circuit, room):
    """Fill the values of all nodes and the shares of all terms."""
    values, shares, highest, total = room.values, room.shares, room.highest, room.total
    for i in range(len(circuit.starts) - 1):
        first, last = circuit.starts[i], circuit.starts[i + 1]
        for lane in range(BLOCK):
            highest[lane] = -np.inf
            total[lane] = 0.0
        for t in range(first, last):
            constant = circuit.constants[t]
            for lane in range(BLOCK):
                shares[t, lane] = constant
            for place in range(circuit.places[t], circuit.places[t + 1]):
                node = circuit.operands[place]
                for lane in range(BLOCK):
                    shares[t, lane] += values[node, lane]
            for lane in range(BLOCK):
                highest[lane] = max(highest[lane], shares[t, lane])
        node = circuit.leaves + i
        if last == first + 1:
            for lane in range(BLOCK):
                values[node, lane] = shares[first, lane]
                shares[first, lane] = 1.0 if shares[first, lane] > -np.inf else 0.0
            continue
        for lane in range(BLOCK):
            highest[lane] = max(highest[lane], -1e300)
        for t in range(first, last):
            _exponentials(shares, t, highest, total)
        for lane in range(BLOCK):
            values[node, lane] = highest[lane] + np.log(total[lane])


@njit(inner=True, nogil=True)
def _backward(circuit, room):
    """Fill the slopes of all nodes but the root; shares become probabilities of terms."""
    slopes, shares, total = room.slopes, room.shares, room.total
    for i in range(len(circuit.starts) - 2, -1, -1):
        first, last = circuit.starts[i], circuit.starts[i + 1]
        node = circuit.leaves + i
        for lane in range(BLOCK):
            total[lane] = 0.0
        for t in range(first, last):
            for lane in range(BLOCK):
                total[lane] += shares[t, lane]
        for lane in range(BLOCK):
            total[lane] = slopes[node, lane] / total[lane] if total[lane] > 0.0 else 0.0
        for t in range(first, last):
            for lane in range(BLOCK):
                shares[t, lane] *= total[lane]
            for place in range(circuit.places[t], circuit.places[t + 1]):
                operand = circuit.operands[place]
                for lane in range(BLOCK):
                    slopes[operand, lane] += shares[t, lane]


@njit(inner=True, nogil=True)
def _load(circuit, leaves, block, room):
    """Put rows into the lanes, the last one again where rows are missing; compute all values."""
    last = len(leaves) - 1
    for lane in range(BLOCK):
        row = min(block + lane, last)
        for leaf in range(circuit.leaves):
            room.values[leaf, lane] = leaves[row, leaf]
    _forward(circuit, room)


@njit(cache=True, nogil=True)
def sums(circuit, leaves, out, probabilities, means):
    """Of rows of leaves (B, leaves): the log-partition `out` (B,), and what belongs to it.

    `probabilities` (B, leaves) of each leaf; `means` (B,) the expectation of the constants. 0 where
    no assignment is allowed.
    """
    room = _room(circuit)
    slopes = room.slopes
    for block in range(0, len(leaves), BLOCK):
        _load(circuit, leaves, block, room)
        slopes[:] = 0.0
        count = min(BLOCK, len(leaves) - block)
        for lane in range(count):
            total = circuit.base
            if circuit.root >= 0:
                total += room.values[circuit.root, lane]
                slopes[circuit.root, lane] = 1.0 if total > -np.inf else 0.0
            out[block + lane] = total
        _backward(circuit, room)
        for lane in range(count):
            for leaf in range(circuit.leaves):
                probabilities[block + lane, leaf] = slopes[leaf, lane]
            mean = circuit.base if out[block + lane] > -np.inf else 0.0
            for t in range(len(circuit.constants)):
                mean += room.shares[t, lane] * circuit.constants[t]
            means[block + lane] = mean


@njit(cache=True, nogil=True)
def samples(circuit, leaves, uniforms, out):
    """Draw the leaves of an assignment of every row: 1 in `out` (B, N, leaves), else 0.

    A node draws its term by the next of `uniforms` (B, N, draws). Rows without an allowed
    assignment get -1.
    """
    room = _room(circuit)
    waiting = np.zeros(1 + len(circuit.operands), dtype=np.int64)
    for block in range(0, len(leaves), BLOCK):
        _load(circuit, leaves, block, room)
        for lane in range(min(BLOCK, len(leaves) - block)):
            row = block + lane
            total = circuit.base
            if circuit.root >= 0:
                total += room.values[circuit.root, lane]
            for sample in range(out.shape[1]):
                out[row, sample, :] = 0 if total > -np.inf else -1
                if total == -np.inf or circuit.root < 0:
                    continue
                waiting[0], length, drawn = circuit.root, 1, 0
                while length > 0:
                    length -= 1
                    node = waiting[length]
                    if node < circuit.leaves:
                        out[row, sample, node] = 1
                        continue
                    i = node - circuit.leaves
                    uniform = uniforms[row, sample, drawn]
                    t = _drawn(room.shares, circuit.starts[i], circuit.starts[i + 1], lane, uniform)
                    drawn += 1
                    for place in range(circuit.places[t], circuit.places[t + 1]):
                        waiting[length] = circuit.operands[place]
                        length += 1


@njit(inner=True, nogil=True)
def _drawn(shares, first, last, lane, uniform):
    """A term, drawn by its share."""
    total, chosen = 0.0, first
    for t in range(first, last):
        total += shares[t, lane]
    threshold, edge = uniform * total, 0.0
    for t in range(first, last):
        edge += shares[t, lane]
        if shares[t, lane] > 0.0:
            chosen = t
        if edge > threshold:
            return chosen
    return chosen
