"""The compiled Gibbs sampler: one chain at a time, one generator per chain."""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.loops import maximum


@njit(cache=True)
def _uniform(state):
    """SplitMix64: a number in [0, 1) and the next state."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def chains(seeds, betas, flat, values, by_variable, tables, steps, out):
    """Run a chain for each seed, a sweep at each inverse temperature; its last state goes to `out`.

    A chain begins at `out` (chains, n), where -1 stands for a random value. `values` are the finite
    entries of the tables `flat`; variable v is in the tables
    `tables[by_variable[v]:by_variable[v + 1]]`, with the strides `steps`.
    """
    cardinalities, offsets, starts, variables, strides = flat
    n = len(cardinalities)
    position = np.zeros(len(offsets) - 1, dtype=np.int64)
    weights = np.zeros(maximum(cardinalities))
    state = np.zeros(1, dtype=np.uint64)
    for chain in range(len(seeds)):
        z = out[chain]
        state[0] = seeds[chain]
        for v in range(n):
            if z[v] < 0:
                z[v] = int(_uniform(state) * cardinalities[v])
        for f in range(len(position)):
            position[f] = offsets[f]
            for s in range(starts[f], starts[f + 1]):
                position[f] += strides[s] * z[variables[s]]
        for beta in betas:
            for v in range(n):
                k = cardinalities[v]
                weights[:k] = 0.0
                for i in range(by_variable[v], by_variable[v + 1]):
                    base = position[tables[i]] - steps[i] * z[v]
                    for a in range(k):
                        weights[a] += values[base + steps[i] * a]
                highest = maximum(weights[:k])
                total = 0.0
                for a in range(k):
                    total += np.exp(beta * (weights[a] - highest))
                    weights[a] = total
                threshold = _uniform(state) * total
                chosen = 0
                while chosen < k - 1 and weights[chosen] <= threshold:
                    chosen += 1
                for i in range(by_variable[v], by_variable[v + 1]):
                    position[tables[i]] += steps[i] * (chosen - z[v])
                z[v] = chosen
