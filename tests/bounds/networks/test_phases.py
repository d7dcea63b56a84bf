"""Which neurons need columns and phases, by hand."""

from __future__ import annotations

import numpy as np

from cmpe.bounds.networks.neurons import Moves, hidden_layers
from cmpe.bounds.networks.phases import kinds_of, sides_needed
from cmpe.models.relu import ReluNetwork

# Five hidden neurons of one input x in [0, 1]: x - 0.5 three times, x + 1 (on), x - 2 (off).
# The output adds the first, subtracts the second, does not read the third.
NETWORK = ReluNetwork(
    (np.ones((5, 1)), np.array([[1.0, -1.0, 0.0, -1.0, -1.0]])),
    (np.array([-0.5, -0.5, -0.5, 1.0, -2.0]), np.zeros(1)),
)


def layers_of(network, image=0.0):
    images = np.full((1, network.inputs), image)
    return tuple(hidden_layers(network, Moves.around(network, images, float(network.inputs))))


def test_the_sign_of_a_weight_decides_the_side():
    layers = layers_of(NETWORK)
    ((lower, upper),) = sides_needed(NETWORK, np.array([[1.0]]), layers)
    assert lower.tolist() == [True, False, False, False, False]
    assert upper.tolist() == [False, True, False, True, False]  # the last one is always off
    ((turned_lower, turned_upper),) = sides_needed(NETWORK, np.array([[-1.0]]), layers)
    assert turned_lower.tolist() == upper.tolist()
    assert turned_upper.tolist() == lower.tolist()


def test_only_neurons_on_either_side_have_columns_and_only_upper_ones_a_phase():
    layers = layers_of(NETWORK)
    ((unstable, phased),) = kinds_of(layers, sides_needed(NETWORK, np.array([[1.0]]), layers))
    assert unstable.tolist() == [True, True, False, False, False]
    assert phased.tolist() == [False, True, False, False, False]


def test_several_rows_need_what_any_of_them_needs():
    layers = layers_of(NETWORK)
    both = np.array([[1.0], [-1.0]])
    ((lower, upper),) = sides_needed(NETWORK, both, layers)
    assert lower.tolist() == upper.tolist() == [True, True, False, True, False]


def test_needs_pass_through_layers_with_their_signs():
    """x - 0.5 enters the second layer with -1, which is subtracted: it must not be too small."""
    network = ReluNetwork(
        (np.ones((1, 1)), np.array([[-1.0]]), np.array([[-1.0]])),
        (np.array([-0.5]), np.array([0.25]), np.zeros(1)),
    )
    layers = layers_of(network)
    first, second = sides_needed(network, np.array([[1.0]]), layers)
    assert [side.tolist() for side in second] == [[False], [True]]
    assert [side.tolist() for side in first] == [[True], [False]]


def test_a_forced_neuron_needs_its_own_row():
    """Off in the second layer, z <= 0 must not see too small a z; on, not too large a one."""
    network = ReluNetwork(
        (np.ones((1, 1)), np.ones((1, 1)), np.zeros((1, 1))),
        (np.array([-0.5]), np.array([-0.25]), np.zeros(1)),
    )
    layers = layers_of(network)
    for sign, expected in ((0, (False, False)), (-1, (True, False)), (1, (False, True))):
        forced = (np.zeros(1, dtype=np.int8), np.full(1, sign, dtype=np.int8))
        first, _ = sides_needed(network, np.ones((1, 1)), layers, forced)
        assert tuple(bool(side[0]) for side in first) == expected


def test_a_network_without_hidden_layers_needs_nothing():
    affine = ReluNetwork((np.ones((1, 2)),), (np.zeros(1),))
    assert sides_needed(affine, np.ones((1, 1)), ()) == ()
    assert kinds_of((), ()) == []
