"""Dominated values: stand-ins are no worse, and a best assignment stays."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.core.cases import examples
from tests.core.networks import Networked
from tests.problems import Shape, seeds


@given(seeds)
@examples(200)
def test_stand_ins_are_no_worse(seed):
    case = Networked(seed, Shape(variables=5, values=6, arity=2, factors=5))
    network, (z, h, t) = case.network, case.every(0)
    if not network.possible:
        return
    domains = network.domains()
    count = network.dominate(np.inf)
    assert count == sum(len(a) - len(b) for a, b in zip(domains, network.domains(), strict=True))
    allowed = (t <= case.limits).all(axis=1) & (h > -np.inf)
    inside = np.ones(len(z), dtype=bool)
    for v, left in zip(case.free, network.domains(), strict=True):
        inside &= np.isin(z[:, v], left)
    best = h[allowed].max(initial=-np.inf)
    kept = h[allowed & inside].max(initial=-np.inf)
    assert best == kept or np.isclose(best, kept, atol=1e-9)
    order = {assignment.tobytes(): i for i, assignment in enumerate(z)}
    earlier = np.ones(len(z), dtype=bool)
    for v, instead in zip(case.free, network.stand_ins(), strict=True):
        for a in np.flatnonzero(instead >= 0):
            for i in np.flatnonzero(earlier & (z[:, v] == a) & (h > -np.inf)):
                other = z[i].copy()
                while instead[other[v]] >= 0:
                    other[v] = instead[other[v]]
                j = order[other.tobytes()]
                assert h[j] >= h[i] - 1e-9
                most = np.where(np.isneginf(t[i]), case.limits, t[i])
                assert (t[j] <= most + 1e-9).all()
        earlier &= np.isin(z[:, v], network.domains()[case.free.index(v)])
