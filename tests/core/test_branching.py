"""Branch and bound against enumeration: the optimum, proved, whatever the room and the limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import branching, consistency
from cmpe.core.branching import BEST, BOUND, DOWN, LOST, NODES, STAGE
from cmpe.core.consistency import ENOUGH, MARGIN, TOTAL
from tests.core.networks import network_of, random_given

seeds = st.integers(0, 2**32 - 1)


def tree_of(net, state, multipliers, places=64, levels=8):
    n, values, m = len(state.size), len(state.left), len(multipliers)
    opened = branching.Opened(
        domains=np.zeros((places, (values + 7) // 8), dtype=np.uint8),
        bound=np.zeros(places),
        branched=np.zeros(places, dtype=np.int64),
        multipliers=np.zeros((places, m)),
    )
    dive = branching.Levels(
        size=np.zeros((levels, n), dtype=np.int64),
        left=np.zeros((levels, values), dtype=np.int64),
        belief=np.zeros((levels, values)),
        message=np.zeros((levels, len(state.message))),
        best=np.zeros((levels, len(state.best))),
        total=np.zeros(levels),
        bound=np.zeros(levels),
        variable=np.zeros(levels, dtype=np.int64),
        value=np.zeros(levels, dtype=np.int64),
    )
    counts = np.array([0, 0, DOWN, 0, 0, 0, -1, -1, 0])
    return branching.Tree(
        opened=opened,
        dive=dive,
        counts=counts,
        levels=np.array([-np.inf, -np.inf, np.inf]),
        message=state.message.copy(),
        failures=np.zeros(n),
        multipliers=multipliers.copy(),
        steps=np.full(m, 0.3),
        moved=np.zeros(m),
        leaf=np.zeros(n, dtype=np.int64),
        sizes=np.zeros(n, dtype=np.int64),
        answer=np.zeros(n, dtype=np.int64),
    )


@settings(max_examples=100, deadline=None)
@given(seeds, st.integers(0, 2), st.booleans(), st.sampled_from([1, 3, 64]), st.integers(1, 5))
def test_the_optimum_is_reached_and_proved(seed, constraints, coarse, places, nodes):
    problem = random_given(seed, constraints, coarse=coarse)
    net, judged, state = network_of(problem)
    rng = np.random.default_rng(seed)
    multipliers = rng.choice([0.0, 0.5, 2.0], constraints)
    branching.price(net, judged, state, multipliers)
    truth, best = problem.best(), -np.inf
    if not consistency.begin(net, state):
        assert truth == -np.inf
        return
    tree = tree_of(net, state, multipliers, places, levels=1 + seed % 3)
    tree.levels[BOUND] = state.levels[TOTAL] + state.levels[MARGIN]
    for _ in range(2000):
        if branching.explore(net, judged, state, tree, nodes):
            z = tree.answer
            h = problem.value(0, z)
            assert h > best - 1e-9
            assert problem.is_feasible(z)
            best = max(best, h)
            tree.levels[BEST] = state.levels[ENOUGH] = best
        bound = branching.open_bound(tree)
        assert max(bound, best) >= truth - 1e-9
        if tree.counts[STAGE] == branching.DONE:
            break
    assert tree.counts[STAGE] == branching.DONE
    assert tree.counts[NODES] > 0
    assert bound == tree.levels[LOST]
    if bound == -np.inf:
        assert best == pytest.approx(truth, abs=1e-9)
    else:
        assert places < 64  # what was lost counts with its bound
        assert max(best, bound) >= truth - 1e-9


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_priced_tables_are_the_lagrangian(seed):
    problem = random_given(seed, constraints=2)
    net, judged, state = network_of(problem)
    multipliers = np.random.default_rng(seed).choice([0.0, 0.5, 2.0], 2)
    branching.price(net, judged, state, multipliers)
    for z in problem.every[:20]:
        expected = problem.value(0, z)
        for j, mu in enumerate(multipliers):
            expected -= mu * (problem.value(1 + j, z) - judged.limits[j])
        got = state.levels[consistency.BASE] + net.alone[net.place[:-1] + z].sum()
        for f, scope in enumerate(problem.scopes):
            slots = range(net.starts[f], net.starts[f + 1])
            at = sum(net.stride[s] * z[v] for s, v in zip(slots, scope, strict=True))
            got += net.values[net.offsets[f] + at]
        assert got == pytest.approx(expected)
