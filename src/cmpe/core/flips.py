"""Compiled loops of the L1 attack on ReLU networks: which inputs to move, how far.

A problem is one image x with a direction: `slope[j]`, the change of the margin per unit of input j.
An input with a positive slope goes down, towards 0, one with a negative slope up, towards 1. All
inputs cost 1 per unit, so the cheapest way to lower a linear margin is to move the input of the
largest |slope| to its bound, then the next one, and the last one partly.

A network reaches these loops as its first layer, transposed, and `deep`: for every later layer its
weights (outputs, inputs) row by row and then its biases, end to end; `sizes` are the widths of all
layers after the input.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy, maximum

BLOCK = 16  # inputs whose largest |slope| is kept as one number
RELAXED = {"nnan", "nsz", "reassoc", "contract", "ninf"}


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
    found = first
    while found < end - 1 and scores[found] < largest:
        found += 1
    scores[found] = 0.0
    best = np.float32(0.0)
    for j in range(first, end):
        best = max(best, scores[j])
    tops[block] = best
    return found


@njit(inner=True, nogil=True, fastmath=RELAXED)
def dot(a, b):
    """sum a b."""
    total = 0.0
    for h in range(len(a)):
        total += a[h] * b[h]
    return total


@njit(inner=True, nogil=True)
def forward(deep, sizes, values, active, logits):
    """Logits from the first layer's sums, which stand at the head of `values` and stay there."""
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
        logits[k] = tail[k]


@njit(inner=True, nogil=True)
def lead(logits, own):
    """F_own - the largest other, and which one that is."""
    best = -1
    for k in range(len(logits)):
        if k != own and (best < 0 or logits[k] > logits[best]):
            best = k
    return logits[own] - logits[best], best


@njit(inner=True, nogil=True)
def margin_at(share, base, column, change, deep, sizes, values, active, logits, own):
    """The margin when `share` of `change` is added to an input whose weights are `column`."""
    moved = share * change
    for h in range(len(base)):
        values[h] = base[h] + moved * column[h]
    forward(deep, sizes, values, active, logits)
    return lead(logits, own)[0]


@njit(inner=True, nogil=True)
def crossing(low, high, goal, base, column, change, deep, sizes, values, active, logits, own):
    """The share at which the margin falls to `goal`: false position, halving the stuck end.

    `low` and `high` are margins less the goal at shares 0 and 1, high <= 0 < low. The share
    returned is one whose margin was seen to be at the goal or below.
    """
    left, right, stuck = 0.0, 1.0, 0
    tight = 1e-9 * (low - high)
    for _ in range(60):
        if high > -tight or right - left < 1e-12:
            break
        share = (left * high - right * low) / (high - low)
        if not left < share < right:
            share = 0.5 * (left + right)
        here = margin_at(share, base, column, change, deep, sizes, values, active, logits, own)
        here -= goal
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
def walk(images, sums, own, goals, first, deep, sizes, rows, slopes, reach, lengths, after, best):
    """From each image along its inputs in order of |slope|, until the margin is at its goal.

    Margins are those of the network, not of a linearisation. Problem p moves image rows[p] by
    slopes[p]; it fills lengths[p], the L1 distance (inf: no flip, or longer than `reach` times the
    best of its row), and after[p], the sums of all layers there. The shortest answer of each row is
    kept in `best`: its length, the changed image, the sums.
    """
    n, width = first.shape
    shortest, changed, kept = best
    scores = np.empty(n, dtype=np.float32)
    tops = np.empty((n + BLOCK - 1) // BLOCK, dtype=np.float32)
    moved, to = np.empty(n, dtype=np.int64), np.empty(n)
    base, active, logits = np.empty(width), np.empty(maximum(sizes)), np.empty(sizes[-1])
    for p in range(len(rows)):
        row = rows[p]
        image, c, goal, here = images[row], own[row], goals[row], after[p]
        copy(sums[row], here)
        count, length = follow(
            image, c, goal, slopes[p], reach * shortest[row], first, deep, sizes, scores, tops,
            moved, to, base, here, active, logits,
        )  # fmt: skip
        lengths[p] = length
        if length < shortest[row]:
            shortest[row] = length
            copy(here, kept[row])
            answer = changed[row]
            copy(image, answer)
            for i in range(count):
                answer[moved[i]] = to[i]


@njit(inner=True, nogil=True)
def follow(
    image, own, goal, slope, limit, first, deep, sizes, scores, tops, moved, to, base, here,
    active, logits,
):  # fmt: skip
    """One walk: how many inputs moved (`moved`, `to`), and the L1 length, inf without a flip."""
    width = len(base)
    score(image, slope, scores, tops)
    forward(deep, sizes, here, active, logits)
    margin = lead(logits, own)[0]
    count, length = 0, 0.0
    while margin > goal:
        j = take(scores, tops)
        if j < 0 or length > limit:
            return count, np.inf
        for h in range(width):
            base[h] = here[h]
        target = 0.0 if slope[j] > 0 else 1.0
        change = target - image[j]
        then = margin_at(1.0, base, first[j], change, deep, sizes, here, active, logits, own)
        if then > margin:  # the slope was wrong there (equal: units are yet to turn on)
            for h in range(width):
                here[h] = base[h]
            continue
        if then <= goal:
            share = crossing(
                margin - goal, then - goal, goal, base, first[j], change, deep, sizes, here,
                active, logits, own,
            )  # fmt: skip
            if share < 1.0:
                change *= share
                target = min(max(image[j] + change, 0.0), 1.0)
            margin_at(1.0, base, first[j], change, deep, sizes, here, active, logits, own)
            then = goal
        moved[count] = j
        to[count] = target
        count += 1
        length += abs(change)
        margin = then
    return count, length


@njit(cache=True, nogil=True)
def step(images, slopes, amounts, changed):
    """The L1-nearest point of the box at which slopes . (changed - images) <= -amounts, row by row.

    Greedy by |slope| is optimal: it is a continuous knapsack whose items cost 1 per unit. Where the
    box does not reach that far, everything that helps is moved.
    """
    n = images.shape[1]
    scores = np.empty(n, dtype=np.float32)
    tops = np.empty((n + BLOCK - 1) // BLOCK, dtype=np.float32)
    for p in range(len(images)):
        image, slope, to = images[p], slopes[p], changed[p]
        score(image, slope, scores, tops)
        copy(image, to)
        left = amounts[p]
        while left > 0.0:
            j = take(scores, tops)
            if j < 0:
                break
            target = 0.0 if slope[j] > 0 else 1.0
            gain = slope[j] * (image[j] - target)
            if gain > left:
                target = min(max(image[j] - left / slope[j], 0.0), 1.0)
            to[j] = target
            left -= gain


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
def shares(sums, towards, own, goals, deep, sizes, width, found):
    """The share of the way from sums to `towards` (first-layer sums) at which a row is at its goal.

    Rows that are not at their goal at the end of the way keep 1.
    """
    base, column = np.empty(width), np.empty(width)
    values, active = np.empty(sizes.sum()), np.empty(maximum(sizes))
    logits = np.empty(sizes[-1])
    for p in range(len(own)):
        for h in range(width):
            base[h] = sums[p, h]
            column[h] = towards[p, h] - base[h]
        low = margin_at(0.0, base, column, 1.0, deep, sizes, values, active, logits, own[p])
        high = margin_at(1.0, base, column, 1.0, deep, sizes, values, active, logits, own[p])
        low, high = low - goals[p], high - goals[p]
        found[p] = 1.0
        if low > 0.0 >= high:
            found[p] = crossing(
                low, high, goals[p], base, column, 1.0, deep, sizes, values, active, logits,
                own[p],
            )  # fmt: skip


@njit(cache=True, nogil=True, fastmath=RELAXED)
def distances(images, rows, changed, found):
    """sum |changed[p] - images[rows[p]]|."""
    for p in range(len(rows)):
        image, answer, total = images[rows[p]], changed[p], 0.0
        for j in range(len(image)):
            total += abs(answer[j] - image[j])
        found[p] = total


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
