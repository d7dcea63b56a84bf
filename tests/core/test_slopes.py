"""Sums of other tables where beliefs and tables are greatest."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.slopes import sums_at_maxima
from tests.core.cases import examples
from tests.core.networks import Networked
from tests.problems import seeds


@given(seeds)
@examples(100)
def test_sums_of_the_tables_themselves_are_their_maxima(seed):
    """Beliefs, and tables less their messages, are added up at their own greatest entries."""
    case = Networked(seed)
    network = case.network
    network.tighten(np.inf, most=3)
    if not network.possible:
        return
    net, state = network.net, network.state
    tables, wanted = net.values.copy(), 0.0
    for v, left in enumerate(network.domains()):
        wanted += state.belief[net.place[v] + left].max()
    for f in range(len(net.offsets) - 1):
        slots = range(net.starts[f], net.starts[f + 1])
        domains = [network.domains()[net.variable[s]] for s in slots]
        grid = np.stack(np.meshgrid(*domains, indexing="ij"), axis=-1).reshape(-1, len(domains))
        at = np.full(len(grid), net.offsets[f])
        for digits, s in zip(grid.T, slots, strict=True):
            at += net.stride[s] * digits
        for digits, s in zip(grid.T, slots, strict=True):
            tables[at] -= state.message[net.sends[s] + digits]
        wanted += tables[at].max()
    out = np.array([1.0, 0.0])
    alone = np.stack([state.belief, np.ones_like(state.belief)])
    sums_at_maxima(net, state, alone, np.stack([tables, np.ones_like(tables)]), out)
    assert np.isclose(out[0] - 1.0, wanted, atol=1e-8)
    assert out[1] == len(net.order) + len(net.offsets) - 1
