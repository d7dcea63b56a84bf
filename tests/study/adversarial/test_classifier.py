"""Classifiers: they learn, they are what their formula says, and the seed decides them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from cmpe.errors import InputError
from cmpe.formats.images import read_images
from cmpe.models.relu import ReluNetwork
from study.adversarial.classifier import (
    FEW,
    MANY,
    ClassifierConfig,
    _losses,
    accuracy,
    classify,
    train_classifier,
)

QUICK = ClassifierConfig((3,), classes=3, epochs=1, batch_size=4)


def random_set(count: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((count, 5)), np.arange(count) % 3


@pytest.mark.parametrize(
    ("hidden", "one_vs_all"), [((32,), False), ((32,), True), ((16, 16), True)]
)
def test_the_embedded_digits_are_learned(hidden, one_vs_all):
    images = read_images("digits")
    config = replace(FEW, hidden=hidden, one_vs_all=one_vs_all)
    networks = train_classifier(images.train, images.train_labels, config)
    assert accuracy(networks, images.test, images.test_labels) > 0.95
    sizes = [(64, *hidden), (*hidden, 1 if one_vs_all else 10)]
    shapes = [tuple(w.shape) for w in networks[0].weights]
    assert shapes == [(b, a) for a, b in zip(*sizes, strict=True)]
    assert len(networks) == (10 if one_vs_all else 1)
    if one_vs_all:  # each tells its own digit from the rest, not only by comparison
        for digit, network in enumerate(networks):
            own = images.test_labels == digit
            assert (network.decide(images.test) == own).mean() > 0.95


@pytest.mark.parametrize("one_vs_all", [False, True])
def test_losses_are_those_of_each_network_alone(one_vs_all):
    config = replace(QUICK, one_vs_all=one_vs_all)
    images, labels = random_set()
    network = config.network(5)
    starts = [network.initial(k) for k in range(config.members)]
    stack = {name: torch.stack([start[name] for start in starts]) for name in starts[0]}
    x, y = torch.tensor(images, dtype=torch.float32), torch.tensor(labels)
    found = _losses(network, stack, x, y)
    assert found.shape == (config.members, len(y))
    for k, start in enumerate(starts):
        hidden = functional.relu(x @ start["weight0"] + start["bias0"])
        logits = (hidden @ start["weight1"] + start["bias1"]).double()
        if one_vs_all:
            sign = torch.where(y == k, 1.0, -1.0)
            expected = torch.log1p(torch.exp(-sign * logits[:, 0]))
        else:
            expected = logits.logsumexp(1) - logits[torch.arange(len(y)), y]
        torch.testing.assert_close(found[k].double(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("one_vs_all", [False, True])
def test_the_seed_decides(one_vs_all):
    config = replace(QUICK, one_vs_all=one_vs_all)
    first, same, other = (
        train_classifier(*random_set(), replace(config, seed=seed)) for seed in (1, 1, 2)
    )
    for a, b, c in zip(first, same, other, strict=True):
        for layer in range(2):
            np.testing.assert_array_equal(a.weights[layer], b.weights[layer])
            assert (a.weights[layer] != c.weights[layer]).any()


def test_images_that_may_not_be_written_to_are_taken():
    images, labels = random_set()
    images.flags.writeable = labels.flags.writeable = False
    [network] = train_classifier(images.astype(np.float32), labels, QUICK)
    assert (network.inputs, network.outputs) == (5, 3)
    images32 = images.astype(np.float32)
    images32.flags.writeable = False
    assert len(train_classifier(images32, labels, QUICK)) == 1


def test_the_class_is_the_largest_number():
    shift = [np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])]
    alone = tuple(ReluNetwork((weight,), (np.zeros(1),)) for weight in shift)
    joint = (ReluNetwork((np.vstack(shift),), (np.zeros(2),)),)
    images = np.array([[0.5, 0.2], [0.1, 0.9], [0.3, 0.3]])
    for networks in (alone, joint):
        assert classify(networks, images).tolist() == [0, 1, 0]
        assert accuracy(networks, images, [0, 1, 1]) == pytest.approx(2 / 3)
    assert classify(alone[:1], [[0.5, 0.0], [0.0, 0.0]]).tolist() == [1, 0]  # F > 0


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (np.zeros(5), [0], r"images must be \(N, n\)"),
        (np.zeros((0, 5)), np.zeros(0, int), r"images must be \(N, n\)"),
        (np.full((1, 5), np.nan), [0], "finite"),
        (np.zeros((2, 5)), [0], "one label per image"),
        (np.zeros((1, 5)), [0.0], "one label per image"),
        (np.zeros((2, 5)), [0, 3], "from 0 to 2, found 3"),
        (np.zeros((2, 5)), [-1, 2], "from 0 to 2, found -1"),
    ],
)
def test_what_does_not_fit_is_refused(images, labels, message):
    with pytest.raises(InputError, match=message):
        train_classifier(images, labels, QUICK)


@pytest.mark.parametrize(
    "choice",
    [
        {"hidden": (0,)},
        {"epochs": 0},
        {"batch_size": 0},
        {"classes": 1},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
    ],
)
def test_senseless_choices_are_refused(choice):
    with pytest.raises(InputError):
        replace(MANY, **choice)


def test_an_unknown_device_is_refused():
    with pytest.raises(InputError, match="cannot be used"):
        train_classifier(*random_set(), QUICK, device="abacus")
