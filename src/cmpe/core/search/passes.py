"""The compiled heart of `search`: re-optimise a member of the pool for LANES rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import LANES
from cmpe.core.search.lanes import (
    add_gathered,
    add_row,
    add_scaled,
    best,
    challenge,
    look_up,
    move_index,
    replace,
    set_index,
)
from cmpe.core.search.members import (
    AXES,
    AXIS_COUNT,
    CARD,
    CARDS,
    CHOSEN,
    COUNT,
    ENTRIES,
    FROM,
    FROZEN,
    FROZEN_COUNT,
    INPUT_COUNT,
    INPUTS,
    INTO,
    JUMPS,
    MESSAGE,
    OFFSET,
    SIZE,
    SOURCE,
    STEP,
    STEPS,
    TARGET,
    VARIABLE,
    WITHIN,
)

MOST_DIGITS = 64


@njit(inner=True, nogil=True)
def fetch(pieces, low, high, steps, frozen, tables, entries, weights, z, values, index):
    """Add the weighted tables of the pieces low..high, given z, into the member's rows."""
    functions = len(weights)
    for p in range(low, high):
        source, target, count = pieces[p, SOURCE], pieces[p, TARGET], pieces[p, COUNT]
        first = pieces[p, STEPS]
        if pieces[p, FROZEN_COUNT] == 0:
            for e in range(count):
                for c in range(functions):
                    add_scaled(
                        values, target + e, tables, c * entries + source + steps[first + e],
                        weights, c,
                    )  # fmt: skip
            continue
        set_index(index, 0)
        for i in range(pieces[p, FROZEN], pieces[p, FROZEN] + pieces[p, FROZEN_COUNT]):
            move_index(index, frozen[i, 1], z, frozen[i, 0])
        for e in range(count):
            for c in range(functions):
                add_gathered(
                    values, target + e, tables, c * entries + source + steps[first + e], index,
                    weights, c,
                )  # fmt: skip


@njit(inner=True, nogil=True)
def fold(folds, low, high, values):
    """Add own tables into shared ones."""
    for i in range(low, high):
        into, source = folds[i, INTO], folds[i, FROM]
        within, card = folds[i, WITHIN], folds[i, CARDS]
        for e in range(folds[i, ENTRIES]):
            add_row(values, into + e, source + (e // within) % card)


@njit(cache=True, nogil=True)
def _best_of_many(values, chosen, target, place, offsets, steps, count, card):
    """Any number of inputs, any cardinality, lane by lane."""
    for lane in range(LANES):
        best, which = np.float32(-np.inf), 0
        for a in range(card):
            total = np.float32(0.0)
            for i in range(count):
                total += values[offsets[i] + a * steps[i], lane]
            if total > best:
                best, which = total, a
        values[target, lane] = best
        chosen[place, lane] = which


@njit(cache=True, nogil=True, forceinline=True)
def _advance(digits, sizes, depth, jumps, jump, count, offsets):
    """Move the inputs of a bucket to the next entry of its message."""
    axis = depth - 1
    digits[axis] += 1
    while digits[axis] == sizes[axis]:
        digits[axis] = 0
        axis -= 1
        digits[axis] += 1
    for i in range(count):
        offsets[i] += jumps[jump + axis * count + i]


def _filler(count: int) -> Any:
    """The loop over a message's entries for buckets of `count` inputs."""
    start, follow = best[count - 1], challenge[count - 1]

    @njit(inner=True, nogil=True)
    def fill(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
             offsets, steps):  # fmt: skip
        for entry in range(size):
            start(values, chosen, target + entry, place + entry, offsets, steps)
            for a in range(2, card):
                follow(values, chosen, target + entry, place + entry, offsets, steps, a)
            if entry + 1 < size:
                _advance(digits, sizes, depth, jumps, jump, count, offsets)

    return fill


_one, _two, _three, _four, _five, _six, _seven, _eight = (_filler(count) for count in range(1, 9))


@njit(cache=True, nogil=True)
def _many(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump, offsets,
          steps, count):  # fmt: skip
    for entry in range(size):
        _best_of_many(values, chosen, target + entry, place + entry, offsets, steps, count, card)
        if entry + 1 < size:
            _advance(digits, sizes, depth, jumps, jump, count, offsets)


@njit(inner=True, nogil=True)
def eliminate(buckets, low, high, axes, inputs, jumps, cards, values, chosen, offsets, steps):
    """Fill every message of buckets low..high with maxima, `chosen` with what attains them."""
    digits = np.zeros(MOST_DIGITS, dtype=np.int64)
    sizes = np.zeros(MOST_DIGITS, dtype=np.int64)
    for k in range(low, high):
        count, first, jump = buckets[k, INPUT_COUNT], buckets[k, INPUTS], buckets[k, JUMPS]
        depth, card, size = buckets[k, AXIS_COUNT], buckets[k, CARD], buckets[k, SIZE]
        target, place = buckets[k, MESSAGE], buckets[k, CHOSEN]
        for i in range(count):
            offsets[i], steps[i] = inputs[first + i, OFFSET], inputs[first + i, STEP]
        for axis in range(depth):
            digits[axis] = 0
            sizes[axis] = cards[axes[buckets[k, AXES] + axis, 0]]
        if count == 1:
            _one(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 2:
            _two(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 3:
            _three(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 4:
            _four(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 5:
            _five(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 6:
            _six(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 7:
            _seven(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        elif count == 8:
            _eight(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                offsets, steps)  # fmt: skip
        else:
            _many(values, chosen, target, place, size, card, digits, sizes, depth, jumps, jump,
                  offsets, steps, count)  # fmt: skip


@njit(inner=True, nogil=True)
def decode(buckets, low, high, axes, chosen, z, index, moved):
    """Set every variable of the member to its maximiser, the last eliminated first."""
    for k in range(high - 1, low - 1, -1):
        set_index(index, 0)
        for axis in range(buckets[k, AXES], buckets[k, AXES] + buckets[k, AXIS_COUNT]):
            move_index(index, axes[axis, 1], z, axes[axis, 0])
        look_up(z, buckets[k, VARIABLE], chosen, buckets[k, CHOSEN], index, moved)


@njit(inner=True, nogil=True)
def evaluate(touched, low, high, layout, tables, z, current, totals, index, moved):
    """Bring the touched tables with a moved variable, and the totals, up to date with z.

    A table of no variables always counts as moved: its one entry may be -inf.
    """
    functions, count = len(totals), len(layout.offsets) - 1
    entries = layout.offsets[count]
    for t in range(low, high):
        f = touched[t]
        stale = layout.starts[f] == layout.starts[f + 1]
        for s in range(layout.starts[f], layout.starts[f + 1]):
            stale = stale or moved[layout.variables[s]] != 0
        if not stale:
            continue
        set_index(index, 0)
        for s in range(layout.starts[f], layout.starts[f + 1]):
            move_index(index, layout.strides[s], z, layout.variables[s])
        for c in range(functions):
            base = c * entries + layout.offsets[f]
            replace(totals, c, current, c * count + f, tables, base, index)
