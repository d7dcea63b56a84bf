"""A cutset network as one log-linear model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.errors import TooLarge
from cmpe.models.tractable.expansion import expanded_entries
from tests.models.tractable.test_cutset import agrees
from tests.problems import all_assignments, network_over, random_cutset, seeds


@given(seeds)
@settings(max_examples=100)
def test_expansion_is_the_same_function(seed):
    network = random_cutset(seed)
    everything = all_assignments(network.cardinalities)
    model = network.to_model()
    np.testing.assert_allclose(model.value(everything), network.value(everything), atol=1e-9)
    for leaf, context in enumerate(network.contexts):
        inside = everything[agrees(everything, context)]
        np.testing.assert_allclose(
            network.leaf_model(leaf).value(inside), network.value(inside), atol=1e-9
        )
        assert (network.locate(inside) == leaf).all()


def test_expansion_is_refused_before_memory_is_taken():
    network = network_over(np.random.default_rng(3), [2, 3, 2, 2])
    with pytest.raises(TooLarge, match="expands to"):
        network.to_model(most_entries=expanded_entries(network) - 1)
    network.to_model(most_entries=expanded_entries(network))


@given(seeds)
@settings(max_examples=40)
def test_the_count_is_an_upper_bound_of_the_entries(seed):
    network = random_cutset(seed)
    assert len(network.to_model().flat.values) <= expanded_entries(network)
