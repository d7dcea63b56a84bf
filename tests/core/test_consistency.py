"""Soft consistency against enumeration: bounds hold, values of better assignments stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import branching, consistency
from cmpe.core.consistency import ENOUGH, MARGIN, TOTAL
from tests.core.networks import Given, domains, network_of, random_given

seeds = st.integers(0, 2**32 - 1)


def reparametrised(problem: Given, net, state) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The reference: beliefs are tables plus messages, tables lose the messages."""
    beliefs = [alone[0].copy() for alone in problem.alone]
    tables = []
    for f, scope in enumerate(problem.scopes):
        table = problem.tables[f][0].copy()
        for axis, v in enumerate(scope):
            at = net.sends[net.starts[f] + axis]
            message = state.message[at : at + problem.cards[v]]
            beliefs[v] = beliefs[v] + message
            table -= message.reshape([-1 if i == axis else 1 for i in range(len(scope))])
        tables.append(table)
    return beliefs, tables


@settings(max_examples=80, deadline=None)
@given(seeds, st.integers(0, 4), st.booleans(), st.booleans())
def test_sweeps_keep_the_sum_and_only_lower_the_bound(seed, count, coarse, limited):
    problem = random_given(seed, coarse=coarse)
    net, judged, state = network_of(problem)
    branching.price(net, judged, state, np.zeros(0))
    every = problem.every
    h = np.array([problem.value(0, z) for z in every])
    if limited:
        state.levels[ENOUGH] = np.median(h)
    enough = state.levels[ENOUGH]
    if not (consistency.begin(net, state) and consistency.sweeps(net, state, count)):
        assert not (h > enough + 1e-9).any()
        return
    left = domains(net, state)
    for z in every[h > enough + 1e-9]:
        assert all(z[v] in left[v] for v in range(len(left)))
    before = state.levels[TOTAL]
    assert consistency.begin(net, state)
    assert state.levels[TOTAL] == pytest.approx(before, abs=1e-9)
    beliefs, tables = reparametrised(problem, net, state)
    total = problem.base[0] + sum(b[sorted(d)].max() for b, d in zip(beliefs, left, strict=True))
    for scope, table in zip(problem.scopes, tables, strict=True):
        total += table[np.ix_(*(sorted(left[v]) for v in scope))].max()
    assert total == pytest.approx(before, abs=1e-9)
    assert state.levels[TOTAL] + state.levels[MARGIN] >= h.max() or limited


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_losses_and_decoding(seed):
    problem = random_given(2 * (seed // 2))  # no zeros
    net, judged, state = network_of(problem)
    branching.price(net, judged, state, np.zeros(0))
    assert consistency.begin(net, state)
    assert consistency.sweeps(net, state, 2)
    beliefs, tables = reparametrised(problem, net, state)
    losses = np.zeros(len(state.left))
    consistency.losses(net, state, losses)
    for v, belief in enumerate(beliefs):
        score = belief.copy()
        for scope, table in zip(problem.scopes, tables, strict=True):
            if v in scope:
                score += np.moveaxis(table, scope.index(v), 0).reshape(len(score), -1).max(axis=1)
        p = net.place[v]
        np.testing.assert_allclose(losses[p : p + len(score)], score.max() - score, atol=1e-9)
    z, sizes = np.zeros((2, len(beliefs)), dtype=np.int64)
    before = domains(net, state)
    for way in (0, 1):
        consistency.decode(net, state, way, z, sizes)
        assert problem.value(0, z) <= state.levels[TOTAL] + state.levels[MARGIN]
    assert domains(net, state) == before
