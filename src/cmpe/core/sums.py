"""Compiled log-sum elimination with running counts: log-partition, marginals, exact samples.

Sums over all assignments z of exp(sum of tables at z) whose counts lie within limits. A count is a
sum of whole numbers >= 0 that the tables' entries carry. Each message has a second axis: the state,
which numbers the values of all counts within the message's subtree (mixed radix). A bucket's state
begins with the counts of its tables; then the states of its children are joined to it one after
another, and a map gives the state that two states make. Without counts every message has one state.

The backward pass is the derivative of the forward pass. The derivative of the log-partition by a
log-potential is the probability of its entry, so all numbers of this pass lie between 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.core.buckets import (
    AXES,
    AXIS_COUNT,
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    MESSAGE,
    OFFSET,
    SIZE,
    STEP,
    STRIDES,
    VARIABLE,
    CompiledPlan,
)
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import begin, step

# Columns of CountedPlan.joins.
INPUT, BEFORE, JOINED, AFTER, MAP = range(5)


class CountedPlan(NamedTuple):
    """A bucket tree whose messages have states; the last bucket joins the roots and constants."""

    plan: CompiledPlan
    starts: Integers  # (K + 1,) where the (entry, state) numbers of each message begin
    states: Integers  # (K,) how many states each message has
    caps: Integers  # (m,) the highest value of each count
    saturates: Integers  # (m,) 1: a higher value becomes the cap; 0: it is outside the limits
    radix: Integers  # (K, m) strides of the state that a bucket's tables make
    first: Integers  # (K,) how many states they can make
    joins: Integers  # (J, 5) input, states before, of the child and after, place of the map
    join_starts: Integers  # (K + 1,) each bucket's joins
    maps: Integers  # state made by each pair of states, or -1: outside the limits
    values: Integers  # (K + 1,) where the marginals of each bucket's variable begin
    most_states: int
    most_joins: int


class Weights(NamedTuple):
    """Rows' log-potentials, what each entry adds to the counts, and which final states count."""

    tables: Floats  # (B, E)
    counts: Integers  # (1 or B, E, m)
    accepted: Floats  # (B, states of the last bucket): 0, or -inf outside the limits


class SumRoom(NamedTuple):
    """Working memory for one row."""

    messages: Floats
    prefix: Floats  # (joins + 1, states)
    sums: Floats  # (cardinality, states)
    digits: Integers
    offsets: Integers
    totals: Integers  # (m,)
    shares: Floats  # (joins + 1, states) probabilities of prefixes
    passed: Floats  # probabilities of messages' states


class RowWeights(NamedTuple):
    """The log-potentials of one row, and what each entry adds to the counts."""

    tables: Floats  # (E,)
    counts: Integers  # (E, m)
    accepted: Floats  # (states of the last bucket,)


@njit(inner=True, nogil=True)
def _room(counted):
    """Working memory."""
    plan = counted.plan
    most_values = 1
    for k in range(len(plan.buckets)):
        most_values = max(most_values, plan.buckets[k, CARD])
    return SumRoom(
        np.zeros(counted.starts[len(plan.buckets)]),
        np.zeros((counted.most_joins + 1, counted.most_states)),
        np.zeros((most_values, counted.most_states)),
        np.zeros(plan.widest, dtype=np.int64),
        np.zeros(plan.most_inputs, dtype=np.int64),
        np.zeros(len(counted.caps), dtype=np.int64),
        np.zeros((counted.most_joins + 1, counted.most_states)),
        np.zeros(counted.starts[len(plan.buckets)]),
    )


@njit(inner=True, nogil=True)
def _row(weights, row):
    """The weights of one row."""
    counts = weights.counts[min(row, len(weights.counts) - 1)]
    return RowWeights(weights.tables[row], counts, weights.accepted[row])


@njit(inner=True, nogil=True)
def _place(counted, i, k, offset):
    """Where the first state of the entry of input i that lies at `offset` is in the messages."""
    child = counted.plan.inputs[i, CHILD]
    entry = offset - counted.plan.buckets[child, MESSAGE]
    return counted.starts[child] + entry * counted.states[child]


@njit(inner=True, nogil=True)
def _begun(counted, given, room, k, a):
    """The state of bucket k's tables at value `a` (-1: outside the limits) and their weight.

    Messages of one state are added to the weight.
    """
    inputs, totals = counted.plan.inputs, room.totals
    first = counted.plan.buckets[k, INPUTS]
    for j in range(len(totals)):
        totals[j] = 0
    weight = 0.0
    for i in range(counted.plan.buckets[k, INPUT_COUNT]):
        at = room.offsets[i] + a * inputs[first + i, STEP]
        child = inputs[first + i, CHILD]
        if child < 0:
            weight += given.tables[at]
            for j in range(len(totals)):
                totals[j] += given.counts[at, j]
        elif counted.states[child] == 1:
            weight += room.messages[_place(counted, first + i, k, at)]
    state = 0
    for j in range(len(totals)):
        total = totals[j]
        if total > counted.caps[j]:
            if counted.saturates[j] == 0:
                return -1, -np.inf
            total = counted.caps[j]
        state += total * counted.radix[k, j]
    return (state, weight) if weight > -np.inf else (-1, weight)


@njit(inner=True, nogil=True)
def _joined(counted, room, k, a, state, weight):
    """Fill the prefixes of bucket k at value `a`: prefix i is the weight by state after i joins."""
    prefix, messages, inputs = room.prefix, room.messages, counted.plan.inputs
    for s in range(counted.first[k]):
        prefix[0, s] = -np.inf
    prefix[0, state] = weight
    number = 0
    for join in range(counted.join_starts[k], counted.join_starts[k + 1]):
        i, before, joined = counted.joins[join, INPUT], counted.joins[join, BEFORE], 0
        joined, after = counted.joins[join, JOINED], counted.joins[join, AFTER]
        offset = room.offsets[i - counted.plan.buckets[k, INPUTS]] + a * inputs[i, STEP]
        first = _place(counted, i, k, offset)
        old, new, here = prefix[number], prefix[number + 1], room.sums[a]
        for s in range(after):
            new[s] = -np.inf
            here[s] = 0.0
        for p in range(before):
            if old[p] == -np.inf:
                continue
            row = counted.joins[join, MAP] + p * joined
            for s in range(joined):
                made = counted.maps[row + s]
                if made >= 0:
                    new[made] = max(new[made], old[p] + messages[first + s])
        for p in range(before):
            if old[p] == -np.inf:
                continue
            row = counted.joins[join, MAP] + p * joined
            for s in range(joined):
                made = counted.maps[row + s]
                if made >= 0 and messages[first + s] > -np.inf:
                    here[made] += np.exp(old[p] + messages[first + s] - new[made])
        for s in range(after):
            if new[s] > -np.inf:
                new[s] += np.log(here[s])
        number += 1
    return number


@njit(inner=True, nogil=True)
def _forward(counted, given, room):
    """Fill the messages; return the log-partition within the limits."""
    plan, accepted = counted.plan, given.accepted
    buckets = plan.buckets
    for k in range(len(buckets)):
        begin(buckets, plan.inputs, k, room.digits, room.offsets)
        states, card = counted.states[k], buckets[k, CARD]
        for entry in range(buckets[k, SIZE]):
            target = counted.starts[k] + entry * states
            for a in range(card):
                state, weight = _begun(counted, given, room, k, a)
                if state < 0:
                    for s in range(states):
                        room.sums[a, s] = -np.inf
                else:
                    last = _joined(counted, room, k, a, state, weight)
                    for s in range(states):
                        room.sums[a, s] = room.prefix[last, s]
            for s in range(states):
                highest = -np.inf
                for a in range(card):
                    highest = max(highest, room.sums[a, s])
                if highest > -np.inf and card > 1:
                    total = 0.0
                    for a in range(card):
                        total += np.exp(room.sums[a, s] - highest)
                    highest += np.log(total)
                room.messages[target + s] = highest
            step(buckets, plan.inputs, plan.strides, plan.axis_cards, k, room.digits, room.offsets)
    top = counted.starts[len(buckets) - 1]
    highest, total = -np.inf, 0.0
    for s in range(counted.states[len(buckets) - 1]):
        highest = max(highest, room.messages[top + s] + accepted[s])
    if highest == -np.inf:
        return highest
    for s in range(counted.states[len(buckets) - 1]):
        total += np.exp(room.messages[top + s] + accepted[s] - highest)
    return highest + np.log(total)


@njit(cache=True, nogil=True)
def log_partitions(counted, weights, out):
    """The log-partition of every row into `out` (B,); -inf where no assignment is allowed."""
    room = _room(counted)
    for row in range(len(weights.tables)):
        out[row] = _forward(counted, _row(weights, row), room)


@njit(inner=True, nogil=True)
def _unjoin(counted, room, k, a):
    """Share the probabilities of prefixes among what they were joined from, the last one first."""
    prefix, messages, inputs = room.prefix, room.messages, counted.plan.inputs
    shares, passed = room.shares, room.passed
    number = counted.join_starts[k + 1] - counted.join_starts[k]
    for join in range(counted.join_starts[k + 1] - 1, counted.join_starts[k] - 1, -1):
        i, before = counted.joins[join, INPUT], counted.joins[join, BEFORE]
        joined = counted.joins[join, JOINED]
        offset = room.offsets[i - counted.plan.buckets[k, INPUTS]] + a * inputs[i, STEP]
        first = _place(counted, i, k, offset)
        old, new = prefix[number - 1], prefix[number]
        for p in range(before):
            shares[number - 1, p] = 0.0
            if old[p] == -np.inf:
                continue
            row = counted.joins[join, MAP] + p * joined
            for s in range(joined):
                made = counted.maps[row + s]
                if made < 0 or shares[number, made] == 0.0:
                    continue
                share = shares[number, made] * np.exp(old[p] + messages[first + s] - new[made])
                passed[first + s] += share
                shares[number - 1, p] += share
        number -= 1


@njit(inner=True, nogil=True)
def _pass_back(counted, given, room, k, target, out, gradient):
    """Share the probabilities of one entry of bucket k's message among its inputs."""
    shares, passed = room.shares, room.passed
    plan, states = counted.plan, counted.states[k]
    buckets, inputs = plan.buckets, plan.inputs
    first = buckets[k, INPUTS]
    joins = counted.join_starts[k + 1] - counted.join_starts[k]
    for a in range(buckets[k, CARD]):
        state, weight = _begun(counted, given, room, k, a)
        if state < 0:
            continue
        _joined(counted, room, k, a, state, weight)
        for s in range(states):
            shares[joins, s] = 0.0
            if passed[target + s] > 0.0 and room.prefix[joins, s] > -np.inf:
                gain = room.prefix[joins, s] - room.messages[target + s]
                shares[joins, s] = passed[target + s] * np.exp(gain)
        _unjoin(counted, room, k, a)
        share = shares[0, state]
        out[counted.values[k] + a] += share
        for i in range(buckets[k, INPUT_COUNT]):
            at = room.offsets[i] + a * inputs[first + i, STEP]
            child = inputs[first + i, CHILD]
            if child < 0:
                gradient[at] += share
            elif counted.states[child] == 1:
                passed[_place(counted, first + i, k, at)] += share


@njit(cache=True, nogil=True)
def marginals(counted, weights, out, probabilities, gradients):
    """Log-partitions into `out` (B,), and what they change by.

    `probabilities` (B, values) of each value of each bucket's variable, `gradients` (B, E) of each
    entry of the tables; 0 in rows without an allowed assignment.
    """
    plan, room = counted.plan, _room(counted)
    buckets = plan.buckets
    last = len(buckets) - 1
    passed = room.passed
    for row in range(len(weights.tables)):
        given = _row(weights, row)
        total = _forward(counted, given, room)
        out[row] = total
        probabilities[row, :] = 0.0
        gradients[row, :] = 0.0
        if total == -np.inf:
            continue
        passed[:] = 0.0
        for s in range(counted.states[last]):
            at = counted.starts[last] + s
            passed[at] = np.exp(room.messages[at] + given.accepted[s] - total)
        for k in range(last, -1, -1):
            begin(buckets, plan.inputs, k, room.digits, room.offsets)
            for entry in range(buckets[k, SIZE]):
                target = counted.starts[k] + entry * counted.states[k]
                some = 0.0
                for s in range(counted.states[k]):
                    some += passed[target + s]
                if some > 0.0:
                    _pass_back(counted, given, room, k, target, probabilities[row], gradients[row])
                step(
                    buckets, plan.inputs, plan.strides, plan.axis_cards, k, room.digits,
                    room.offsets,
                )  # fmt: skip


@njit(inner=True, nogil=True)
def _drawn(logits, count, uniform):
    """An index below `count`, drawn by logarithms of weights; -1: all weights are 0."""
    highest = -np.inf
    for a in range(count):
        highest = max(highest, logits[a])
    if highest == -np.inf:
        return -1
    total = 0.0
    for a in range(count):
        total += np.exp(logits[a] - highest)
    threshold, edge, last = uniform * total, 0.0, -1
    for a in range(count):
        weight = np.exp(logits[a] - highest)
        edge += weight
        if weight > 0.0:
            last = a
        if edge > threshold:
            return last
    return last


@njit(inner=True, nogil=True)
def _split(counted, room, split, k, a, uniforms, chosen):
    """Draw which states of its children made the chosen state of bucket k at value `a`."""
    state = chosen[k]
    inputs, prefix, messages = counted.plan.inputs, room.prefix, room.messages
    number = counted.join_starts[k + 1] - counted.join_starts[k]
    for join in range(counted.join_starts[k + 1] - 1, counted.join_starts[k] - 1, -1):
        i, before = counted.joins[join, INPUT], counted.joins[join, BEFORE]
        joined = counted.joins[join, JOINED]
        offset = room.offsets[i - counted.plan.buckets[k, INPUTS]] + a * inputs[i, STEP]
        first = _place(counted, i, k, offset)
        for p in range(before):
            for s in range(joined):
                made = counted.maps[counted.joins[join, MAP] + p * joined + s]
                split[p * joined + s] = -np.inf
                if made == state:
                    split[p * joined + s] = prefix[number - 1, p] + messages[first + s]
        pair = _drawn(split, before * joined, uniforms[len(counted.starts) - 1 + join])
        state = pair // joined
        chosen[inputs[i, CHILD]] = pair % joined
        number -= 1


@njit(cache=True, nogil=True)
def samples(counted, weights, uniforms, out):
    """Draw assignments of every row into `out` (B, N, n), by numbers `uniforms` (B, draws, N).

    The values of the buckets take the first draws, the last bucket's first; its state takes the
    next one, and each join one. Rows without an allowed assignment get -1.
    """
    plan, room = counted.plan, _room(counted)
    buckets, inputs = plan.buckets, plan.inputs
    last = len(buckets) - 1
    choice = np.zeros(len(buckets), dtype=np.int64)
    chosen = np.zeros(len(buckets), dtype=np.int64)
    logits = np.zeros(max(len(room.sums), counted.most_states))
    most_pairs = 1
    for join in range(len(counted.joins)):
        most_pairs = max(most_pairs, counted.joins[join, BEFORE] * counted.joins[join, JOINED])
    split = np.zeros(most_pairs)
    for row in range(len(weights.tables)):
        given, drawn = _row(weights, row), uniforms[row]
        total = _forward(counted, given, room)
        for sample in range(out.shape[1]):
            if total == -np.inf:
                out[row, sample, :] = -1
                continue
            chosen[:] = 0
            if counted.states[last] > 1:
                for s in range(counted.states[last]):
                    logits[s] = room.messages[counted.starts[last] + s] + given.accepted[s]
                chosen[last] = _drawn(logits, counted.states[last], drawn[last, sample])
            for k in range(last, -1, -1):
                first = buckets[k, INPUTS]
                for i in range(buckets[k, INPUT_COUNT]):
                    room.offsets[i] = inputs[first + i, OFFSET]
                    for axis in range(buckets[k, AXIS_COUNT]):
                        stride = plan.strides[inputs[first + i, STRIDES] + axis]
                        parent = plan.axis_buckets[buckets[k, AXES] + axis]
                        room.offsets[i] += stride * choice[parent]
                for a in range(buckets[k, CARD]):
                    state, weight = _begun(counted, given, room, k, a)
                    logits[a] = -np.inf
                    if state >= 0:
                        number = _joined(counted, room, k, a, state, weight)
                        logits[a] = room.prefix[number, chosen[k]]
                a = 0
                if k < last:
                    a = _drawn(logits, buckets[k, CARD], drawn[last - 1 - k, sample])
                    out[row, sample, buckets[k, VARIABLE]] = a
                choice[k] = a
                if counted.join_starts[k] < counted.join_starts[k + 1]:
                    state, weight = _begun(counted, given, room, k, a)
                    _joined(counted, room, k, a, state, weight)
                    _split(counted, room, split, k, a, drawn[:, sample], chosen)
