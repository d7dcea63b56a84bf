"""Compiled soft consistency: bounds on the values of a row by messages, without elimination.

Every table of two and more variables sends each of them a message, a number per value. With the
messages taken out of the tables and added to the variables' own beliefs,

    sum over v of max b_v  +  sum over f of max (table_f - messages of f)

is an upper bound on the maximum whatever the messages are. `visit` adds the max-marginals of a
variable's tables to its belief, and divides the belief equally among those of its tables that have
a variable yet to be visited: sequential reweighted message passing (Kolmogorov 2006, 2015), which
never raises the bound. A value is removed where some table does not support it, and where its bound
(the total less what the value loses against the best one of its variable) does not exceed
`enough`. The totals are kept up to date: a visit computes the maxima of all tables that it visits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cmpe.core.compiler.functions import njit

TOTAL, ENOUGH, BASE, MARGIN = range(4)  # of NetworkState.levels


class Net(NamedTuple):
    """The tables of a row; slot s is one axis of one table."""

    place: np.ndarray  # (n + 1,) where each variable's values start
    offsets: np.ndarray  # (F + 1,) of entries
    starts: np.ndarray  # (F + 1,) of slots
    variable: np.ndarray  # (S,)
    stride: np.ndarray  # (S,)
    sends: np.ndarray  # (S,) where each slot's message starts
    table: np.ndarray  # (S,)
    own: np.ndarray  # (n + 1,) into slots
    slots: np.ndarray  # (S,) by variable
    order: np.ndarray  # (n,)
    ahead: np.ndarray  # (2, S) whether the table has a variable yet to come, forwards, backwards
    share: np.ndarray  # (n,) of a variable's belief, for each table ahead
    alone: np.ndarray  # (V,) what is maximised: the variables' own tables
    values: np.ndarray  # (E,) tables of two and more variables


class NetworkState(NamedTuple):
    """The values, messages and bounds of a row, all of them changed in place."""

    size: np.ndarray  # (n,) values left
    left: np.ndarray  # (V,) which: the first size[v] of each variable's part
    belief: np.ndarray  # (V,)
    message: np.ndarray  # (M,)
    best: np.ndarray  # (n + F,) the largest number of each belief, then of each table
    dirty: np.ndarray  # (n,) variables to visit
    levels: np.ndarray  # (4,) TOTAL, ENOUGH, BASE, MARGIN: what rounding may have taken off
    scratch: np.ndarray  # (2, most values)
    axes: np.ndarray  # (4, most axes) scratch


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _collect_pair(net, state, slot, other, first):
    """For each value left of one variable of a table of two: the best it can get. (n,) ops."""
    out = state.scratch[0]
    v, u = net.variable[slot], net.variable[other]
    stride, step = net.stride[slot], net.stride[other]
    at, sent = net.sends[slot], net.sends[other]
    pv, pu = net.place[v], net.place[u]
    if stride > step:
        for i in range(state.size[v]):
            a = state.left[pv + i]
            row, highest = first + a * stride, -np.inf
            for j in range(state.size[u]):
                b = state.left[pu + j]
                x = net.values[row + b * step] - state.message[sent + b]
                highest = max(highest, x)
            out[i] = highest - state.message[at + a]
    else:  # along the rows of the table, too
        for i in range(state.size[v]):
            out[i] = -np.inf
        for j in range(state.size[u]):
            b = state.left[pu + j]
            row, sunk = first + b * step, state.message[sent + b]
            for i in range(state.size[v]):
                x = net.values[row + state.left[pv + i] * stride] - sunk
                out[i] = max(out[i], x)
        for i in range(state.size[v]):
            out[i] -= state.message[at + state.left[pv + i]]
    return state.size[v] * state.size[u]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _collect_many(net, state, slot, table):
    """`_collect_pair` for a table of any number of variables: an odometer over the values left."""
    out, axes = state.scratch[0], state.axes
    low, high = net.starts[table], net.starts[table + 1]
    v = net.variable[slot]
    for i in range(state.size[v]):
        out[i] = -np.inf
    count, work = high - low, 1
    at = net.offsets[table]
    rest = 0.0
    mine = 0
    for j in range(count):
        s = low + j
        u = net.variable[s]
        a = state.left[net.place[u]]
        axes[0, j] = 0
        at += a * net.stride[s]
        if s == slot:
            mine = j
        else:
            rest += state.message[net.sends[s] + a]
        work *= state.size[u]
    for _ in range(work):
        i = axes[0, mine]
        out[i] = max(out[i], net.values[at] - rest)
        j = count - 1
        while j >= 0:
            s = low + j
            u = net.variable[s]
            k = axes[0, j]
            a = state.left[net.place[u] + k]
            k = k + 1 if k + 1 < state.size[u] else 0
            b = state.left[net.place[u] + k]
            axes[0, j] = k
            at += (b - a) * net.stride[s]
            if s != slot:
                rest += state.message[net.sends[s] + b] - state.message[net.sends[s] + a]
            if k > 0:
                break
            j -= 1
    for i in range(state.size[v]):
        out[i] -= state.message[net.sends[slot] + state.left[net.place[v] + i]]
    return work


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def drop(net, state, v, i):
    """Take the i-th value left of v away."""
    p, last = net.place[v], state.size[v] - 1
    state.left[p + i], state.left[p + last] = state.left[p + last], state.left[p + i]
    state.size[v] = last


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def touch(net, state, v):
    """The neighbours of v have to be visited."""
    for i in range(net.own[v], net.own[v + 1]):
        f = net.table[net.slots[i]]
        for s in range(net.starts[f], net.starts[f + 1]):
            u = net.variable[s]
            if u != v:
                state.dirty[u] = 1


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _score(net, state, v):
    """scratch[1]: what each value left of v gets from all its tables together."""
    p, scores = net.place[v], state.scratch[1]
    for k in range(state.size[v]):
        scores[k] = state.belief[p + state.left[p + k]]
    for i in range(net.own[v], net.own[v + 1]):
        s = net.slots[i]
        f = net.table[s]
        low = net.starts[f]
        if net.starts[f + 1] - low == 2:
            _collect_pair(net, state, s, low + 1 if s == low else low, net.offsets[f])
        else:
            _collect_many(net, state, s, f)
        for k in range(state.size[v]):
            scores[k] += state.scratch[0, k]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def favourite(net, state, v):
    """The value of v whose max-marginals, summed over its tables, are greatest."""
    _score(net, state, v)
    best = 0
    for k in range(state.size[v]):
        if state.scratch[1, k] > state.scratch[1, best]:
            best = k
    return state.left[net.place[v] + best]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _add_up(net, state, v, s):
    """Add what was collected at slot s to the beliefs of v; a value without support is out."""
    p, k = net.place[v], state.size[v] - 1
    while k >= 0:
        gain = state.scratch[0, k]
        a = state.left[p + k]
        if gain == -np.inf:
            state.scratch[0, k] = state.scratch[0, state.size[v] - 1]
            drop(net, state, v, k)
        else:
            state.message[net.sends[s] + a] += gain
            state.belief[p + a] += gain
        k -= 1


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def visit(net, state, v, way):
    """Collect, drop values, deal out; -1 if no value is left, else the work it took."""
    p, n = net.place[v], len(net.order)
    work = 0
    before, ahead = state.size[v], 0
    old = state.levels[TOTAL]
    total = old - state.best[v]
    for i in range(net.own[v], net.own[v + 1]):
        s = net.slots[i]
        f = net.table[s]
        low = net.starts[f]
        ahead += net.ahead[way, s]
        if net.starts[f + 1] - low == 2:
            other = low + 1 if s == low else low
            work += _collect_pair(net, state, s, other, net.offsets[f])
        else:
            work += _collect_many(net, state, s, f)
        total -= state.best[n + f]
        state.best[n + f] = 0.0
        _add_up(net, state, v, s)
        if state.size[v] == 0:
            return -1
    best = -np.inf
    for k in range(state.size[v]):
        best = max(best, state.belief[p + state.left[p + k]])
    total += best
    reach = total + state.levels[MARGIN] - best
    k = state.size[v] - 1
    while k >= 0:
        if reach + state.belief[p + state.left[p + k]] <= state.levels[ENOUGH]:
            drop(net, state, v, k)
        k -= 1
    if state.size[v] == 0:
        return -1
    state.levels[TOTAL] = total
    if state.size[v] < before or total < old - 1e-9 * (1.0 + abs(old)):
        touch(net, state, v)
    share = net.share[v]
    for i in range(net.own[v], net.own[v + 1]):
        s = net.slots[i]
        if net.ahead[way, s]:
            for k in range(state.size[v]):
                a = state.left[p + k]
                state.message[net.sends[s] + a] -= share * state.belief[p + a]
            state.best[n + net.table[s]] = share * best
    keep = 1.0 - share * ahead
    for k in range(state.size[v]):
        state.belief[p + state.left[p + k]] *= keep
    state.best[v] = keep * best
    return work + 8


@njit(cache=True, nogil=True, counted=False)
def losses(net, state, out):
    """out (V,): what each value left gets less than the best of its variable; False if none is.

    That is known while a variable is visited: afterwards its tables hold it no longer. So this is a
    sweep.
    """
    for i in range(len(net.order)):
        v = net.order[i]
        p, best = net.place[v], -np.inf
        _score(net, state, v)
        for k in range(state.size[v]):
            best = max(best, state.scratch[1, k])
        for k in range(state.size[v]):
            score = state.scratch[1, k]
            out[p + state.left[p + k]] = np.inf if score == -np.inf else best - score
        if visit(net, state, v, 0) < 0:
            return False
    return True


@njit(cache=True, nogil=True, counted=False)
def begin(net, state):
    """Beliefs and totals anew from the tables and messages; False if nothing is possible."""
    n = len(net.order)
    total = state.levels[BASE]
    for v in range(n):
        p, best = net.place[v], -np.inf
        k = state.size[v] - 1
        while k >= 0:
            a = state.left[p + k]
            x = net.alone[p + a]
            for i in range(net.own[v], net.own[v + 1]):
                x += state.message[net.sends[net.slots[i]] + a]
            state.belief[p + a] = x
            if x == -np.inf:
                drop(net, state, v, k)
            best = max(best, x)
            k -= 1
        if state.size[v] == 0:
            return False
        state.best[v] = best
        total += best
        state.dirty[v] = 1
    for f in range(len(net.offsets) - 1):
        low, highest = net.starts[f], -np.inf
        if net.starts[f + 1] - low == 2:
            _collect_pair(net, state, low, low + 1, net.offsets[f])
        else:
            _collect_many(net, state, low, f)
        for k in range(state.size[net.variable[low]]):
            highest = max(highest, state.scratch[0, k])
        if highest == -np.inf:
            return False
        state.best[n + f] = highest
        total += highest
    state.levels[TOTAL] = total
    return True


@njit(cache=True, nogil=True, counted=False)
def decode(net, state, way, z, full):
    """Variable by variable, the favourite given those before; the state is as it was."""
    n = len(net.order)
    for i in range(n):
        v = net.order[i] if way == 0 else net.order[n - 1 - i]
        z[v] = favourite(net, state, v)
        p = net.place[v]
        for k in range(state.size[v]):
            if state.left[p + k] == z[v]:
                state.left[p + k] = state.left[p]
                state.left[p] = z[v]
        full[v] = state.size[v]
        state.size[v] = 1
    for v in range(n):
        state.size[v] = full[v]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def sweep(net, state, way):
    """Visit the variables that need it, in order or backwards; -1 if one has no value left."""
    n = len(net.order)
    work = 0
    for i in range(n):
        v = net.order[i] if way == 0 else net.order[n - 1 - i]
        if state.dirty[v]:
            state.dirty[v] = 0
            done = visit(net, state, v, way)
            if done < 0:
                return -1
            work += done
            if state.levels[TOTAL] + state.levels[MARGIN] <= state.levels[ENOUGH]:
                return -1
    return work


@njit(cache=True, nogil=True, counted=False)
def sweeps(net, state, count):
    """Some sweeps there and back over all variables; whether anything is possible still."""
    for _ in range(count):
        for way in range(2):
            for v in range(len(net.order)):
                state.dirty[v] = 1
            if sweep(net, state, way) < 0:
                return False
    return True


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def propagate(net, state, most):
    """Visit what needs it until nothing does, at most `most` times there and back; -1 if a
    variable has no value left, else the work."""
    work = 0
    for _ in range(most):
        for way in range(2):
            done = sweep(net, state, way)
            if done < 0:
                return -1
            work += done
        if work == 0 or not state.dirty.any():
            break
    return work
