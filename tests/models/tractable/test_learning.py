"""Learning cutset networks: what they are, and that each setting does what it says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import CutsetSettings, learn_chow_liu, learn_cutset
from cmpe.errors import InputError
from tests.models.tractable.test_chow_liu import random_data
from tests.problems import all_assignments, seeds


def clusters(seed: int, count: int = 400, columns: int = 8) -> np.ndarray:
    """Column 0 decides how the others hang together: no single tree fits."""
    rng = np.random.default_rng(seed)
    switch = rng.integers(0, 2, count)
    data = rng.integers(0, 2, (count, columns))
    for v in range(2, columns):
        before = data[:, v - 1]
        copied = np.where(switch == 1, before, 1 - before)
        data[:, v] = np.where(rng.random(count) < 0.9, copied, data[:, v])
    data[:, 0] = switch
    return data.astype(np.uint8)


@given(seeds)
@settings(max_examples=60)
def test_a_learned_network_is_a_distribution(seed):
    data, cards = random_data(seed)
    rng = np.random.default_rng(seed)
    chosen = CutsetSettings(
        depth=int(rng.integers(0, 4)),
        minimum_rows=float(rng.integers(1, 5)),
        smoothing=float(rng.choice([0.0, 1.0])),
        inheritance=float(rng.choice([0.0, 5.0])),
        candidates=int(rng.integers(1, 4)),
    )
    weights = rng.random(len(data)) + 0.5 if rng.random() < 0.5 else None
    valid = data[::3] if rng.random() < 0.5 else None
    network = learn_cutset(data, chosen, cardinalities=cards, weights=weights, valid=valid)
    everything = all_assignments(cards)
    assert np.exp(network.value(everything)).sum() == pytest.approx(1.0)
    assert network.depth <= chosen.depth
    assert (network.value(data) > -np.inf).all()


def test_depth_zero_is_a_chow_liu_tree():
    data = clusters(0)
    network = learn_cutset(data, CutsetSettings(depth=0, smoothing=0.5))
    tree = learn_chow_liu(data, smoothing=0.5)
    assert network.leaves == 1
    assert (network.log_tables[0] == tree.log_tables).all()
    assert (network.parents[0] == tree.parents).all()


def test_a_split_finds_what_a_tree_cannot_say():
    data, test = clusters(0), clusters(1)
    tree = learn_chow_liu(data).log_likelihood(test).mean()
    settings_ = CutsetSettings(depth=1, candidates=8)
    network = learn_cutset(data, settings_)
    assert network.split_variables.tolist() == [0]
    assert network.log_likelihood(test).mean() > tree + 0.5


def test_likelihood_chooses_among_candidates():
    data = clusters(0)
    by_information = learn_cutset(data, CutsetSettings(depth=1, candidates=1))
    by_likelihood = learn_cutset(data, CutsetSettings(depth=1, candidates=8))
    assert by_likelihood.value(data).sum() >= by_information.value(data).sum()
    assert by_information.split_variables.tolist() != [0]


def test_minimum_rows():
    data = clusters(0)
    for least in (20, 60, 150):
        network = learn_cutset(data, CutsetSettings(depth=6, minimum_rows=least))
        assert np.bincount(network.locate(data)).min() >= least
    assert learn_cutset(data, CutsetSettings(minimum_rows=250)).leaves == 1


def test_validation_data_prune():
    rng = np.random.default_rng(0)
    noise, other = rng.integers(0, 2, (200, 6)), rng.integers(0, 2, (2000, 6))
    rough = CutsetSettings(depth=4, smoothing=0.1, inheritance=0.0)
    assert learn_cutset(noise, rough).leaves > 4
    pruned = learn_cutset(noise, rough, valid=other)
    assert pruned.leaves < 4
    tree = learn_chow_liu(noise, smoothing=0.1)
    assert pruned.log_likelihood(other).mean() >= tree.log_likelihood(other).mean()


def test_weights_count_rows():
    data = clusters(0)
    counts = np.random.default_rng(1).integers(1, 4, len(data))
    fixed = CutsetSettings(depth=3, candidates=2)
    weighted = learn_cutset(data, fixed, weights=counts)
    repeated = learn_cutset(np.repeat(data, counts, axis=0), fixed)
    assert (weighted.contexts == repeated.contexts).all()
    np.testing.assert_allclose(weighted.value(data), repeated.value(data), rtol=1e-9)


def test_progress_ends_at_its_total():
    seen: list[tuple[int, int]] = []
    data = clusters(0)
    learn_cutset(data, valid=data, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: CutsetSettings(depth=-1), "depth"),
        (lambda: CutsetSettings(minimum_rows=0), "minimum_rows"),
        (lambda: CutsetSettings(candidates=0), "candidates"),
        (lambda: learn_cutset([[0, 1]], CutsetSettings(inheritance=[1, 2])), "validation data"),
    ],
)
def test_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()
