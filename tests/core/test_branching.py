"""Branch and bound on soft consistency against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.core.cases import examples
from tests.core.networks import Networked
from tests.problems import seeds


@given(seeds)
@examples(150)
def test_the_best_assignment_is_found_and_bounds_hold_on_the_way(seed):
    case = Networked(seed)
    network, (z, h, t) = case.network, case.every(0)
    allowed = (t <= case.limits).all(axis=1) & (h > -np.inf)
    best, incumbent = h[allowed].max(initial=-np.inf), -np.inf
    if not network.possible:
        assert best == -np.inf
        return
    network.plant(int(case.rng.choice([1 << 10, 1 << 20])))
    for _ in range(1000):
        answer = network.explore(np.inf, nodes=int(case.rng.integers(1, 6)))
        if answer is not None:
            at = int(np.flatnonzero((z[:, case.free] == answer).all(axis=1))[0])
            assert allowed[at]
            assert h[at] > incumbent - 1e-9
            incumbent = h[at]
            network.accept(incumbent, incumbent)
        assert max(incumbent, network.open_bound) >= best - 1e-9
        if network.explored:
            break
    assert network.explored
    if network.open_bound <= incumbent + 1e-9:  # no level was given up for lack of room
        assert np.isclose(incumbent, best, atol=1e-9) or incumbent == best
