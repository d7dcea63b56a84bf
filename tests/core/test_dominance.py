"""Dominated values against the definition: the stand-in is no worse in h and in every t."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import branching, consistency, dominance
from tests.core.networks import domains, network_of, random_given

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=150, deadline=None)
@given(seeds, st.integers(0, 2))
def test_a_stand_in_is_never_worse_and_the_optimum_stays(seed, constraints):
    problem = random_given(seed, constraints, coarse=True)
    net, judged, state = network_of(problem)
    branching.price(net, judged, state, np.zeros(constraints))
    if not consistency.begin(net, state):
        return
    before = domains(net, state)
    gain = np.zeros((2 + 2 * constraints, max(problem.cards)))
    instead = np.full(len(state.left), -1)
    count = dominance.dominate(net, judged, state, 0, len(problem.cards), gain, instead)
    after = domains(net, state)
    assert count == sum(map(len, before)) - sum(map(len, after))
    best, every = -np.inf, problem.every
    for z in every[:400]:
        if not all(z[v] in before[v] for v in range(len(before))):
            continue
        for v, a in enumerate(z):
            b = instead[net.place[v] + a]
            if a in before[v] - after[v] and b >= 0:
                other = z.copy()
                other[v] = b
                # Values that go earlier narrow what later ones are compared on.
                if all(u == v or other[u] in after[u] for u in range(len(other))):
                    assert problem.value(0, other) >= problem.value(0, z) - 1e-9
    for z in every:
        if all(z[v] in after[v] for v in range(len(after))) and problem.is_feasible(z):
            best = max(best, problem.value(0, z))
    assert best == pytest.approx(problem.best())
