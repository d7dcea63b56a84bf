"""Joint leaves: disjoint, complete, and log-linear inside."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import CutsetNetwork, Distance, LogLinearModel, learn_chow_liu
from cmpe.errors import MethodError
from cmpe.models.tractable.branching import (
    contexts_of,
    joint_leaves,
    leaf_model,
    models_of,
    simplest,
)
from cmpe.models.tractable.expansion import expanded_entries
from tests.problems import all_assignments, network_over, random_cutset, seeds


@given(seeds)
@settings(max_examples=50)
def test_joint_leaves_are_disjoint_and_cover_everything(seed):
    network = random_cutset(seed)
    other = random_cutset(seed + 1)
    functions = [network, LogLinearModel(network.cardinalities)]
    if other.cardinalities == network.cardinalities:
        functions.append(other)
    everything = all_assignments(network.cardinalities)
    leaves = joint_leaves(functions)
    inside = [((x.context < 0) | (x.context == everything)).all(axis=1) for x in leaves]
    assert (np.sum(inside, axis=0) == 1).all()


@given(seeds)
@settings(max_examples=50)
def test_inside_a_joint_leaf_functions_are_its_models(seed):
    network = random_cutset(seed)
    functions = [LogLinearModel(network.cardinalities), network]
    everything = all_assignments(network.cardinalities)
    for leaf in joint_leaves(functions):
        inside = everything[((leaf.context < 0) | (leaf.context == everything)).all(axis=1)]
        for function, model in zip(functions, models_of(functions, leaf), strict=True):
            np.testing.assert_allclose(model.value(inside), function.value(inside), atol=1e-9)


def deep_network() -> CutsetNetwork:
    return next(
        found
        for found in (network_over(np.random.default_rng(s), [2, 3, 2, 2]) for s in range(99))
        if found.leaves > 1
    )


def test_the_simplest_form_keeps_what_is_not_small():
    network, model = deep_network(), LogLinearModel((2,))
    assert simplest(model) is model
    assert simplest(network) is network
    assert simplest(network, expanded_entries(network) - 1) is network
    assert type(simplest(network, expanded_entries(network))) is LogLinearModel
    tree = learn_chow_liu(np.random.default_rng(0).integers(0, 2, (20, 3)))
    assert type(simplest(tree)) is LogLinearModel
    assert type(simplest(tree.network)) is LogLinearModel


def test_a_subclass_takes_the_row_of_its_parent():
    class Named(LogLinearModel):
        pass

    model = Named((2, 2))
    assert contexts_of(model).tolist() == [[-1, -1]]
    assert leaf_model(model, 0) is model


def test_functions_without_tables_have_no_leaves():
    h = Distance.between((0,), (1,), 2)
    assert simplest(h) is h
    with pytest.raises(MethodError, match=r"needs tables: .* found Distance"):
        joint_leaves([h])
    with pytest.raises(MethodError, match="kind Distance has no leaves"):
        leaf_model(h, 0)
