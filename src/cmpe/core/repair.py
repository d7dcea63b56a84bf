"""Local search of one row after another: start, repair, polish and kick."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import copy, maximum
from cmpe.core.moves import (
    ARC,
    ARC_END,
    DROP,
    END,
    NEIGHBOUR,
    SLOT,
    Notes,
    Point,
    chain,
    climb,
    exchange,
    load,
    move,
    penalty,
    polish,
)
from cmpe.core.settings import LOCAL
from cmpe.core.tables import condition

LANES = 32  # rows conditioned together


@njit(cache=True, nogil=True)
def _choose(step, lowest, graph, rules, point, barred):
    """The move that loses the least h per unit of penalty that it removes, and False.

    Where no move lowers the penalty: the move to the least penalty, and True. A barred move counts
    only where it leads below `lowest`.
    """
    owner, variables, z, delta = graph.owner, graph.variables, point.z, point.delta
    slots = len(owner)
    now = penalty(slots, rules, point)
    best, ratio = slots, np.inf
    rescue, least, gain = slots, np.inf, -np.inf
    for slot in range(slots):
        v = owner[slot]
        if np.uint64(slot) == variables[v, SLOT] + z[v]:
            continue
        after = penalty(slot, rules, point)
        if barred[slot] > step and after >= lowest - DROP:
            continue
        fall, loss = now - after, -delta[slot, 0]
        if fall > DROP:
            if loss < ratio * fall:
                best, ratio = slot, loss / fall
        elif after < least or (after == least and delta[slot, 0] > gain):
            rescue, least, gain = slot, after, delta[slot, 0]
    return (best, False) if best < slots else (rescue, True)


@njit(cache=True, nogil=True)
def _is_hopeless(graph, rules, values):
    """Whether some table of h is all -inf, or some t_j exceeds its limit even where each of its
    tables has its least entry: then no assignment is feasible."""
    offsets, zeros = graph.offsets, rules.zeros
    for k in range(len(zeros)):
        total, free = 0.0, False
        for f in range(len(offsets) - 1):
            least = np.inf
            for e in range(offsets[f], offsets[f + 1]):
                if zeros[k] >= 0 and values[e, zeros[k]] > 0.5:
                    free = True
                else:
                    least = min(least, values[e, k])
            if k == 0 and least == np.inf:
                return True
            total += least
        if k > 0 and not free and rules.weights[k - 1] * (total - rules.limits[k - 1]) > DROP:
            return True
    return False


@njit(inner=True, nogil=True)
def draw(state, below):
    """A pseudo-random whole number from 0 to `below` - 1 (xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    return ((x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)) % np.uint64(below)


@njit(cache=True, nogil=True)
def _other(v, graph, point, state):
    """A random move of variable v."""
    first, end = graph.variables[v, SLOT], graph.variables[v, END]
    slot = first + draw(state, end - first - np.uint64(1))
    return slot + np.uint64(slot >= first + point.z[v])


@njit(cache=True, nogil=True)
def _walk(slot, most, graph, point, state):
    """Make the move `slot`, then random ones along neighbouring variables: at most `most`."""
    variables = graph.variables
    for left in range(np.int64(draw(state, most)), -1, -1):
        move(slot, graph, point)
        if left > 0:
            v = graph.owner[slot]
            arcs = variables[v, ARC_END] - variables[v, ARC]
            if arcs == 0:
                v = draw(state, len(point.z))
            else:
                v = graph.arcs[variables[v, ARC] + draw(state, arcs), NEIGHBOUR]
            slot = _other(v, graph, point, state)


@njit(cache=True, nogil=True)
def _kick(graph, point, state):
    """A random walk over neighbouring variables, each set to another random value."""
    v = draw(state, len(point.z))
    _walk(_other(v, graph, point, state), LOCAL.kick, graph, point, state)


@njit(cache=True, nogil=True)
def _push(graph, rules, point, state):
    """Leave a local optimum by a few moves, picked at random, that raise h and break constraints.

    False where there are none.
    """
    slots = len(graph.owner)
    for made in range(LOCAL.pushes):
        start = np.int64(draw(state, slots))
        slot = start
        for k in range(slots):
            slot = start + k if start + k < slots else start + k - slots
            if point.delta[slot, 0] > rules.gain:
                break
        if point.delta[slot, 0] <= rules.gain:
            return made > 0
        _walk(np.uint64(slot), LOCAL.followers, graph, point, state)
    return True


@njit(inner=True, nogil=True)
def repair(steps, graph, rules, point, notes):
    """Walk to a feasible point; False if none is reached: `point` then has the least penalty.

    Descent comes first. Where no move lowers the penalty, pairs of moves are tried, then tabu
    search: it makes the move to the least penalty and bars its reversal for a random number of
    steps. Where that makes no progress, a kick follows.
    """
    z, stay = point.z, len(graph.owner)
    lowest, paired, since = penalty(stay, rules, point), np.inf, 0
    if lowest == 0.0:
        return True
    notes.barred[:] = 0
    copy(z, notes.kept)
    for step in range(steps):
        slot, stuck = _choose(step, lowest, graph, rules, point, notes.barred)
        if stuck and lowest < paired:
            paired = lowest
            if _is_hopeless(graph, rules, point.values):
                break
            chain(2, graph, rules, point, notes)
        elif step > since + LOCAL.patience * len(z):
            since = step
            _kick(graph, point, notes.state)
        elif slot < stay:
            v = graph.owner[slot]
            pause = 2 + np.int64(draw(notes.state, 3 + len(z) // 4))
            notes.barred[graph.variables[v, SLOT] + z[v]] = step + pause
            move(np.uint64(slot), graph, point)
        now = penalty(stay, rules, point)
        if now < lowest - DROP:
            lowest, since = now, step
            copy(z, notes.kept)
            if now == 0.0:
                return True
    copy(notes.kept, z)
    load(graph, point)
    return False


@njit(cache=True, nogil=True)
def _copy_point(source, target):
    """Copy a point to another one of the same row."""
    copy(source.z, target.z)
    copy(source.position, target.position)
    copy(source.total, target.total)
    for slot in range(len(target.delta)):
        for c in range(len(target.total)):
            target.delta[slot, c] = source.delta[slot, c]


@njit(inner=True, nogil=True)
def shake(kicks, graph, rules, point, best, notes):
    """From the best point so far, push or kick in turns, repair and climb; `kicks` times.

    h never falls.
    """
    _copy_point(point, best)
    for k in range(kicks):
        if k % 2 == 1 or not _push(graph, rules, point, notes.state):
            _kick(graph, point, notes.state)
        if repair(len(point.z), graph, rules, point, notes):
            climb(graph, rules, point)
            start = np.int64(draw(notes.state, len(graph.owner)))
            exchange(start, LOCAL.tries, graph, rules, point)
            if point.total[0] >= best.total[0]:
                _copy_point(point, best)
                continue
        _copy_point(best, point)


@njit(inner=True, nogil=True)
def conditioned(evidence, row, gather, lanes, block):
    """Condition all functions on the evidence of LANES rows from `row` on, a lane for each row."""
    for lane in range(min(LANES, len(evidence) - row)):
        for x in range(evidence.shape[1]):
            lanes[x, lane] = evidence[row + lane, x]
    condition(lanes, gather, block)


@njit(inner=True, nogil=True)
def unpack(block, lane, zeros, values):
    """One lane of the conditioned tables as channels: finite parts, then counts of -inf."""
    entries = len(values)
    for k in range(len(zeros)):
        for e in range(entries):
            values[e, k] = block[k * entries + e, lane]
        if zeros[k] >= 0:
            for e in range(entries):
                values[e, zeros[k]] = values[e, k] == -np.inf
                if values[e, k] == -np.inf:
                    values[e, k] = 0.0


@njit(cache=True, nogil=True)
def _begin(row, graph, unlimited, point, state):
    """Begin at the row's assignment; if it has none, climb from a random one without limits."""
    variables, z = graph.variables, point.z
    given = True
    for i in range(len(z)):
        given = given and row[graph.free[i]] >= 0
    for i in range(len(z)):
        if given:
            z[i] = row[graph.free[i]]
        else:
            z[i] = draw(state, variables[i, END] - variables[i, SLOT])
    load(graph, point)
    if not given:
        climb(graph, unlimited, point)


@njit(inner=True, nogil=True)
def space(graph, values, channels):
    """Room for one point."""
    return Point(
        values,
        np.zeros(len(graph.free), dtype=np.uint64),
        np.zeros(len(graph.offsets) - 1, dtype=np.uint64),
        np.zeros(channels),
        np.zeros((len(graph.owner) + 1, channels)),
    )


@njit(inner=True, nogil=True)
def channels_of(rules):
    """C: a channel for each function and one for the zeros of each, rounded up to even."""
    channels = max(len(rules.zeros), maximum(rules.zeros) + 1)
    return channels + channels % 2


@njit(inner=True, nogil=True)
def empty_notes(graph):
    """Room for the notes on one row."""
    width = len(graph.free)
    return Notes(
        np.zeros(len(graph.owner), dtype=np.int64),
        np.zeros(width, dtype=np.uint64),
        np.zeros((2, width), dtype=np.uint64),
        np.zeros(width, dtype=np.bool_),
        np.ones(1, dtype=np.uint64),
    )


@njit(cache=True, nogil=True)
def search(evidence, graph, gather, rules, unlimited, effort, seeds, out):
    """Improve every row of `out` (B, n) in place, starting those with a -1 from scratch.

    evidence (B, |X|); `gather` conditions all functions at once, one after the other.
    """
    functions, entries = len(rules.zeros), graph.offsets[-1]
    channels = channels_of(rules)
    values = np.zeros((entries, channels))
    point, best = space(graph, values, channels), space(graph, values, channels)
    width = len(graph.free)
    notes = empty_notes(graph)
    lanes = np.zeros((evidence.shape[1], LANES), dtype=np.int64)
    block = np.zeros((functions * len(values), LANES))
    for row in range(len(out)):
        if row % LANES == 0:
            conditioned(evidence, row, gather, lanes, block)
        unpack(block, row % LANES, rules.zeros, values)
        notes.state[0] = seeds[row]
        _begin(out[row], graph, unlimited, point, notes.state)
        if repair(effort.steps * width, graph, rules, point, notes):
            polish(effort.sweeps, graph, rules, point, notes)
            if width > 0 and effort.kicks > 0:
                shake(effort.kicks, graph, rules, point, best, notes)
                polish(effort.sweeps, graph, rules, point, notes)
        for i in range(width):
            out[row, graph.free[i]] = point.z[i]
