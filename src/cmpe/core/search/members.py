"""Compiled layout of one member of the pool: buckets, what flows into them, what to fetch.

A member re-optimises the variables of `order` given all others. Its numbers lie in rows: first a
table of one variable per bucket (the bucket's own), then the tables that two or more of its
variables share, as `pieces` of the problem's tables fill them in, then one message per bucket.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import sort

# Columns of `buckets`.
VARIABLE, CARD, OWN, AXES, AXIS_COUNT, SIZE, MESSAGE, CHOSEN, INPUTS, INPUT_COUNT, JUMPS = range(11)
SOURCE, TARGET, COUNT, STEPS, FROZEN, FROZEN_COUNT = range(6)  # of `pieces`
STRIDE = 1  # column of `axes` and `frozen`, after VARIABLE
TABLE, BUCKET, OPEN = range(3)  # columns of the tables with a variable of the member
OFFSET, STEP = range(2)  # of `inputs`
INTO, FROM, WITHIN, CARDS, ENTRIES = range(5)  # of `folds`


class Tables(NamedTuple):
    """The problem's tables by variable, as arrays (see FlatTables; variables are free ones)."""

    cards: Any  # (F,)
    offsets: Any  # (T + 1,)
    starts: Any  # (T + 1,)
    variables: Any  # (S,)
    strides: Any  # (S,)
    first: Any  # (F + 1,) into `touching`
    touching: Any  # (S,): the tables of each variable


class Member(NamedTuple):
    """One induced subgraph, ready for compiled code."""

    buckets: Any  # (K, 11)
    axes: Any  # (., 2): variable and stride of each axis of each message
    inputs: Any  # (., 2)
    jumps: Any  # how far each input moves when an axis steps and the axes behind it start again
    pieces: Any  # (P, 6)
    steps: Any  # source offset of each entry of a piece
    frozen: Any  # (., 2): variable and stride
    folds: Any  # (., 5): own tables that are added into a shared one
    touched: Any  # tables with a variable of the member
    sizes: Any  # (4,): rows of own tables, of all tables, of everything, of choices


@njit(cache=True, nogil=True)
def _touched(order, position, tables):
    """The tables with a variable of `order`, by the bucket in which they are used."""
    total = 0
    for v in order:
        total += tables.first[v + 1] - tables.first[v]
    touched = np.zeros((total, 3), dtype=np.int64)  # table, bucket, how many variables are open
    count = 0
    for i in range(len(order)):
        v = order[i]
        for at in range(tables.first[v], tables.first[v + 1]):
            f = tables.touching[at]
            inside, earliest = 0, i
            for s in range(tables.starts[f], tables.starts[f + 1]):
                here = position[tables.variables[s]]
                if here >= 0:
                    inside += 1
                    earliest = min(earliest, here)
            if earliest == i:
                touched[count, TABLE], touched[count, BUCKET], touched[count, OPEN] = f, i, inside
                count += 1
    return touched[:count]


@njit(cache=True, nogil=True)
def _scopes(order, position, tables, touched):
    """The scope of every message as bucket numbers, ascending: (starts, flat, parent)."""
    count = len(order)
    parent = np.full(count, -1, dtype=np.int64)
    child, sibling = np.full(count, -1, dtype=np.int64), np.full(count, -1, dtype=np.int64)
    starts = np.zeros(count + 1, dtype=np.int64)
    flat = np.zeros(64 * count + 64, dtype=np.int64)
    mark = np.full(count, -1, dtype=np.int64)
    at, used = 0, 0
    for i in range(count):
        begin = at
        while used < len(touched) and touched[used, BUCKET] == i:
            f = touched[used, TABLE]
            for s in range(tables.starts[f], tables.starts[f + 1]):
                here = position[tables.variables[s]]
                if here > i and mark[here] != i:
                    mark[here] = i
                    flat[at] = here
                    at += 1
            used += 1
        c = child[i]
        while c >= 0:
            for j in range(starts[c], starts[c + 1]):
                here = flat[j]
                if here > i and mark[here] != i:
                    mark[here] = i
                    flat[at] = here
                    at += 1
            c = sibling[c]
        sort(flat[begin:at])
        starts[i + 1] = at
        if at > begin:
            parent[i] = flat[begin]
            sibling[i] = child[parent[i]]
            child[parent[i]] = i
    return starts, flat[:at], parent, child, sibling


@njit(cache=True, nogil=True)
def _lay_buckets(order, tables, starts, flat):
    """Buckets without inputs, and the axes of their messages; rows of messages count from 0."""
    count = len(order)
    buckets = np.zeros((count, 11), dtype=np.int64)
    axes = np.zeros((len(flat), 2), dtype=np.int64)
    own_rows, rows = 0, 0
    for i in range(count):
        size = 1
        for j in range(starts[i + 1] - 1, starts[i] - 1, -1):
            v = order[flat[j]]
            axes[j, VARIABLE], axes[j, STRIDE] = v, size
            size *= tables.cards[v]
        card = tables.cards[order[i]]
        buckets[i, VARIABLE], buckets[i, CARD], buckets[i, OWN] = order[i], card, own_rows
        buckets[i, AXES], buckets[i, AXIS_COUNT] = starts[i], starts[i + 1] - starts[i]
        buckets[i, SIZE], buckets[i, MESSAGE], buckets[i, CHOSEN] = size, rows, rows
        own_rows += card
        rows += size
    return buckets, axes, own_rows, rows


@njit(cache=True, nogil=True)
def _piece_of(f, position, tables, piece, steps, used, frozen, held):
    """Describe table f as part of the member: returns the new ends of `steps` and `frozen`."""
    piece[SOURCE], piece[STEPS], piece[FROZEN] = tables.offsets[f], used, held
    size = 1
    steps[used] = 0
    for s in range(tables.starts[f], tables.starts[f + 1]):
        v, stride = tables.variables[s], tables.strides[s]
        if position[v] < 0:
            frozen[held, VARIABLE], frozen[held, STRIDE] = v, stride
            held += 1
            continue
        card = tables.cards[v]
        for e in range(size - 1, -1, -1):  # the later the axis, the faster it runs
            for a in range(card):
                steps[used + e * card + card - 1 - a] = steps[used + e] + (card - 1 - a) * stride
        size *= card
    piece[COUNT], piece[FROZEN_COUNT] = size, held - piece[FROZEN]
    return used + size, held


@njit(cache=True, nogil=True)
def _strides_within(f, position, tables, strides):
    """Strides of table f's open variables in the member's own copy, by bucket number."""
    size = 1
    for s in range(tables.starts[f + 1] - 1, tables.starts[f] - 1, -1):
        v = tables.variables[s]
        if position[v] >= 0:
            strides[position[v]] = size
            size *= tables.cards[v]


@njit(cache=True, nogil=True)
def _count_inputs(buckets, touched, parent):
    """How many inputs every bucket has: shared tables and messages, else its own table."""
    shared = np.zeros(len(buckets), dtype=np.int64)
    for t in range(len(touched)):
        if touched[t, OPEN] > 1:
            shared[touched[t, BUCKET]] += 1
    jumps, inputs = 0, 0
    for i in range(len(buckets)):
        buckets[i, INPUT_COUNT] = max(shared[i], 1)
    for i in range(len(buckets)):
        if parent[i] >= 0:
            buckets[parent[i], INPUT_COUNT] += 1
    for i in range(len(buckets)):
        buckets[i, INPUTS], buckets[i, JUMPS] = inputs, jumps
        inputs += buckets[i, INPUT_COUNT]
        jumps += buckets[i, INPUT_COUNT] * buckets[i, AXIS_COUNT]
    return inputs, jumps


class Wiring(NamedTuple):
    """A member while the inputs of its buckets are laid out."""

    order: Any  # (K,) the variables
    cards: Any
    starts: Any  # (K + 1,) into flat
    flat: Any  # the scope of every message as bucket numbers
    child: Any  # (K,) the first child of each bucket, -1 for none
    sibling: Any  # (K,) the next child of the same parent
    buckets: Any
    axes: Any
    inputs: Any
    jumps: Any
    strides: Any  # (K,) of one input, by bucket number; 0 elsewhere


@njit(cache=True, nogil=True)
def _jumps_of(wiring, i, slot):
    """Fill in the jumps of input `slot` of bucket i."""
    scope = wiring.flat[wiring.starts[i] : wiring.starts[i + 1]]
    count, back = wiring.buckets[i, INPUT_COUNT], 0
    for k in range(len(scope) - 1, -1, -1):
        stride = wiring.strides[scope[k]]
        wiring.jumps[wiring.buckets[i, JUMPS] + k * count + slot] = stride - back
        back += (wiring.cards[wiring.order[scope[k]]] - 1) * stride


@njit(cache=True, nogil=True)
def _add_messages(wiring, i, slot):
    """The messages that bucket i takes as inputs from `slot` on; offsets are -1 - message row."""
    flat, starts, strides = wiring.flat, wiring.starts, wiring.strides
    c = wiring.child[i]
    while c >= 0:
        for j in range(starts[c], starts[c + 1]):
            strides[flat[j]] = wiring.axes[j, STRIDE]
        at = wiring.buckets[i, INPUTS] + slot
        wiring.inputs[at] = -1 - wiring.buckets[c, MESSAGE], strides[i]
        _jumps_of(wiring, i, slot)
        for j in range(starts[c], starts[c + 1]):
            strides[flat[j]] = 0
        slot += 1
        c = wiring.sibling[c]


@njit(cache=True, nogil=True)
def _extent(touched, tables):
    """Entries and scope sizes of the touched tables, added up."""
    entries, arity = 0, 0
    for t in range(len(touched)):
        f = touched[t, TABLE]
        entries += tables.offsets[f + 1] - tables.offsets[f]
        arity += tables.starts[f + 1] - tables.starts[f]
    return entries, arity


@njit(cache=True, nogil=True)
def lay_out(order, tables):
    """The member that re-optimises the variables of `order` by eliminating them in that order."""
    count = len(order)
    position = np.full(len(tables.cards), -1, dtype=np.int64)
    for i in range(count):
        position[order[i]] = i
    touched = _touched(order, position, tables)
    starts, flat, parent, child, sibling = _scopes(order, position, tables, touched)
    buckets, axes, own_rows, rows = _lay_buckets(order, tables, starts, flat)
    input_count, jump_count = _count_inputs(buckets, touched, parent)
    entries, arity = _extent(touched, tables)
    inputs = np.zeros((input_count, 2), dtype=np.int64)
    jumps = np.zeros(jump_count, dtype=np.int64)
    pieces = np.zeros((len(touched), 6), dtype=np.int64)
    steps, frozen = np.zeros(entries + 1, dtype=np.int64), np.zeros((arity, 2), dtype=np.int64)
    folds = np.zeros((count, 5), dtype=np.int64)
    strides = np.zeros(count, dtype=np.int64)
    wiring = Wiring(
        order, tables.cards, starts, flat, child, sibling, buckets, axes, inputs, jumps, strides
    )
    used, held, folded, local, t = 0, 0, 0, own_rows, 0
    for i in range(count):
        slot = 0
        while t < len(touched) and touched[t, BUCKET] == i:
            f, piece = touched[t, TABLE], pieces[t]
            used, held = _piece_of(f, position, tables, piece, steps, used, frozen, held)
            t += 1
            if touched[t - 1, OPEN] == 1:
                piece[TARGET] = buckets[i, OWN]
                continue
            piece[TARGET] = local
            _strides_within(f, position, tables, strides)
            if slot == 0:
                folds[folded, INTO], folds[folded, FROM] = local, buckets[i, OWN]
                folds[folded, WITHIN], folds[folded, CARDS] = strides[i], buckets[i, CARD]
                folds[folded, ENTRIES] = piece[COUNT]
                folded += 1
            inputs[buckets[i, INPUTS] + slot] = local, strides[i]
            _jumps_of(wiring, i, slot)
            for s in range(tables.starts[f], tables.starts[f + 1]):
                if position[tables.variables[s]] >= 0:
                    strides[position[tables.variables[s]]] = 0
            local += piece[COUNT]
            slot += 1
        if slot == 0:
            inputs[buckets[i, INPUTS]] = buckets[i, OWN], 1
            slot = 1
        _add_messages(wiring, i, slot)
    for i in range(count):
        buckets[i, MESSAGE] += local
    for k in range(input_count):
        if inputs[k, OFFSET] < 0:
            inputs[k, OFFSET] = local - 1 - inputs[k, OFFSET]
    sizes = np.array([own_rows, local, local + rows, rows])
    return Member(
        buckets, axes, inputs, jumps, pieces, steps[:used], frozen[:held], folds[:folded],
        touched[:, TABLE].copy(), sizes,
    )  # fmt: skip
