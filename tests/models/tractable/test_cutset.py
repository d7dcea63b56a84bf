"""Cutset networks against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import CutsetNetwork
from cmpe.errors import EvidenceError, ModelError
from tests.problems import all_assignments, network_over, random_cutset, seeds


def by_hand(network: CutsetNetwork, z: np.ndarray) -> float:
    """The definition: the one leaf that agrees, its weight, its tables."""
    (leaf,) = np.flatnonzero(((network.contexts < 0) | (network.contexts == z)).all(axis=1))
    total = network.log_weights[leaf]
    for v in np.flatnonzero(network.contexts[leaf] < 0):
        parent = network.parents[leaf, v]
        total += network.log_tables[leaf, v, z[parent] if parent >= 0 else 0, z[v]]
    return float(total)


def random_evidence(rng: np.random.Generator, network: CutsetNetwork, count: int = 4) -> np.ndarray:
    rows = np.stack([rng.integers(0, k, count) for k in network.cardinalities], axis=1)
    rows[rng.random(rows.shape) < 0.6] = -1
    return rows


def agrees(everything: np.ndarray, row: np.ndarray) -> np.ndarray:
    return ((row < 0) | (everything == row)).all(axis=1)


@given(seeds)
@settings(max_examples=200)
def test_everything_agrees_with_enumeration(seed):
    network = random_cutset(seed)
    rng = np.random.default_rng(seed)
    everything = all_assignments(network.cardinalities)
    values = np.array([by_hand(network, z) for z in everything])
    np.testing.assert_allclose(network.value(everything), values, rtol=1e-12, atol=1e-12)
    assert (network.ceiling() >= values[np.isfinite(values)] - 1e-12).all()
    assert network.is_finite == np.isfinite(values).all() or not network.is_finite
    rows = random_evidence(rng, network)
    best, best_values = network.mpe(rows)
    for row, answer, value in zip(rows, best, best_values, strict=True):
        allowed = agrees(everything, row)
        assert value == pytest.approx(values[allowed].max(), abs=1e-9)
        if value > -np.inf:
            assert agrees(answer[np.newaxis], row).all()
            assert network.value(answer)[0] == pytest.approx(value, abs=1e-9)
        else:
            assert (answer == -1).all()


@given(seeds)
@settings(max_examples=200)
def test_probabilities_agree_with_enumeration(seed):
    network = random_cutset(seed)
    everything = all_assignments(network.cardinalities)
    weights = np.exp(network.value(everything))
    rows = random_evidence(np.random.default_rng(seed), network)
    rows[0] = -1
    totals = np.array([weights[agrees(everything, row)].sum() for row in rows])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(network.log_evidence(rows), np.log(totals), atol=1e-9)
    if totals[0] > 0:
        assert np.exp(network.log_likelihood(everything)).sum() == pytest.approx(1.0)
    known = rows[totals > 0]
    if not len(known):
        return
    found = network.marginals(known)
    for row, marginal in zip(known, found, strict=True):
        share = weights * agrees(everything, row)
        for v, size in enumerate(network.cardinalities):
            expected = [share[everything[:, v] == k].sum() / share.sum() for k in range(size)]
            np.testing.assert_allclose(marginal[v, :size], expected, atol=1e-9)
            assert (marginal[v, size:] == 0).all()
    drawn = network.sample_given(known, seed)
    for row, z in zip(known, drawn, strict=True):
        assert agrees(z[np.newaxis], row).all()
        assert network.value(z)[0] > -np.inf


def test_samples_follow_the_distribution():
    network = network_over(np.random.default_rng(3), [2, 3, 2, 2])
    assert network.leaves > 1
    everything = all_assignments(network.cardinalities)
    expected = np.exp(network.log_likelihood(everything))
    count = 200_000
    drawn = network.sample(count, 7)
    places = np.ravel_multi_index(drawn.T, network.cardinalities)
    found = np.bincount(places, minlength=len(everything)) / count
    assert (np.abs(found - expected) < 5 * np.sqrt(expected / count) + 1e-12).all()
    assert (network.sample(50, 7) == network.sample(50, 7)).all()
    given_row = np.array([-1, 2, -1, 0])
    some = network.sample_given(np.tile(given_row, (count, 1)), 1)
    exact = network.marginals(given_row)[0, 0]
    assert np.bincount(some[:, 0], minlength=3) / count == pytest.approx(exact, abs=0.01)


def test_perturbation():
    network = network_over(np.random.default_rng(3), [2, 3, 2, 2])
    everything = all_assignments(network.cardinalities)
    assert (network.perturb(0.0, 1).value(everything) == network.value(everything)).all()
    noisy = network.perturb(0.1, 1)
    finite = np.isfinite(network.value(everything))
    assert (noisy.value(everything) != network.value(everything))[finite].all()
    assert (noisy.value(everything) == -np.inf)[~finite].all()
    assert (noisy.perturb(0.1, 2).contexts == network.contexts).all()
    assert (noisy.log_tables[~noisy.used] == network.log_tables[~network.used]).all()
    with pytest.raises(ModelError, match="variance"):
        network.perturb(-1.0, 1)


def two_leaves(**changes: object) -> CutsetNetwork:
    fields = {
        "cardinalities": (2, 2, 2),
        "contexts": [[0, -1, -1], [1, -1, -1]],
        "log_weights": np.log([0.5, 0.5]),
        "parents": [[-1, -1, 1], [-1, 2, -1]],
        "log_tables": np.full((2, 3, 2, 2), np.log(0.5)),
    }
    return CutsetNetwork(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contexts": [[0, -1, -1], [0, -1, -1]]}, "leaf 1 must exclude"),
        ({"contexts": [[0, -1, -1], [1, 0, -1]], "parents": [[-1, -1, 1], [-1] * 3]}, "cover"),
        ({"contexts": [[0, -1, -1], [2, -1, -1]]}, "values of its variables"),
        ({"parents": [[-1, -1, 0], [-1, 2, -1]]}, "same leaf's tree"),
        ({"parents": [[-1, 2, 1], [-1, 2, -1]]}, "cycle"),
        ({"parents": [[-1, -1, 3], [-1, 2, -1]]}, "same leaf's tree"),
        ({"log_weights": [0.0, np.nan]}, "finite or -inf"),
        ({"log_weights": [0.0]}, "shape"),
        ({"cardinalities": (2, 2)}, "shape"),
        ({"cardinalities": (2, 2, 0)}, "at least one value"),
    ],
)
def test_malformed_networks(changes, message):
    assert two_leaves().depth == 1
    with pytest.raises(ModelError, match=message):
        two_leaves(**changes)


def test_malformed_rows():
    network = two_leaves()
    with pytest.raises(ModelError, match=r"\(B, 3\)"):
        network.value([[0, 1]])
    with pytest.raises(ModelError, match="row 1, variable 2"):
        network.value([[0, 1, 0], [0, 1, 2]])
    with pytest.raises(ModelError, match="row 0, variable 0"):
        network.value([-1, 0, 0])
    with pytest.raises(ModelError, match="whole numbers"):
        network.value([0.0, 1.0, 0.0])
    tables = np.full((2, 3, 2, 2), np.log(0.5))
    tables[:, 1] = -np.inf
    impossible = two_leaves(log_tables=tables)
    with pytest.raises(EvidenceError, match="row 0"):
        impossible.marginals([-1, -1, -1])
    with pytest.raises(ModelError, match="nothing to sample"):
        impossible.sample(1, 0)
