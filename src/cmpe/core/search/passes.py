"""The compiled heart of `search`: re-optimise a member of the pool for LANES rows at once."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    STRIDE,
    TARGET,
    VARIABLE,
    WITHIN,
)

MOST_DIGITS = 64


class BucketWalk(NamedTuple):
    """A bucket whose message is computed."""

    values: Any  # (., L) the rows of the member
    chosen: Any  # (., L) the maximisers
    target: int  # the row of the message's first entry
    place: int  # and of its maximiser
    size: int  # entries of the message
    card: int
    depth: int  # axes of the message
    digits: Any  # (depth,) the current entry
    sizes: Any  # (depth,)
    jumps: Any  # how far each input moves when an axis steps
    jump: int  # the first one
    offsets: Any  # (inputs,) the rows of the current entry
    steps: Any  # (inputs,) from one value to the next


@njit(inner=True, nogil=True, counted=False)
def fetch(pool, low, high, entries, state, room):
    """Add the weighted tables of the pieces low..high, given z, into the member's rows."""
    pieces, steps, frozen, tables = pool.pieces, pool.steps, pool.frozen, state.tables
    weights, values, index = room.weights, room.values, room.index
    functions = len(weights)
    for p in range(low, high):
        source, target, count = pieces[p, SOURCE], pieces[p, TARGET], pieces[p, COUNT]
        first = pieces[p, STEPS]
        if pieces[p, FROZEN_COUNT] == 0:
            for e in range(count):
                for c in range(functions):
                    entry = c * entries + source + steps[first + e]
                    add_scaled(values, target + e, tables, entry, weights, c)
            continue
        set_index(index, 0)
        for i in range(pieces[p, FROZEN], pieces[p, FROZEN] + pieces[p, FROZEN_COUNT]):
            move_index(index, frozen[i, STRIDE], state.z, frozen[i, VARIABLE])
        for e in range(count):
            for c in range(functions):
                entry = c * entries + source + steps[first + e]
                add_gathered(values, target + e, tables, entry, index, weights, c)


@njit(inner=True, nogil=True)
def fold(folds, low, high, values):
    """Add own tables into shared ones."""
    for i in range(low, high):
        into, source = folds[i, INTO], folds[i, FROM]
        within, card = folds[i, WITHIN], folds[i, CARDS]
        for e in range(folds[i, ENTRIES]):
            add_row(values, into + e, source + (e // within) % card)


@njit(cache=True, nogil=True, counted=False)
def _best_of_many(bucket, entry, count):
    """Any number of inputs, any cardinality, lane by lane."""
    values, offsets, steps = bucket.values, bucket.offsets, bucket.steps
    for lane in range(LANES):
        best, which = np.float32(-np.inf), 0
        for a in range(bucket.card):
            total = np.float32(0.0)
            for i in range(count):
                total += values[offsets[i] + a * steps[i], lane]
            if total > best:
                best, which = total, a
        values[bucket.target + entry, lane] = best
        bucket.chosen[bucket.place + entry, lane] = which


@njit(cache=True, nogil=True, counted=False, forceinline=True)
def _advance(bucket, count):
    """Move the inputs of a bucket to the next entry of its message."""
    digits, sizes, offsets, axis = bucket.digits, bucket.sizes, bucket.offsets, bucket.depth - 1
    digits[axis] += 1
    while digits[axis] == sizes[axis]:
        digits[axis] = 0
        axis -= 1
        digits[axis] += 1
    for i in range(count):
        offsets[i] += bucket.jumps[bucket.jump + axis * count + i]


def _filler(count: int) -> Any:
    """The loop over a message's entries for buckets of `count` inputs."""
    start, follow = best[count - 1], challenge[count - 1]

    @njit(inner=True, nogil=True, counted=False)
    def fill(bucket):
        values, chosen = bucket.values, bucket.chosen
        offsets, steps = bucket.offsets, bucket.steps
        for entry in range(bucket.size):
            target, place = bucket.target + entry, bucket.place + entry
            start(values, chosen, target, place, offsets, steps)
            for a in range(2, bucket.card):
                follow(values, chosen, target, place, offsets, steps, a)
            if entry + 1 < bucket.size:
                _advance(bucket, count)

    return fill


_one, _two, _three, _four, _five, _six, _seven, _eight = (_filler(count) for count in range(1, 9))


@njit(cache=True, nogil=True, counted=False)
def _many(bucket, count):
    for entry in range(bucket.size):
        _best_of_many(bucket, entry, count)
        if entry + 1 < bucket.size:
            _advance(bucket, count)


@njit(inner=True, nogil=True, counted=False)
def eliminate(pool, low, high, cards, room):
    """Fill every message of buckets low..high with maxima, `chosen` with what attains them."""
    buckets, axes, inputs = pool.buckets, pool.axes, pool.inputs
    offsets, steps, digits, sizes = room.offsets, room.steps, room.digits, room.sizes
    for k in range(low, high):
        count, first, depth = buckets[k, INPUT_COUNT], buckets[k, INPUTS], buckets[k, AXIS_COUNT]
        for i in range(count):
            offsets[i], steps[i] = inputs[first + i, OFFSET], inputs[first + i, STEP]
        for axis in range(depth):
            digits[axis] = 0
            sizes[axis] = cards[axes[buckets[k, AXES] + axis, VARIABLE]]
        bucket = BucketWalk(
            room.values, room.chosen, buckets[k, MESSAGE], buckets[k, CHOSEN], buckets[k, SIZE],
            buckets[k, CARD], depth, digits, sizes, pool.jumps, buckets[k, JUMPS], offsets, steps,
        )  # fmt: skip
        if count == 1:
            _one(bucket)
        elif count == 2:
            _two(bucket)
        elif count == 3:
            _three(bucket)
        elif count == 4:
            _four(bucket)
        elif count == 5:
            _five(bucket)
        elif count == 6:
            _six(bucket)
        elif count == 7:
            _seven(bucket)
        elif count == 8:
            _eight(bucket)
        else:
            _many(bucket, count)


@njit(inner=True, nogil=True, counted=False)
def decode(pool, low, high, z, room):
    """Set every variable of the member to its maximiser, the last eliminated first."""
    buckets, axes, index = pool.buckets, pool.axes, room.index
    for k in range(high - 1, low - 1, -1):
        set_index(index, 0)
        for axis in range(buckets[k, AXES], buckets[k, AXES] + buckets[k, AXIS_COUNT]):
            move_index(index, axes[axis, STRIDE], z, axes[axis, VARIABLE])
        look_up(z, buckets[k, VARIABLE], room.chosen, buckets[k, CHOSEN], index, room.moved)


@njit(inner=True, nogil=True, counted=False)
def evaluate(touched, low, high, layout, state, room):
    """Bring the touched tables with a moved variable, and the totals, up to date with z.

    A table of no variables always counts as moved: its one entry may be -inf.
    """
    z, totals, index, moved = state.z, state.totals, room.index, room.moved
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
            replace(totals, c, state.current, c * count + f, state.tables, base, index)
