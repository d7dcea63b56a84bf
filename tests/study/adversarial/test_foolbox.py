"""Attacks of other authors: what comes back is judged by the network, failures are marked."""

from __future__ import annotations

import importlib.util
import sys
from itertools import pairwise

import numpy as np
import pytest

from cmpe.errors import InputError, MissingExtra
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.attack import AttackSettings, attack
from study.adversarial import foolbox as foolbox_attacks
from study.adversarial.foolbox import NAMES, FoolboxSettings, known_attack

EFFORT = {"ead": 30, "sparse_descent": 10, "brendel_bethge": 60}
QUICK = [name for name in NAMES if name != "brendel_bethge"]  # it is compiled for 45 s


def network(*sizes: int, seed: int = 0) -> ReluNetwork:
    """No class is far ahead of the others."""
    rng = np.random.default_rng(seed)
    weights = tuple(rng.normal(size=(b, a)) for a, b in pairwise(sizes))
    biases = tuple(0.5 * rng.normal(size=b) for b in sizes[1:])
    middle = ReluNetwork(weights, biases).logits(images(100, sizes[0])).mean(axis=0)
    return ReluNetwork(weights, (*biases[:-1], biases[-1] - middle))


def need_foolbox() -> None:
    if importlib.util.find_spec("foolbox") is None:
        pytest.skip("foolbox is not installed")


def images(count: int = 8, n: int = 6) -> np.ndarray:
    return np.clip(np.random.default_rng(1).uniform(-0.5, 1.5, size=(count, n)), 0.0, 1.0)


def check(name: str, net: ReluNetwork, margin: float) -> None:
    """What holds of every attack."""
    x = images()
    own = net.decide(x)
    own[0] = (own[0] + 1) % net.classes  # of another class as it came
    effort = FoolboxSettings(steps=EFFORT.get(name), margin=margin, batch_size=5)
    answer = known_attack(name, net, x, classes=own, effort=effort)
    left = net.margins(x, own) <= 0
    assert left[0]
    assert not left[1:].any()
    assert ((answer.images >= 0) & (answer.images <= 1)).all()
    np.testing.assert_array_equal(answer.margin, net.margins(answer.images, own))
    np.testing.assert_array_equal(answer.found, left | (answer.margin <= -margin))
    np.testing.assert_allclose(answer.distance, np.abs(answer.images - x).sum(1), atol=1e-12)
    idle = left | ~answer.found
    np.testing.assert_array_equal(answer.images[idle], x[idle])
    flipped = answer.found & ~left
    assert flipped.sum() >= 5
    np.testing.assert_array_equal(net.decide(answer.images)[flipped], answer.target[flipped])
    best = (
        attack(net, x, classes=own, config=AttackSettings(margin=margin)).distance[flipped].mean()
    )
    crude = name in ("fast_gradient", "brendel_bethge")  # one dense step; the optimizer below
    worst = 4.0 if crude else 2.0
    assert 0.8 * best < answer.distance[flipped].mean() < worst * best


@pytest.mark.parametrize(
    ("sizes", "margin"), [((6, 5, 3), 1e-3), ((6, 5, 1), 1e-3), ((6, 4, 4, 2), 0.1)]
)
@pytest.mark.parametrize("name", QUICK)
def test_answers_are_what_the_network_says(name, sizes, margin):
    need_foolbox()
    check(name, network(*sizes), margin)


class Optimizer:
    """In place of foolbox's, which is compiled for 45 s: a step home, then back to the boundary."""

    def __init__(self) -> None:
        self.radii: list[float] = []

    def solve(self, x0, x, b, least, most, c, r):
        self.radii.append(r)
        delta = 0.1 * (x0 - x)
        delta += b * (c - b @ delta) / (b @ b + 1e-12)
        return np.clip(x + delta, least, most) - x


@pytest.fixture
def optimizer(monkeypatch):
    need_foolbox()
    foolbox_attacks.need_foolbox()
    from foolbox.attacks import L1BrendelBethgeAttack

    optimizer = Optimizer()
    monkeypatch.setattr(L1BrendelBethgeAttack, "instantiate_optimizer", lambda _: optimizer)
    return optimizer


@pytest.mark.parametrize("sizes", [(6, 5, 3), (6, 5, 1)])
def test_brendel_bethge(optimizer, sizes):
    check("brendel_bethge", network(*sizes), 1e-3)


def test_the_trust_region_does_not_grow_with_the_batch(optimizer):
    net, x = network(6, 5, 3), images()
    for count in (1, 8):
        optimizer.radii.clear()
        known_attack("brendel_bethge", net, x[:count], effort=FoolboxSettings(steps=100))
        assert max(optimizer.radii) == pytest.approx(1e-3 * 6)


def test_the_seed_draws_the_starts(optimizer):
    one, two, other = (
        known_attack("brendel_bethge", network(6, 5, 3), images(), effort=effort, seed=seed).images
        for effort, seed in (
            (FoolboxSettings(steps=1), 4),
            (FoolboxSettings(steps=1), 4),
            (FoolboxSettings(steps=1), 5),
        )
    )
    assert (one == two).all()
    assert (one != other).any()


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_flipped_is_marked(name):
    need_foolbox()
    constant = ReluNetwork((np.zeros((4, 6)), np.zeros((3, 4))), (np.zeros(4), np.arange(3.0)))
    answer = known_attack(name, constant, images(3), effort=FoolboxSettings(steps=2))
    assert not answer.found.any()
    assert (answer.distance == 0).all()
    assert (answer.margin == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_images_no_answers(name):
    need_foolbox()
    assert len(known_attack(name, network(6, 5, 3), np.zeros((0, 6)))) == 0


def test_more_steps_are_not_worse():
    need_foolbox()
    net = network(6, 8, 3, seed=3)
    few, many = (
        known_attack("ead", net, images(), effort=FoolboxSettings(steps=steps)) for steps in (3, 30)
    )
    assert many.found.sum() >= few.found.sum()
    both = few.found & many.found
    assert many.distance[both].mean() < few.distance[both].mean()


def test_what_is_wrong_is_refused(monkeypatch):
    with pytest.raises(InputError, match="must be one of ead, "):
        known_attack("hope", network(6, 3), images())
    with pytest.raises(InputError, match="steps and batch_size >= 1"):
        FoolboxSettings(steps=0)
    with pytest.raises(InputError, match="at least 0 and finite"):
        FoolboxSettings(margin=-1.0)
    monkeypatch.setitem(sys.modules, "foolbox", None)
    with pytest.raises(MissingExtra, match=r"cmpe\[study\]"):
        known_attack("ead", network(6, 3), images())


def test_every_attack_has_its_steps():
    assert set(foolbox_attacks.STEPS) == set(NAMES)
