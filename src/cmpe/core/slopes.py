"""Compiled: other tables at the maximisers of beliefs and tables (`solvers.wide.prices`)."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit


@njit(cache=True, nogil=True, counted=False)
def sums_at_maxima(net, state, alone, values, out):
    """Add up other tables (m, V) and (m, E) where each belief and each table is greatest."""
    for v in range(len(net.order)):
        p, best = net.place[v], 0
        for k in range(state.size[v]):
            if state.belief[p + state.left[p + k]] > state.belief[p + state.left[p + best]]:
                best = k
        for j in range(len(out)):
            out[j] += alone[j, p + state.left[p + best]]
    for f in range(len(net.offsets) - 1):
        at = _best_entry(net, state, f)
        for j in range(len(out)):
            out[j] += values[j, at]


@njit(inner=True, nogil=True, counted=False, forceinline=True)
def _best_entry(net, state, f):
    """Where table f less its messages is greatest, among the values left."""
    low, count, work = net.starts[f], net.starts[f + 1] - net.starts[f], 1
    digits, at, rest = state.axes[0], net.offsets[f], 0.0
    for j in range(count):
        u = net.variable[low + j]
        a = state.left[net.place[u]]
        digits[j] = 0
        at += a * net.stride[low + j]
        rest += state.message[net.sends[low + j] + a]
        work *= state.size[u]
    best, highest = at, -np.inf
    for _ in range(work):
        if net.values[at] - rest > highest:
            best, highest = at, net.values[at] - rest
        j = count - 1
        while j >= 0:
            s = low + j
            u = net.variable[s]
            k, p = digits[j], net.place[u]
            a = state.left[p + k]
            k = k + 1 if k + 1 < state.size[u] else 0
            b = state.left[p + k]
            digits[j] = k
            at += (b - a) * net.stride[s]
            rest += state.message[net.sends[s] + b] - state.message[net.sends[s] + a]
            if k > 0:
                break
            j -= 1
    return best
