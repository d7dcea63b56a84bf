"""The compiled heart of `local`: repair and polish of a whole batch in one call.

One row at a time. Every function is a set of channels over the conditioned tables: the finite
part of h, of each t_j, and, where a function has potentials of 0, the count of its -inf entries.
So a move changes every channel by a finite amount, and -inf never meets -inf.

`delta[c, slot]` is what channel c gains by the one-variable move that `slot` stands for (every
value of every free variable is a slot; the slot of a current value gains 0). A move updates it
in time proportional to the tables of the variable, and then each scan over moves is a plain loop.
The last two slots are no moves: `STAY` is all 0, `JOINT` holds the move of a pair.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from cmpe.models.kernels import condition

LANES = 32  # rows conditioned together
STAY, JOINT, EXTRA = 0, 1, 2  # slots after the moves
FORBIDDEN = 1e6  # penalty of one -inf entry of h: leaving them comes first
GAIN = 1e-9  # the least rise of h, in nats, that counts as one
DROP = 1e-12  # the least fall of the penalty that counts as one
SLOT, ARC, PLACE = 0, 1, 2  # columns of `variables`
STEPS, SWEEPS, PAIRS, ROUNDS = 0, 1, 2, 3  # entries of `effort`


@njit(cache=True, nogil=True)
def _load(graph, values, z, position, total, delta):  # type: ignore[no-untyped-def]
    """Start from `z`: position of every table, total of every channel, gain of every move."""
    variables, places, offsets = graph.variables, graph.all_places, graph.offsets
    delta[:] = 0.0
    for f in range(len(position)):
        position[f] = offsets[f]
    for i in range(len(places)):
        position[places[i, 1]] += places[i, 2] * z[places[i, 0]]
    for c in range(len(total)):
        table = values[c]
        gain = delta[c]
        total[c] = 0.0
        for f in range(len(position)):
            total[c] += table[position[f]]
        for i in range(len(places)):
            v = places[i, 0]
            here = position[places[i, 1]]
            base = here - places[i, 2] * z[v]
            slot = variables[v, SLOT]
            for w in range(variables[v + 1, SLOT] - slot):
                gain[slot + w] += table[base + places[i, 2] * w] - table[here]


@njit(cache=True, nogil=True, forceinline=True)
def _move(v, value, variables, arcs, places, values, z, position, total, delta):  # type: ignore[no-untyped-def]
    """Set variable `v`; correct the gains of its neighbours' moves and of its own."""
    shift = value - z[v]
    for i in range(variables[v, ARC], variables[v + 1, ARC]):
        old = position[arcs[i, 0]]
        new = old + arcs[i, 1] * shift
        stride, slot, count = arcs[i, 2], arcs[i, 4], arcs[i, 5]
        back = stride * z[arcs[i, 3]]
        for c in range(len(total)):
            lift = values[c, old] - values[c, new]
            for w in range(count):
                jump = stride * w - back
                delta[c, slot + w] += (values[c, new + jump] - values[c, old + jump]) + lift
    for i in range(variables[v, PLACE], variables[v + 1, PLACE]):
        position[places[i, 0]] += places[i, 1] * shift
    first, last = variables[v, SLOT], variables[v + 1, SLOT]
    for c in range(len(total)):
        gain = delta[c, first + value]
        total[c] += gain
        for slot in range(first, last):
            delta[c, slot] -= gain
    z[v] = value


@njit(cache=True, nogil=True, forceinline=True)
def _penalty(slot, total, delta, limits, weights, zeros):  # type: ignore[no-untyped-def]
    """How far from feasible the move `slot` leads: 0 exactly where it is feasible."""
    penalty = 0.0
    if zeros[0] >= 0:
        penalty = FORBIDDEN * (total[zeros[0]] + delta[zeros[0], slot])
    for j in range(len(limits)):
        c = zeros[j + 1]
        if c >= 0 and total[c] + delta[c, slot] > 0.5:
            continue
        over = weights[j] * (total[j + 1] + delta[j + 1, slot] - limits[j])
        if over > DROP:
            penalty += over
    return penalty


@njit(cache=True, nogil=True)
def _climb(graph, values, limits, weights, zeros, z, position, total, delta):  # type: ignore[no-untyped-def]
    """One variable at a time: lower the penalty, or raise h at the same penalty, until neither.

    With infinite limits this is iterated conditional modes; from a feasible point it keeps to
    feasible ones.
    """
    variables, arcs, places = graph.variables, graph.arcs, graph.places
    stay = delta.shape[1] - EXTRA + STAY
    now = _penalty(stay, total, delta, limits, weights, zeros)
    count = len(z)
    v, idle, moves = 0, 0, 0
    while idle < count:
        first = variables[v, SLOT]
        best, least, gain = -1, now, GAIN
        for slot in range(first, variables[v + 1, SLOT]):
            if now == 0.0 and delta[0, slot] <= gain:
                continue
            after = _penalty(slot, total, delta, limits, weights, zeros)
            if after < least - DROP or (after <= least and delta[0, slot] > gain):
                best, least, gain = slot, after, delta[0, slot]
        if best >= 0:
            _move(v, best - first, variables, arcs, places, values, z, position, total, delta)
            now = _penalty(stay, total, delta, limits, weights, zeros)
            moves += 1
            idle = 0
        else:
            idle += 1
        v = v + 1 if v + 1 < count else 0
    return moves


@njit(cache=True, nogil=True, forceinline=True)
def _joint(pair, a, b, pairs, links, variables, values, z, position, delta):  # type: ignore[no-untyped-def]
    """Write what setting both variables of a pair gains into the slot `JOINT`."""
    u, v = pairs[pair, 0], pairs[pair, 1]
    one, two = variables[u, SLOT] + a, variables[v, SLOT] + b
    joint = delta.shape[1] - EXTRA + JOINT
    for c in range(len(delta)):
        gain = delta[c, one] + delta[c, two]
        for i in range(pairs[pair, 2], pairs[pair + 1, 2]):
            here = position[links[i, 0]]
            first, second = links[i, 1] * (a - z[u]), links[i, 2] * (b - z[v])
            both, alone = values[c, here + first + second], values[c, here + first]
            gain += (both - alone) - (values[c, here + second] - values[c, here])
        delta[c, joint] = gain


@njit(cache=True, nogil=True)
def _pair_up(graph, values, limits, weights, zeros, z, position, total, delta):  # type: ignore[no-untyped-def]
    """Move two variables of one table together wherever that is better; how many did."""
    variables, arcs, places = graph.variables, graph.arcs, graph.places
    pairs, links = graph.pairs, graph.links
    stay = delta.shape[1] - EXTRA + STAY
    joint = delta.shape[1] - EXTRA + JOINT
    now = _penalty(stay, total, delta, limits, weights, zeros)
    moves = 0
    for pair in range(len(pairs) - 1):
        u, v = pairs[pair, 0], pairs[pair, 1]
        best_a, best_b, least, gain = -1, -1, now, GAIN
        for a in range(variables[u + 1, SLOT] - variables[u, SLOT]):
            if a == z[u]:
                continue
            for b in range(variables[v + 1, SLOT] - variables[v, SLOT]):
                if b == z[v]:
                    continue
                _joint(pair, a, b, pairs, links, variables, values, z, position, delta)
                if now == 0.0 and delta[0, joint] <= gain:
                    continue
                after = _penalty(joint, total, delta, limits, weights, zeros)
                if after < least - DROP or (after <= least and delta[0, joint] > gain):
                    best_a, best_b, least, gain = a, b, after, delta[0, joint]
        if best_a >= 0:
            _move(u, best_a, variables, arcs, places, values, z, position, total, delta)
            _move(v, best_b, variables, arcs, places, values, z, position, total, delta)
            now = _penalty(stay, total, delta, limits, weights, zeros)
            moves += 1
    return moves


@njit(cache=True, nogil=True)
def _partner(total, delta, limits, weights, zeros):  # type: ignore[no-untyped-def]
    """The feasible move that raises h most (or lowers it least), or -1."""
    best, gain = -1, -np.inf
    for slot in range(delta.shape[1] - EXTRA):
        if delta[0, slot] > gain:
            if _penalty(slot, total, delta, limits, weights, zeros) == 0.0:
                best, gain = slot, delta[0, slot]
    return best


@njit(cache=True, nogil=True)
def _exchange(graph, values, limits, weights, zeros, z, position, total, delta):  # type: ignore[no-untyped-def]
    """From a feasible point: take a rise of h that breaks a constraint, and another move that
    mends it at a smaller loss; how many such exchanges were made."""
    variables, arcs, places, owner = graph.variables, graph.arcs, graph.places, graph.owner
    moves = 0
    for slot in range(len(owner)):
        gain = delta[0, slot]
        if gain <= GAIN:
            continue
        v = owner[slot]
        before, value = z[v], slot - variables[v, SLOT]
        _move(v, value, variables, arcs, places, values, z, position, total, delta)
        other = _partner(total, delta, limits, weights, zeros)
        if other >= 0 and gain + delta[0, other] > GAIN:
            u = owner[other]
            value = other - variables[u, SLOT]
            _move(u, value, variables, arcs, places, values, z, position, total, delta)
            moves += 1
        else:
            _move(v, before, variables, arcs, places, values, z, position, total, delta)
    return moves


@njit(cache=True, nogil=True)
def _choose(step, lowest, owner, variables, limits, weights, zeros, z, total, delta, barred):  # type: ignore[no-untyped-def]
    """The move that loses least h per unit of penalty; where none lowers it, the least bad one.

    Moves barred at this step count only if they go below `lowest`.
    """
    slots = len(owner)
    now = _penalty(slots + STAY, total, delta, limits, weights, zeros)
    best, ratio = -1, np.inf
    rescue, least, gain = -1, np.inf, -np.inf
    for slot in range(slots):
        v = owner[slot]
        if slot - variables[v, SLOT] == z[v]:
            continue
        after = _penalty(slot, total, delta, limits, weights, zeros)
        if barred[slot] > step and after >= lowest - DROP:
            continue
        fall = now - after
        if fall > DROP:
            if -delta[0, slot] < ratio * fall:
                best, ratio = slot, -delta[0, slot] / fall
        elif best < 0 and (after < least or (after == least and delta[0, slot] > gain)):
            rescue, least, gain = slot, after, delta[0, slot]
    return best, rescue


@njit(cache=True, nogil=True, forceinline=True)
def _draw(state, below):  # type: ignore[no-untyped-def]
    """A pseudo-random whole number from 0 to `below` - 1 (xorshift64*)."""
    x = state[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    state[0] = x
    high = (x * np.uint64(0x2545F4914F6CDD1D)) >> np.uint64(33)
    return np.int64(high) % below


@njit(cache=True, nogil=True)
def _repair(
    graph,
    values,
    limits,
    weights,
    zeros,
    z,
    position,
    total,
    delta,
    barred,
    least_bad,
    effort,
    state,
):  # type: ignore[no-untyped-def]
    """Walk to a feasible point; True if reached, else `z` is the least penalised point seen.

    Descent first. Where no move lowers the penalty: pairs; then tabu search, which takes the
    least bad move and bars its undoing for a random while.
    """
    variables, arcs, places, owner = graph.variables, graph.arcs, graph.places, graph.owner
    stay = len(owner) + STAY
    lowest = _penalty(stay, total, delta, limits, weights, zeros)
    if lowest == 0.0:
        return True
    barred[:] = 0
    least_bad[:] = z
    paired = np.inf
    for step in range(1, effort[STEPS] * len(z) + 1):
        best, rescue = _choose(
            step, lowest, owner, variables, limits, weights, zeros, z, total, delta, barred
        )
        if best < 0 and lowest < paired:
            paired = lowest
            _pair_up(graph, values, limits, weights, zeros, z, position, total, delta)
            now = _penalty(stay, total, delta, limits, weights, zeros)
            if now < lowest - DROP:
                lowest = now
                least_bad[:] = z
                if now == 0.0:
                    return True
                continue
            best = rescue
        if best < 0:
            continue
        v = owner[best]
        barred[variables[v, SLOT] + z[v]] = step + 1 + _draw(state, 3 + len(z) // 4)
        _move(
            v, best - variables[v, SLOT], variables, arcs, places, values, z, position, total, delta
        )
        now = _penalty(stay, total, delta, limits, weights, zeros)
        if now < lowest - DROP:
            lowest = now
            least_bad[:] = z
            if now == 0.0:
                return True
    _load(graph, values, least_bad, position, total, delta)
    z[:] = least_bad
    return False


@njit(cache=True, nogil=True)
def _polish(graph, values, limits, weights, zeros, z, position, total, delta, effort):  # type: ignore[no-untyped-def]
    """From a feasible point to one that no feasible move of `_climb` betters, nor, within the
    sweeps allowed, one of `_pair_up` and `_exchange`."""
    _climb(graph, values, limits, weights, zeros, z, position, total, delta)
    for _ in range(effort[SWEEPS]):
        moves = _pair_up(graph, values, limits, weights, zeros, z, position, total, delta)
        if moves > 0:
            _climb(graph, values, limits, weights, zeros, z, position, total, delta)
        swaps = _exchange(graph, values, limits, weights, zeros, z, position, total, delta)
        if swaps > 0:
            _climb(graph, values, limits, weights, zeros, z, position, total, delta)
        if moves + swaps == 0:
            break


@njit(cache=True, nogil=True)
def _unpack(block, lane, entries, functions, zeros, values):  # type: ignore[no-untyped-def]
    """One lane of the conditioned tables as channels: finite parts, then counts of -inf."""
    for k in range(functions):
        for e in range(entries):
            values[k, e] = block[k * entries + e, lane]
        c = zeros[k]
        if c >= 0:
            for e in range(entries):
                values[c, e] = 0.0
                if values[k, e] == -np.inf:
                    values[k, e], values[c, e] = 0.0, 1.0


@njit(cache=True, nogil=True)
def search(evidence, gather, graph, limits, weights, zeros, seeds, effort, out):  # type: ignore[no-untyped-def]
    """Improve every row of `out` (B, n) in place; rows that begin with -1 get a start of their own."""
    variables, free = graph.variables, graph.free
    width, functions = len(free), len(limits) + 1
    slots = len(graph.owner)
    entries = graph.entries
    channels = max(functions, zeros.max() + 1)
    block = np.zeros((functions * entries, LANES))
    lanes = np.zeros((evidence.shape[1], LANES), dtype=np.int64)
    values = np.zeros((channels, entries))
    z, least_bad = np.zeros(width, dtype=np.int64), np.zeros(width, dtype=np.int64)
    position = np.zeros(len(graph.offsets), dtype=np.int64)
    total, delta = np.zeros(channels), np.zeros((channels, slots + EXTRA))
    barred = np.zeros(slots, dtype=np.int64)
    state = np.zeros(1, dtype=np.uint64)
    unlimited = np.full(len(limits), np.inf)
    for row in range(len(out)):
        if row % LANES == 0:
            for lane in range(min(LANES, len(out) - row)):
                for x in range(evidence.shape[1]):
                    lanes[x, lane] = evidence[row + lane, x]
            condition(lanes, gather, block)
        _unpack(block, row % LANES, entries, functions, zeros, values)
        state[0] = seeds[row]
        given = True
        for i in range(width):
            z[i] = out[row, free[i]]
            given = given and z[i] >= 0
        if not given:
            for i in range(width):
                z[i] = _draw(state, variables[i + 1, SLOT] - variables[i, SLOT])
        _load(graph, values, z, position, total, delta)
        if not given:
            _climb(graph, values, unlimited, weights, zeros, z, position, total, delta)
        if _repair(graph, values, limits, weights, zeros, z, position, total, delta, barred, least_bad, effort, state):
            _polish(graph, values, limits, weights, zeros, z, position, total, delta, effort)
        for i in range(width):
            out[row, free[i]] = z[i]
