"""Annealing of many rows on a GPU, one kernel for all sweeps (see `amortised.annealing`).

A program takes ROWS rows through all sweeps, some variables of one colour at a time: rows lie side
by side in memory, so that what a warp reads of a neighbour is one stretch. States stay in the
cache of the multiprocessor; a table is read where its other variables point, and only as
differences to the first value, of h and t side by side. h and t of a row follow the differences:
they are added up in float32 within a sweep and in float64 over all.
"""

from __future__ import annotations

import triton
import triton.language as tl

FIXED = tl.constexpr(64)  # added to the state of an observed variable
VALUE = tl.constexpr(63)


@triton.jit
def _uniform(row, slot, key):
    """Numbers in (0, 1), by a hash of where they are asked for (the mixing of MurmurHash3)."""
    x = (row * 0x9E3779B1) ^ (slot * 0x85EBCA77) ^ key
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    x = x ^ (x >> 16)
    return ((x >> 8).to(tl.float32) + 0.5) * (1.0 / 16777216.0)


@triton.jit
def _gumbel(row, slot, key):
    return -tl.log(-tl.log(_uniform(row, slot, key)))


@triton.jit
def _pair(at):
    """h and t, which lie side by side."""
    both = tl.load(at)
    h = both.to(tl.int32).to(tl.float32, bitcast=True)
    t = (both >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return h, t


@triton.jit
def _told(states, near, tables, at, mine, rows, k, OTHERS: tl.constexpr, K: tl.constexpr):
    """What value k of variables (VARIABLES, ROWS) adds to h and t in their tables `at`."""
    entry = (at * K**OTHERS)[:, None] + tl.zeros_like(mine)[None, :]
    reach = 1
    for o in tl.static_range(OTHERS):
        other = tl.load(near + at * OTHERS + (OTHERS - 1 - o))
        state = tl.load(states + other[:, None] * rows + mine[None, :])
        entry += (state.to(tl.int32) & VALUE) * reach
        reach = reach * K
    return _pair(tables + entry * (K - 1) + (k - 1))


@triton.jit
def _drawn(
    states, near, tables, unary, slot, degree, mine, rows, state, price, heat, key,
    D: tl.constexpr, UNROLLED: tl.constexpr, OTHERS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """New values of the variables of a block, and what they change of h and t."""
    name = mine.to(tl.uint32)[None, :]
    number = slot.to(tl.uint32)[:, None]
    if K == 2:
        chance = _uniform(name, number, key)
        top = tl.log(1.0 / chance - 1.0)
    else:
        top = _gumbel(name, number, key)
    new = tl.zeros(state.shape, tl.int32)
    new_h = tl.zeros(state.shape, tl.float32)
    new_t = tl.zeros(state.shape, tl.float32)
    old_h = tl.zeros(state.shape, tl.float32)
    old_t = tl.zeros(state.shape, tl.float32)
    for k in tl.static_range(1, K):
        gh, gt = _pair(unary + slot * (K - 1) + (k - 1))
        gh = tl.zeros(state.shape, tl.float32) + gh[:, None]
        gt = tl.zeros(state.shape, tl.float32) + gt[:, None]
        for d in tl.static_range(UNROLLED):
            at = slot * D + d
            more_h, more_t = _told(states, near, tables, at, mine, rows, k, OTHERS, K)
            gh += more_h
            gt += more_t
        for d in range(UNROLLED, degree):
            at = slot * D + d
            more_h, more_t = _told(states, near, tables, at, mine, rows, k, OTHERS, K)
            gh += more_h
            gt += more_t
        score = (gh - price[None, :] * gt) * heat
        if K > 2:
            score += _gumbel(name, number, key ^ ((k * 0x27D4EB2F) & 0xFFFFFFFF))
        chosen = score > top
        top = tl.where(chosen, score, top)
        new = tl.where(chosen, k, new)
        new_h = tl.where(chosen, gh, new_h)
        new_t = tl.where(chosen, gt, new_t)
        was = (state & VALUE) == k
        old_h = tl.where(was, gh, old_h)
        old_t = tl.where(was, gt, old_t)
    return new, new_h - old_h, new_t - old_t


@triton.jit
def _copied(states, best, variables, blocks, mine, rows, better, VARIABLES: tl.constexpr):
    """Keep the states of the rows that are better than all before."""
    for block in range(blocks):
        slot = block * VARIABLES + tl.arange(0, VARIABLES)
        at = tl.load(variables + slot)[:, None] * rows + mine[None, :]
        tl.store(best + at, tl.load(states + at), mask=better[None, :])


@triton.jit
def annealed(
    states, best, totals, limits, prices, variables, degrees, colours, near, tables, unary, heats,
    rows, sweeps, colour_count, seed, first_step, longest_step,
    GROWTH: tl.constexpr, SHRINKING: tl.constexpr, ROWS: tl.constexpr, VARIABLES: tl.constexpr,
    D: tl.constexpr, UNROLLED: tl.constexpr, OTHERS: tl.constexpr, K: tl.constexpr,
    LIMITED: tl.constexpr,
):  # fmt: skip
    """Sweeps of all variables; the best feasible states that were met are left in `best`.

    states, best  int8 (n + 1, B): the last variable is none
    totals        float64 (2, B): h and t at the start; limits, prices: float32 (B,)
    variables     int32 (slots,); degrees: int32 (slots / VARIABLES,)
    colours       int32 (colours + 1,): where the blocks of each begin
    near          int32 (slots, D, OTHERS)
    tables        int64 (slots, D, K ^ OTHERS, K - 1): h and t in float32; unary: (slots, K - 1)
    heats         float32 (sweeps,): 1 / T; rows: B
    """
    mine = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    one = tl.arange(0, VARIABLES)
    h = tl.load(totals + mine)
    t = tl.load(totals + rows + mine)
    limit = tl.load(limits + mine)
    price = tl.load(prices + mine)
    known = tl.full((ROWS,), float("-inf"), tl.float64)
    step = tl.full((ROWS,), 0.0, tl.float32) + first_step
    last = tl.full((ROWS,), 0, tl.int1)
    blocks = tl.load(colours + colour_count)
    for sweep in range(sweeps):
        heat = tl.load(heats + sweep)
        gained = tl.zeros((VARIABLES, ROWS), tl.float32)
        moved = tl.zeros((VARIABLES, ROWS), tl.float32)
        key = (seed + sweep).to(tl.uint32) * 0xC2B2AE3D
        for colour in range(colour_count):
            for block in range(tl.load(colours + colour), tl.load(colours + colour + 1)):
                slot = block * VARIABLES + one
                where = states + tl.load(variables + slot)[:, None] * rows + mine[None, :]
                state = tl.load(where).to(tl.int32)
                degree = tl.load(degrees + block)
                new, more, up = _drawn(
                    states, near, tables, unary, slot, degree, mine, rows, state, price, heat, key,
                    D, UNROLLED, OTHERS, K,
                )  # fmt: skip
                changed = (state < FIXED) & (new != state)
                gained += tl.where(changed, more, 0.0)
                moved += tl.where(changed, up, 0.0)
                tl.store(where, new.to(tl.int8), mask=changed)
            tl.debug_barrier()
        h += tl.sum(gained, 0).to(tl.float64)
        t += tl.sum(moved, 0).to(tl.float64)
        broken = t > limit.to(tl.float64)
        better = (h > known) & (broken == 0)
        known = tl.where(better, h, known)
        if tl.max(better.to(tl.int32), 0) > 0:
            _copied(states, best, variables, blocks, mine, rows, better, VARIABLES)
        if LIMITED:
            step = tl.minimum(step * tl.where(broken == last, GROWTH, SHRINKING), longest_step)
            price = tl.maximum(tl.where(broken, price + step, price - step), 0.0)
            last = broken
    tl.store(prices + mine, price)
