"""Soft consistency: bounds, values taken away and moved functions against enumeration."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given

from tests.core.cases import examples
from tests.core.networks import Networked
from tests.problems import seeds


def moved(case, z):
    """The value of free variables z (N, F): beliefs, and tables less their messages."""
    net, state = case.network.net, case.network.state
    total = np.full(len(z), state.levels[2])
    for v in range(z.shape[1]):
        total = total + state.belief[net.place[v] + z[:, v]]
    for f in range(len(net.offsets) - 1):
        at = np.full(len(z), net.offsets[f])
        for s in range(net.starts[f], net.starts[f + 1]):
            at += net.stride[s] * z[:, net.variable[s]]
            total = total - state.message[net.sends[s] + z[:, net.variable[s]]]
        total = total + net.values[at]
    return total


@given(seeds)
@examples(150)
def test_messages_move_functions_and_bounds_hold(seed):
    case = Networked(seed)
    network, (z, h, t) = case.network, case.every(0)
    allowed = (t <= case.limits).all(axis=1)
    best, bounds = h[allowed].max(initial=-np.inf), [network.upper]
    for _ in range(3):
        network.tighten(np.inf, most=2)
        bounds.append(network.upper)
        assert network.upper >= best - 1e-9
        assert network.possible or best == -np.inf
        if not network.possible:
            return
        inside = np.ones(len(z), dtype=bool)
        for v, left in zip(case.free, network.domains(), strict=True):
            inside &= np.isin(z[:, v], left)
        assert not (allowed & (h > -np.inf) & ~inside).any()
        if np.isfinite(t).all():
            priced = h - (t - case.limits) @ case.mu
            finite = inside & (priced > -np.inf)
            assert np.allclose(moved(case, z[finite][:, case.free]), priced[finite], atol=1e-8)
            assert network.now >= priced[inside].max(initial=-np.inf) - 1e-9
    assert (np.diff(bounds) <= 1e-9).all()


@given(seeds)
@examples(100)
def test_only_better_assignments_stay(seed):
    """Values whose bound does not exceed what is required are out; better assignments stay."""
    case = Networked(seed)
    network, (z, h, t) = case.network, case.every(0)
    allowed = (t <= case.limits).all(axis=1) & (h > -np.inf)
    if not allowed.any():
        return
    enough = float(np.median(h[allowed]))
    network.require(enough)
    network.tighten(np.inf, most=4)
    better = z[allowed & (h > enough + 1e-9)]
    if not network.possible:
        assert not len(better)
        return
    for v, left in zip(case.free, network.domains(), strict=True):
        assert np.isin(better[:, v], left).all()
    assert network.upper >= h[allowed].max() - 1e-9


@given(seeds)
@examples(60)
def test_decoded_values_are_left_and_the_state_stays(seed):
    case = Networked(seed)
    network = case.network
    network.tighten(np.inf, most=2)
    if network.possible:
        before, domains = network.now, network.domains()
        for way in (0, 1):
            values = network.decoded(way)
            assert all(a in left for a, left in zip(values, domains, strict=True))
        assert network.now == before
        for left, after in zip(domains, network.domains(), strict=True):
            assert (left == after).all()


@given(seeds)
@examples(60)
def test_no_assignment_exceeds_the_bound_less_the_loss_of_a_value(seed):
    case = Networked(seed)
    network, (z, h, t) = case.network, case.every(0)
    if not network.possible:
        return
    network.tighten(np.inf, most=1)
    if not network.possible:
        return
    before, losses = network.now, network.losses()
    worth = np.where((t <= case.limits).all(axis=1), h, -np.inf)
    for v, (p, q) in enumerate(pairwise(network.shape.place)):
        own = losses[p:q]
        assert (own >= 0.0).all()
        assert own.min() == 0.0 or not network.possible
        for a in range(q - p):
            best = worth[z[:, case.free[v]] == a].max(initial=-np.inf)
            assert best <= before - own[a] + 1e-8
