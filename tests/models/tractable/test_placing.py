"""A cutset network over more variables, with its states in another order."""

import numpy as np
import pytest

from cmpe.domain import Domain, Placement
from cmpe.models.tractable.placing import placed
from tests.problems import all_assignments, random_cutset


@pytest.mark.parametrize("seed", range(6))
def test_values_stay(seed):
    network, rng = random_cutset(seed), np.random.default_rng(seed)
    count = network.variables
    places = tuple(rng.permutation(count + 1)[:count].tolist())
    orders = tuple(tuple(rng.permutation(k).tolist()) for k in network.cardinalities)
    cards = [2] * (count + 1)
    for place, size in zip(places, network.cardinalities, strict=True):
        cards[place] = size
    wider = placed(network, Placement(Domain(tuple(cards)), places, orders))
    rows = all_assignments(cards)
    own = np.stack([np.array(orders[v])[rows[:, places[v]]] for v in range(count)], axis=1)
    np.testing.assert_allclose(wider.value(rows), network.value(own))
