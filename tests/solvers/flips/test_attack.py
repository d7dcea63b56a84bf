"""The L1 attack on small random networks, against linear programs and the network itself."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmpe.errors import InputError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.attack import (
    Attacked,
    AttackSettings,
    attack,
    round_outward,
)

MARGIN = 1e-3


def network(*sizes: int, seed: int = 0) -> ReluNetwork:
    rng = np.random.default_rng(seed)
    return ReluNetwork(
        tuple(rng.normal(size=(b, a)) for a, b in pairwise(sizes)),
        tuple(0.5 * rng.normal(size=b) for b in sizes[1:]),
    )


def points(count: int, n: int, seed: int = 0) -> np.ndarray:
    """Images as real ones are: many inputs at a bound, others anywhere."""
    rng = np.random.default_rng((seed, 1))
    return np.clip(rng.uniform(-0.5, 1.5, size=(count, n)), 0.0, 1.0)


def check(net: ReluNetwork, images: np.ndarray, answer: Attacked, margin: float = MARGIN) -> None:
    """What holds of every answer, found or not."""
    assert answer.images.shape == images.shape
    assert ((answer.images >= 0) & (answer.images <= 1)).all()
    np.testing.assert_allclose(answer.distance, np.abs(answer.images - images).sum(1), atol=1e-12)
    np.testing.assert_array_equal(answer.margin, net.margins(answer.images, answer.classes))
    left = net.margins(images, answer.classes) <= 0
    np.testing.assert_array_equal(answer.found, left | (answer.margin <= -margin))
    np.testing.assert_array_equal(answer.images[left], images[left])
    flipped = answer.found & ~left
    assert (net.decide(answer.images)[flipped] == answer.target[flipped]).all()
    assert (answer.target != answer.classes).all()


def nearest(net: ReluNetwork, image: np.ndarray, own: int, margin: float = MARGIN) -> float:
    """The exact optimum of a network without hidden layers: one linear program per class."""
    (weight,), (bias,) = net.weights, net.biases
    if len(bias) == 1:
        weight, bias = np.vstack([0 * weight, weight]), np.array([0.0, bias[0]])
    room = [(0, 1 - v) for v in image] + [(0, v) for v in image]
    best = np.inf
    for k in set(range(len(bias))) - {own}:
        slope = weight[own] - weight[k]
        limit = -margin - (slope @ image + bias[own] - bias[k])
        found = linprog(np.ones(len(room)), [np.concatenate([slope, -slope])], [limit], bounds=room)
        best = min(best, found.fun if found.status == 0 else np.inf)
    return best


shapes = st.tuples(
    st.integers(1, 6),
    st.lists(st.integers(1, 6), max_size=2),
    st.integers(1, 4),
    st.integers(0, 99),
)


@given(shapes, st.booleans(), st.sampled_from([0.0, 1e-3, 0.1]))
@settings(max_examples=60, deadline=None)
def test_answers_are_in_the_box_and_flipped(shape, levels, margin):
    n, hidden, outputs, seed = shape
    net, images = network(n, *hidden, outputs, seed=seed), points(9, n, seed)
    own = np.random.default_rng(seed).integers(0, net.classes, size=9)
    config = AttackSettings(margin=margin, restarts=1, levels=levels)
    answer = attack(net, images, classes=own, config=config)
    check(net, images, answer, margin)
    if levels:
        changed = answer.found & (answer.distance > 0)
        exact = 255 * answer.images[changed]
        np.testing.assert_allclose(exact, np.rint(exact), atol=1e-9)


@given(st.integers(1, 6), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_linear_networks_are_solved_exactly(n, outputs, seed):
    net, images = network(n, outputs, seed=seed), points(6, n, seed)
    answer = attack(net, images)
    check(net, images, answer)
    for row in range(len(images)):
        best = nearest(net, images[row], answer.classes[row])
        if net.margins(images[row], answer.classes[row : row + 1])[0] <= 0:
            assert answer.distance[row] == 0
        elif np.isinf(best):
            assert not answer.found[row]
        else:
            assert answer.found[row]
            assert answer.distance[row] == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("hidden", [(4,), (5, 4)])
@pytest.mark.parametrize("outputs", [1, 3])
def test_close_to_the_best_point_of_a_grid(hidden, outputs):
    """Two inputs, 101 x 101 points: a flip is found where there is one, mostly the nearest."""
    grid = np.array(list(product(np.linspace(0, 1, 101), repeat=2)))
    ratios = []
    for seed in range(8):
        net, images = network(2, *hidden, outputs, seed=seed), points(12, 2, seed)
        answer = attack(net, images, config=AttackSettings(restarts=3))
        check(net, images, answer)
        for row in range(12):
            flipped = net.margins(grid, np.full(len(grid), answer.classes[row])) <= -MARGIN
            lengths = np.abs(grid[flipped] - images[row]).sum(1)
            if len(lengths) and lengths.min() > 0.0:
                found = answer.distance[row] if answer.found[row] else np.inf
                ratios.append(found / lengths.min())
    assert np.isfinite(ratios).mean() >= 0.95
    assert np.median(ratios) <= 1.0
    assert np.mean(np.array(ratios) <= 1.1) >= 0.75


def test_impossible_flips_are_not_found():
    net = ReluNetwork((np.zeros((3, 2)), np.zeros((2, 3))), (np.ones(3), np.array([1.0, 0.0])))
    images = points(5, 2)
    answer = attack(net, images, config=AttackSettings(restarts=1))
    check(net, images, answer)
    assert not answer.found.any()
    np.testing.assert_array_equal(answer.images, images)


def test_images_of_another_class_stay_as_they_are():
    net, images = network(4, 5, 3), points(20, 4)
    wrong = (net.decide(images) + 1) % 3
    answer = attack(net, images, classes=wrong)
    assert answer.found.all()
    np.testing.assert_array_equal(answer.images, images)
    np.testing.assert_array_equal(answer.distance, 0.0)


def test_one_output_is_attacked_from_both_sides():
    net, images = network(5, 6, 1, seed=3), points(60, 5)
    answer = attack(net, images)
    check(net, images, answer)
    assert set(answer.classes[answer.found]) == {0, 1}
    assert (net.decide(answer.images) != answer.classes)[answer.found].all()


def test_a_start_is_never_made_worse():
    net, images = network(6, 9, 4, seed=2), points(100, 6)
    strong = attack(net, images, config=AttackSettings(restarts=8))
    weak = attack(net, images, config=AttackSettings(targets=1, rounds=0), start=strong.images)
    assert weak.found[strong.found].all()
    assert (weak.distance[strong.found] <= strong.distance[strong.found] + 1e-6).all()


def test_rounding_outward():
    original = np.array([[0.5, 0.5, 100 / 255, 0.0, 1.0]])
    changed = np.array([[0.501, 0.499, 100 / 255, 0.3 / 255, 254.2 / 255]])
    np.testing.assert_array_equal(round_outward(original, changed), [[128, 127, 100, 1, 254]])
    assert round_outward(original, changed).dtype == np.uint8


def test_8_bit_answers_keep_their_flip():
    net = network(30, 12, 5, seed=4)
    images = np.rint(255 * points(200, 30)) / 255
    exact, drawn = attack(net, images), attack(net, images, config=AttackSettings(levels=True))
    check(net, images, drawn)
    np.testing.assert_array_equal(exact.found, drawn.found)
    levels = round_outward(images, drawn.images)
    np.testing.assert_allclose(levels / 255, drawn.images, atol=1e-12)


def test_threads_and_blocks_do_not_change_the_answers():
    net, images = network(5, 6, 3), points(600, 5)
    config = AttackSettings(restarts=1)
    one = attack(net, images, config=config, seed=5)
    two = attack(net, images, config=config, seed=5, threads=2)
    np.testing.assert_array_equal(one.images, two.images)
    other = attack(net, images, config=config, seed=6)
    assert (one.found == other.found).all()


def test_no_images():
    net = network(3, 4, 2)
    assert len(attack(net, np.empty((0, 3)))) == 0


@pytest.mark.parametrize(
    ("images", "classes", "message"),
    [
        (np.zeros((2, 3)), None, r"images must be \(B, 4\)"),
        (np.full((2, 4), 1.5), None, "from 0 to 1"),
        (np.full((2, 4), np.nan), None, "from 0 to 1"),
        (np.zeros((2, 4)), [0], "one class per image"),
        (np.zeros((2, 4)), [0, 3], "from 0 to 2"),
        (np.zeros((2, 4)), [0.0, 1.0], "one class per image"),
    ],
)
def test_bad_images(images, classes, message):
    with pytest.raises(InputError, match=message):
        attack(network(4, 5, 3), images, classes=classes)


def test_bad_settings():
    net, images = network(4, 5, 3), points(2, 4)
    with pytest.raises(InputError, match="targets >= 1"):
        AttackSettings(targets=0)
    with pytest.raises(InputError, match="margin"):
        AttackSettings(margin=-1.0)
    with pytest.raises(InputError, match="one start per image"):
        attack(net, images, start=images[:1])


def test_units_that_are_off_can_be_turned_on():
    """F = 0.5 - 2 relu(sum x - 2.5): the first two inputs change nothing, the third one does."""
    weights = (np.ones((1, 6)), np.array([[-2.0]]))
    network = ReluNetwork(weights, (np.array([-2.5]), np.array([0.5])))
    answer = attack(network, np.zeros((2, 6)))
    assert answer.found.all()
    np.testing.assert_allclose(answer.distance, 2.75 + 5e-4, atol=1e-6)
