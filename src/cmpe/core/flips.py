"""Compiled loops of the L1 attack on ReLU networks: which inputs to move, how far.

A problem is one image x with a direction: `slope[j]`, the change of the margin per unit of input j.
An input with a positive slope goes down, towards 0, one with a negative slope up, towards 1. All
inputs cost 1 per unit, so the cheapest way to lower a linear margin is to move the input of the
largest |slope| to its bound, then the next one, and the last one partly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy, maximum

BLOCK = 16  # inputs of which one number holds the largest |slope|
RELAXED = {"nnan", "nsz", "reassoc", "contract", "ninf"}


class ReluLayers(NamedTuple):
    """A ReLU network."""

    first: Any  # (inputs, width) the weights of the first layer, transposed
    deep: Any  # every later layer's weights (outputs, inputs), row by row, then its biases
    sizes: Integers  # the widths of all layers after the input


class Images(NamedTuple):
    """Images to be moved."""

    pixels: Floats  # (B, inputs)
    sums: Floats  # (B, units) of all layers
    label: Integers  # (B,) the class to leave
    goals: Floats  # (B,) the margin to reach


class Walks(NamedTuple):
    """Directions to walk in, and where each walk ends."""

    rows: Integers  # (P,) which image moves
    slopes: Any  # (P, inputs)
    lengths: Floats  # (P,) the L1 distance; inf: no flip, or too long
    after: Floats  # (P, units) the sums of all layers there


class Shortest(NamedTuple):
    """The shortest answer of each image so far."""

    lengths: Floats  # (B,)
    pixels: Floats  # (B, inputs)
    sums: Floats  # (B, units)


class WalkRoom(NamedTuple):
    """Working memory of one walk."""

    scores: Any  # (inputs,) |slope| of the inputs that can still move
    tops: Any  # the largest of every block
    moved: Integers  # (inputs,) the inputs moved so far
    to: Floats  # (inputs,) and where to
    base: Floats  # (width,) sums of the first layer before the move
    column: Floats  # (width,) how they change with it
    values: Floats  # (units,) sums of all layers
    active: Floats  # the widest layer's outputs
    logits: Floats


@njit(inner=True, nogil=True)
def _make_room(network, inputs):
    sizes = network.sizes
    return WalkRoom(
        np.empty(inputs, dtype=np.float32),
        np.empty((inputs + BLOCK - 1) // BLOCK, dtype=np.float32),
        np.empty(inputs, dtype=np.int64),
        np.empty(inputs),
        np.empty(sizes[0]),
        np.empty(sizes[0]),
        np.empty(sizes.sum()),
        np.empty(maximum(sizes)),
        np.empty(sizes[-1]),
    )


@njit(inner=True, nogil=True, fastmath=RELAXED)
def score(image, slope, scores, tops):
    """|slope| of every input that can still move, 0 elsewhere; the largest of every block."""
    n = len(image)
    for j in range(n):
        pace = slope[j]
        room = image[j] if pace > 0 else 1.0 - image[j]
        scores[j] = abs(pace) if room > 0.0 else np.float32(0.0)
    for b in range(len(tops)):
        best = np.float32(0.0)
        for j in range(b * BLOCK, min(n, (b + 1) * BLOCK)):
            best = max(best, scores[j])
        tops[b] = best


@njit(inner=True, nogil=True, fastmath=RELAXED)
def take(scores, tops):
    """The input with the largest score, taken out; -1 where all are 0."""
    largest = np.float32(0.0)
    for b in range(len(tops)):
        largest = max(largest, tops[b])
    if largest <= 0.0:
        return -1
    block = 0
    while block < len(tops) - 1 and tops[block] < largest:
        block += 1
    first, end = block * BLOCK, min(len(scores), (block + 1) * BLOCK)
    place = first
    while place < end - 1 and scores[place] < largest:
        place += 1
    scores[place] = 0.0
    best = np.float32(0.0)
    for j in range(first, end):
        best = max(best, scores[j])
    tops[block] = best
    return place


@njit(inner=True, nogil=True, fastmath=RELAXED)
def dot(a, b):
    """sum a b."""
    total = 0.0
    for h in range(len(a)):
        total += a[h] * b[h]
    return total


@njit(inner=True, nogil=True)
def forward(network, room):
    """Logits from the first layer's sums, which stand at the head of `values` and stay there."""
    deep, sizes, values, active = network.deep, network.sizes, room.values, room.active
    start, at, last = 0, 0, len(sizes) - 1
    for layer in range(last):
        width, out = sizes[layer], sizes[layer + 1]
        sums, below = values[start : start + width], active[:width]
        for h in range(width):
            below[h] = max(sums[h], 0.0)
        above = values[start + width : start + width + out]
        biases = deep[at + out * width : at + out * (width + 1)]
        for k in range(out):
            above[k] = biases[k] + dot(deep[at + k * width : at + (k + 1) * width], below)
        at += out * (width + 1)
        start += width
    tail = values[start : start + sizes[last]]
    for k in range(len(tail)):
        room.logits[k] = tail[k]


@njit(inner=True, nogil=True)
def lead(logits, label):
    """F_label - the largest other."""
    best = -1
    for k in range(len(logits)):
        if k != label and (best < 0 or logits[k] > logits[best]):
            best = k
    return logits[label] - logits[best]


@njit(inner=True, nogil=True)
def margin_at(share, change, label, network, room):
    """The margin when `share` of `change` is added to an input whose weights are `column`."""
    moved = share * change
    for h in range(len(room.base)):
        room.values[h] = room.base[h] + moved * room.column[h]
    forward(network, room)
    return lead(room.logits, label)


@njit(inner=True, nogil=True)
def crossing(low, high, goal, change, label, network, room):
    """The share at which the margin falls to `goal`: false position, halving the stuck end.

    `low` and `high` are margins less the goal at shares 0 and 1, high <= 0 < low. At the share
    returned the margin was evaluated, and is at the goal or below.
    """
    left, right, stuck = 0.0, 1.0, 0
    tight = 1e-9 * (low - high)
    for _ in range(60):
        if high > -tight or right - left < 1e-12:
            break
        share = (left * high - right * low) / (high - low)
        if not left < share < right:
            share = 0.5 * (left + right)
        here = margin_at(share, change, label, network, room) - goal
        if here <= 0.0:
            right, high = share, here
            low = 0.5 * low if stuck == 1 else low
            stuck = 1
        else:
            left, low = share, here
            high = 0.5 * high if stuck == -1 else high
            stuck = -1
    return right


@njit(cache=True, nogil=True)
def walk(network, images, walks, reach, shortest):
    """From each image along its inputs in order of |slope|, until the margin is at its goal.

    Margins are those of the network, not of a linearisation. A walk ends when it is longer than
    `reach` times the shortest answer of its image, which `shortest` keeps.
    """
    room = _make_room(network, len(network.first))
    for p in range(len(walks.rows)):
        row = walks.rows[p]
        copy(images.sums[row], room.values)
        limit = reach * shortest.lengths[row]
        count, length = follow(network, images, row, walks.slopes[p], limit, room)
        copy(room.values, walks.after[p])
        walks.lengths[p] = length
        if length < shortest.lengths[row]:
            shortest.lengths[row] = length
            copy(room.values, shortest.sums[row])
            answer = shortest.pixels[row]
            copy(images.pixels[row], answer)
            for i in range(count):
                answer[room.moved[i]] = room.to[i]


@njit(inner=True, nogil=True)
def follow(network, images, row, slope, limit, room):
    """One walk: how many inputs moved (`moved`, `to`), and the L1 length, inf without a flip."""
    image, label, goal = images.pixels[row], images.label[row], images.goals[row]
    base, values, width = room.base, room.values, len(room.base)
    score(image, slope, room.scores, room.tops)
    forward(network, room)
    margin = lead(room.logits, label)
    count, length = 0, 0.0
    while margin > goal:
        j = take(room.scores, room.tops)
        if j < 0 or length > limit:
            return count, np.inf
        for h in range(width):
            base[h], room.column[h] = values[h], network.first[j, h]
        target = 0.0 if slope[j] > 0 else 1.0
        change = target - image[j]
        then = margin_at(1.0, change, label, network, room)
        if then > margin:  # the slope was wrong there (equal: units are yet to turn on)
            for h in range(width):
                values[h] = base[h]
            continue
        if then <= goal:
            share = crossing(margin - goal, then - goal, goal, change, label, network, room)
            if share < 1.0:
                change *= share
                target = min(max(image[j] + change, 0.0), 1.0)
            margin_at(1.0, change, label, network, room)
            then = goal
        room.moved[count] = j
        room.to[count] = target
        count += 1
        length += abs(change)
        margin = then
    return count, length


@njit(cache=True, nogil=True)
def secants(sums, rows, after, local, slopes):
    """(relu(a') - relu(a)) / (a' - a) of every hidden unit, blended with relu'(a') by `local`.

    a = sums[rows[p]] and a' = after[p]; where they are equal the slope is relu'(a').
    """
    for p in range(len(rows)):
        then, now, out = sums[rows[p]], after[p], slopes[p]
        for h in range(len(out)):
            a, b = then[h], now[h]
            there = 1.0 if b > 0.0 else 0.0
            mean = there if a == b else (max(b, 0.0) - max(a, 0.0)) / (b - a)
            out[h] = mean + local * (there - mean)


@njit(cache=True, nogil=True)
def shares(network, images, towards, out):
    """The share of the way from the images' sums to `towards` at which a row is at its goal.

    Rows that are not at their goal at the end of the way keep 1.
    """
    room = _make_room(network, len(network.first))
    for p in range(len(out)):
        label, goal = images.label[p], images.goals[p]
        for h in range(len(room.base)):
            room.base[h] = images.sums[p, h]
            room.column[h] = towards[p, h] - room.base[h]
        low = margin_at(0.0, 1.0, label, network, room) - goal
        high = margin_at(1.0, 1.0, label, network, room) - goal
        out[p] = 1.0
        if low > 0.0 >= high:
            out[p] = crossing(low, high, goal, 1.0, label, network, room)


@njit(cache=True, nogil=True, fastmath=RELAXED)
def distances(images, rows, changed, out):
    """sum |changed[p] - images[rows[p]]|."""
    for p in range(len(rows)):
        image, answer, total = images[rows[p]], changed[p], 0.0
        for j in range(len(image)):
            total += abs(answer[j] - image[j])
        out[p] = total


@njit(cache=True, nogil=True)
def outward(before, after, levels):
    """Eight bits of `after`, away from `before`; a level that is met within 1e-9 is that level."""
    for i in range(len(after)):
        exact = 255.0 * after[i]
        if after[i] > before[i]:
            exact = np.ceil(exact - 1e-9)
        elif after[i] < before[i]:
            exact = np.floor(exact + 1e-9)
        else:
            exact = np.rint(exact)
        levels[i] = np.uint8(min(max(exact, 0.0), 255.0))
