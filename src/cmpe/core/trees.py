"""Compiled passes over the leaves of a cutset network, each a tree with its context.

Evidence is a row of n values, -1 where free. One upward pass reduces every variable to a message
over its parent's values; it is shared by maximising, summing, decoding, drawing and marginals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers, Values
from cmpe.core.compiler.functions import njit


class Leaves(NamedTuple):
    """The leaves of a cutset network."""

    cards: Integers  # (n,)
    contexts: Values  # (L, n) the values that a leaf's path fixes, -1 for its tree's variables
    split_variables: Integers
    order: Integers  # (L, n) the variables of each tree, parents first, padded by -1
    parents: Values  # (L, n)
    tables: Floats  # (L, n, K, K) log-weight of z_v = j below z_parent = i (i = 0 for a root)
    weights: Floats  # (L,) log-weights of the leaves


class UpwardPass(NamedTuple):
    """What an upward pass fills in."""

    below: Floats  # (n, K) what lies below each value of each variable
    messages: Floats  # (n, K) of each variable to each value of its parent


@njit(inner=True, nogil=True)
def _make_pass(leaves):
    shape = (len(leaves.cards), leaves.tables.shape[2])
    return UpwardPass(np.zeros(shape), np.zeros(shape))


@njit(inner=True, nogil=True)
def consistent(context, split_variables, row):
    """Whether evidence agrees with a leaf's path."""
    for v in split_variables:
        if context[v] >= 0 and row[v] >= 0 and context[v] != row[v]:
            return False
    return True


@njit(cache=True, nogil=True)
def locate(leaves, rows, out):
    """The leaf of each complete row, -1 if none."""
    for b in range(len(rows)):
        out[b] = -1
        for leaf in range(len(leaves.contexts)):
            if consistent(leaves.contexts[leaf], leaves.split_variables, rows[b]):
                out[b] = leaf
                break


@njit(cache=True, nogil=True)
def evaluate(leaves, rows, located, out):
    """The log-weight of each complete row in its leaf."""
    for b in range(len(rows)):
        leaf = located[b]
        total = leaves.weights[leaf]
        for v in leaves.order[leaf]:
            if v < 0:
                break
            u = leaves.parents[leaf, v]
            total += leaves.tables[leaf, v, rows[b, u] if u >= 0 else 0, rows[b, v]]
        out[b] = total


@njit(inner=True, nogil=True)
def reduced(tables, below, low, high, is_sum):
    """max or log-sum-exp over j of tables[j] + below[j], low <= j < high."""
    best = -np.inf
    for j in range(low, high):
        value = tables[j] + below[j]
        if value > best:
            best = value
    if not is_sum or best == -np.inf:
        return best
    total = 0.0
    for j in range(low, high):
        total += np.exp(tables[j] + below[j] - best)
    return best + np.log(total)


@njit(inner=True, nogil=True)
def upward(leaves, leaf, row, is_sum, passed):
    """The max or the log-sum of a leaf's tree given evidence; fills `passed`."""
    cards, order, parents = leaves.cards, leaves.order[leaf], leaves.parents[leaf]
    tables, below, messages = leaves.tables[leaf], passed.below, passed.messages
    total = 0.0
    for v in order:
        if v < 0:
            break
        for j in range(cards[v]):
            below[v, j] = 0.0
    for place in range(len(order) - 1, -1, -1):
        v = order[place]
        if v < 0:
            continue
        low, high = 0, cards[v]
        if row[v] >= 0:
            low, high = row[v], row[v] + 1
        u = parents[v]
        if u < 0:
            messages[v, 0] = reduced(tables[v, 0], below[v], low, high, is_sum)
            total += messages[v, 0]
            continue
        first, last = 0, cards[u]
        if row[u] >= 0:
            first, last = row[u], row[u] + 1
        for i in range(first, last):
            messages[v, i] = reduced(tables[v, i], below[v], low, high, is_sum)
            below[u, i] += messages[v, i]
    return total


@njit(cache=True, nogil=True)
def leaf_values(leaves, rows, is_sum, out):
    """The largest log-weight, or the log of the total weight, that evidence leaves in each leaf.

    `out` (B, L) is -inf where the path contradicts the evidence.
    """
    passed = _make_pass(leaves)
    for b in range(len(rows)):
        for leaf in range(len(leaves.contexts)):
            out[b, leaf] = -np.inf
            if consistent(leaves.contexts[leaf], leaves.split_variables, rows[b]):
                value = upward(leaves, leaf, rows[b], is_sum, passed)
                out[b, leaf] = leaves.weights[leaf] + value


@njit(cache=True, nogil=True)
def complete(leaves, rows, located, uniforms, out):
    """Complete each row in its leaf: at random by `uniforms` (B, n) in [0, 1), or, if there are
    none (B, 0), by the maximum. The row must have weight there."""
    is_sum = uniforms.shape[1] > 0
    cards, passed = leaves.cards, _make_pass(leaves)
    below, messages = passed.below, passed.messages
    for b in range(len(rows)):
        leaf = located[b]
        for v in range(len(cards)):
            out[b, v] = leaves.contexts[leaf, v]
        upward(leaves, leaf, rows[b], is_sum, passed)
        for v in leaves.order[leaf]:
            if v < 0:
                break
            u = leaves.parents[leaf, v]
            table = leaves.tables[leaf, v, out[b, u] if u >= 0 else 0]
            i = out[b, u] if u >= 0 else 0
            if rows[b, v] >= 0:
                out[b, v] = rows[b, v]
            elif is_sum:
                out[b, v] = drawn(table, below[v], cards[v], messages[v, i], uniforms[b, v])
            else:
                out[b, v] = np.argmax(table[: cards[v]] + below[v, : cards[v]])


@njit(inner=True, nogil=True)
def drawn(tables, below, size, total, uniform):
    """Draw j with probability exp(tables[j] + below[j] - total)."""
    chosen = 0
    left = uniform
    for j in range(size):
        weight = np.exp(tables[j] + below[j] - total)
        if weight > 0.0:
            chosen = j
            if left < weight:
                return j
            left -= weight
    return chosen


@njit(cache=True, nogil=True)
def marginals(leaves, rows, shares, out):
    """Add up P(z_v = j | evidence) over the leaves: `out` (B, n, K).

    `shares` (B, L) is the probability of each leaf given the evidence.
    """
    cards, contexts, passed = leaves.cards, leaves.contexts, _make_pass(leaves)
    below, messages = passed.below, passed.messages
    probability = np.zeros(below.shape)
    for b in range(len(rows)):
        for leaf in range(len(contexts)):
            share = shares[b, leaf]
            if share == 0.0:
                continue
            upward(leaves, leaf, rows[b], True, passed)
            for v in range(len(cards)):
                if contexts[leaf, v] >= 0:
                    out[b, v, contexts[leaf, v]] += share
            for v in leaves.order[leaf]:
                if v < 0:
                    break
                u, tables = leaves.parents[leaf, v], leaves.tables[leaf, v]
                probability[v] = 0.0
                for i in range(cards[u] if u >= 0 else 1):
                    above = probability[u, i] if u >= 0 else 1.0
                    if above == 0.0:
                        continue
                    for j in range(cards[v]):
                        if rows[b, v] < 0 or rows[b, v] == j:
                            weight = np.exp(tables[i, j] + below[v, j] - messages[v, i])
                            probability[v, j] += above * weight
                for j in range(cards[v]):
                    out[b, v, j] += share * probability[v, j]
