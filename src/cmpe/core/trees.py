"""Compiled passes over the leaves of a cutset network, each a tree with its context.

Evidence is a row of n values, -1 where free. `order[leaf]` lists the leaf's tree variables,
parents first, padded by -1; `tables[leaf, v, i, j]` is the log-weight of z_v = j below
z_parent = i (i = 0 for a root); `contexts[leaf]` holds the values that the leaf's path fixes, -1
for the variables of its tree. One upward pass reduces every variable to a message over its
parent's values; it is shared by maximising, summing, decoding, drawing and marginals.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit


@njit(inner=True, nogil=True)
def consistent(context, split_variables, row):
    """Whether evidence agrees with a leaf's path."""
    for v in split_variables:
        if context[v] >= 0 and row[v] >= 0 and context[v] != row[v]:
            return False
    return True


@njit(cache=True, nogil=True)
def locate(contexts, split_variables, rows, out):
    """The leaf of each complete row, -1 if none."""
    for b in range(len(rows)):
        out[b] = -1
        for leaf in range(len(contexts)):
            if consistent(contexts[leaf], split_variables, rows[b]):
                out[b] = leaf
                break


@njit(cache=True, nogil=True)
def evaluate(order, parents, tables, weights, rows, leaves, out):
    """The log-weight of each complete row in its leaf."""
    for b in range(len(rows)):
        leaf = leaves[b]
        total = weights[leaf]
        for v in order[leaf]:
            if v < 0:
                break
            u = parents[leaf, v]
            total += tables[leaf, v, rows[b, u] if u >= 0 else 0, rows[b, v]]
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
def upward(cards, order, parents, tables, row, is_sum, below, messages):
    """Fill what lies `below` each value of each variable (n, K), its message to each value of its
    parent (n, K); return the total of the roots."""
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
def leaf_values(
    cards, contexts, split_variables, order, parents, tables, weights, rows, is_sum, out
):
    """The largest log-weight, or the log of the total weight, that evidence leaves in each leaf:
    `out` (B, L), -inf where the path contradicts it."""
    width = tables.shape[2]
    below, messages = np.zeros((len(cards), width)), np.zeros((len(cards), width))
    for b in range(len(rows)):
        for leaf in range(len(contexts)):
            if consistent(contexts[leaf], split_variables, rows[b]):
                out[b, leaf] = weights[leaf] + upward(
                    cards, order[leaf], parents[leaf], tables[leaf], rows[b], is_sum, below,
                    messages,
                )  # fmt: skip
            else:
                out[b, leaf] = -np.inf


@njit(cache=True, nogil=True)
def complete(cards, contexts, order, parents, tables, rows, leaves, uniforms, out):
    """Complete each row in its leaf: at random by `uniforms` (B, n) in [0, 1), or, if there are
    none (B, 0), by the maximum. The row must have weight there."""
    is_sum = uniforms.shape[1] > 0
    width = tables.shape[2]
    below, messages = np.zeros((len(cards), width)), np.zeros((len(cards), width))
    for b in range(len(rows)):
        leaf = leaves[b]
        for v in range(len(cards)):
            out[b, v] = contexts[leaf, v]
        upward(cards, order[leaf], parents[leaf], tables[leaf], rows[b], is_sum, below, messages)
        for v in order[leaf]:
            if v < 0:
                break
            u = parents[leaf, v]
            i = out[b, u] if u >= 0 else 0
            if rows[b, v] >= 0:
                out[b, v] = rows[b, v]
            elif is_sum:
                out[b, v] = drawn(
                    tables[leaf, v, i], below[v], cards[v], messages[v, i], uniforms[b, v]
                )
            else:
                out[b, v] = np.argmax(tables[leaf, v, i, : cards[v]] + below[v, : cards[v]])


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
def marginals(cards, contexts, order, parents, tables, rows, shares, out):
    """Add up P(z_v = j | evidence) over the leaves: `out` (B, n, K).

    `shares` (B, L) is the probability of each leaf given the evidence.
    """
    width = tables.shape[2]
    below, messages = np.zeros((len(cards), width)), np.zeros((len(cards), width))
    own = np.zeros((len(cards), width))
    for b in range(len(rows)):
        for leaf in range(len(contexts)):
            share = shares[b, leaf]
            if share == 0.0:
                continue
            upward(cards, order[leaf], parents[leaf], tables[leaf], rows[b], True, below, messages)
            for v in range(len(cards)):
                if contexts[leaf, v] >= 0:
                    out[b, v, contexts[leaf, v]] += share
            for v in order[leaf]:
                if v < 0:
                    break
                u = parents[leaf, v]
                own[v] = 0.0
                for i in range(cards[u] if u >= 0 else 1):
                    above = own[u, i] if u >= 0 else 1.0
                    if above == 0.0:
                        continue
                    for j in range(cards[v]):
                        if row_allows(rows[b, v], j):
                            own[v, j] += above * np.exp(
                                tables[leaf, v, i, j] + below[v, j] - messages[v, i]
                            )
                for j in range(cards[v]):
                    out[b, v, j] += share * own[v, j]


@njit(inner=True, nogil=True)
def row_allows(value, j):
    return value < 0 or value == j
