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
    AttackStages,
    attack,
    guided_attack,
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


def predicted(net, images, own, targets, slopes, config=AttackStages()) -> Attacked:
    """The guided attack with predictions that are known before; one thread takes blocks in turn."""
    towards, units = np.asarray(targets), np.asarray(slopes, dtype=np.float32)
    first = 0

    def guide(sums, classes):
        nonlocal first
        part = slice(first, first + len(sums))
        first += len(sums)
        return towards[part], units[part]

    return guided_attack(net, images, guide, classes=own, config=config)


def stepped(net, images, own, targets, slopes, margin=MARGIN) -> Attacked:
    return predicted(net, images, own, targets, slopes, AttackStages("step", margin=margin))


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


@given(st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_a_step_solves_the_linearised_problem(n, seed):
    net, images = network(n, 5, 3, seed=seed), points(4, n, seed)
    rng = np.random.default_rng(seed)
    own, slopes = net.decide(images), rng.random((4, 5))
    targets = (own + rng.integers(1, 3, size=4)) % 3
    answer = stepped(net, images, own, targets, slopes, margin=0.01)
    check(net, images, answer, 0.01)
    logits = net.logits(images)
    for row in range(4):
        slope = (
            (net.weights[1][own[row]] - net.weights[1][targets[row]]) * slopes[row]
        ) @ net.weights[0]
        gap = logits[row, own[row]] - logits[row, targets[row]]
        plane = ReluNetwork((slope[None],), (np.array([gap - slope @ images[row]]),))
        best = nearest(plane, images[row], 1, 0.01)
        reached = gap + slope @ (answer.images[row] - images[row])
        if np.isinf(best):
            assert reached > -0.01 - 1e-6
        else:
            assert reached == pytest.approx(-0.01, abs=1e-5)
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


@given(shapes)
@settings(max_examples=30, deadline=None)
def test_average_slopes_make_the_linearisation_exact(shape):
    n, hidden, outputs, seed = shape
    net, images = network(n, *hidden, outputs, seed=seed), points(5, n, seed)
    answer = attack(net, images)
    assert ((answer.slopes >= 0) & (answer.slopes <= 1)).all()
    change, end = answer.images - images, 0
    for weight, width in zip(net.weights[:-1], hidden, strict=True):
        change = (change @ weight.T) * answer.slopes[:, end : end + width]
        end += width
    expected = net.logits(answer.images) - net.logits(images)
    np.testing.assert_allclose(change @ net.weights[-1].T, expected, atol=1e-8)


def test_true_slopes_give_the_answer_back_in_one_step():
    net, images = network(6, 8, 3), points(50, 6)
    answer = attack(net, images)
    kept = answer.found & (answer.distance > 0)
    again = stepped(
        net, images[kept], answer.classes[kept], answer.target[kept], answer.slopes[kept]
    )
    # greedy by the same slopes reaches the same linear margin at no greater cost
    assert (again.distance <= answer.distance[kept] + 1e-5).all()


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


@pytest.mark.parametrize("search", ["step", "walk"])
@pytest.mark.parametrize("rounds", [0, 2])
def test_predicted_attacks_report_what_the_network_says(search, rounds):
    net, images = network(6, 7, 4), points(40, 6)
    own, rng = net.decide(images), np.random.default_rng(0)
    targets, slopes = (own + rng.integers(1, 4, size=40)) % 4, rng.random((40, 7))
    config = AttackStages(search=search, rounds=rounds, safety=0.2)
    answer = predicted(net, images, own, targets, slopes, config)
    check(net, images, answer)
    plain = stepped(net, images, own, targets, slopes, MARGIN + 0.2)
    both = answer.found & plain.found
    assert (answer.distance[both] <= plain.distance[both] + 1e-6).all() or search == "walk"


def test_a_guide_sees_sums_and_logits():
    net, images = network(6, 7, 4), points(300, 6)
    own, seen = net.decide(images), []

    def guide(sums, classes):
        seen.append(sums)
        targets = np.stack([(classes + 1) % 4, (classes + 2) % 4], axis=1)
        targets[::2, 1] = -1
        return targets, np.full((len(sums), 7), 0.5, dtype=np.float32)

    answer = guided_attack(net, images, guide)
    check(net, images, answer)
    sums = np.concatenate(seen)
    np.testing.assert_allclose(sums[:, :7], images @ net.weights[0].T + net.biases[0])
    np.testing.assert_allclose(sums[:, 7:], net.logits(images))
    half = np.full((300, 7), 0.5)
    one = predicted(net, images, own, (own + 1) % 4, half)
    two = predicted(net, images, own, (own + 2) % 4, half)
    only, both = answer.found & one.found, answer.found & one.found & two.found
    only[1::2] = both[::2] = False
    assert only.any()
    assert both.any()
    np.testing.assert_allclose(answer.distance[only], one.distance[only])
    shorter = np.minimum(one.distance, two.distance)
    np.testing.assert_allclose(answer.distance[both], shorter[both])


def test_of_several_steps_the_shortest_is_taken():
    net, images = network(6, 5, 4, seed=3), points(40, 6, seed=3)
    own = net.decide(images)
    slopes = np.random.default_rng(5).uniform(0.2, 1.0, size=(40, 5)).astype(np.float32)
    towards = np.stack([(own + 1) % 4, (own + 2) % 4], axis=1)
    towards[::3, 1] = -1  # no second one
    other = np.where(towards[:, 1] < 0, towards[:, 0], towards[:, 1])
    first, second = (
        predicted(net, images, own, which, slopes, config=AttackStages("step"))
        for which in (towards[:, 0], other)
    )
    both = predicted(net, images, own, towards, slopes, config=AttackStages("step"))
    np.testing.assert_allclose(both.distance, np.minimum(first.distance, second.distance))
    assert (both.distance < first.distance - 1e-6).any()
    check(net, images, both)


def test_refining_never_lengthens():
    net, images = network(6, 7, 4), points(80, 6)
    own = net.decide(images)
    given = (net, images, own, (own + 1) % 4, np.full((80, 7), 0.5))
    far = predicted(*given, AttackStages("step", safety=1.0))
    assert far.found.sum() > 10
    better = predicted(*given, AttackStages("step", rounds=2, safety=1.0))
    check(net, images, better)
    assert better.found[far.found].all()
    assert (better.distance[far.found] <= far.distance[far.found] + 1e-6).all()
    assert better.distance[far.found].mean() < far.distance[far.found].mean()


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
    none = np.empty(0, dtype=np.int64)
    assert len(predicted(net, np.empty((0, 3)), none, none, np.empty((0, 4)))) == 0


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


def test_bad_settings_and_predictions():
    net, images = network(4, 5, 3), points(2, 4)
    with pytest.raises(InputError, match="targets >= 1"):
        AttackSettings(targets=0)
    with pytest.raises(InputError, match="margin"):
        AttackSettings(margin=-1.0)
    with pytest.raises(InputError, match="margin"):
        AttackStages(margin=np.nan)
    with pytest.raises(InputError, match="step or walk"):
        AttackStages(search="run")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="predictions must be"):
        stepped(net, images, [0, 0], [1, 1], np.zeros((2, 4)))
    with pytest.raises(InputError, match="predictions must be"):
        guided_attack(net, images, lambda sums, own: (own[:1], np.zeros((2, 5), np.float32)))
    with pytest.raises(InputError, match="other than"):
        stepped(net, images, [0, 1], [1, 1], np.zeros((2, 5)))
    with pytest.raises(InputError, match="one start per image"):
        attack(net, images, start=images[:1])


def test_units_that_are_off_can_be_turned_on():
    """F = 0.5 - 2 relu(sum x - 2.5): the first two inputs change nothing, the third one does."""
    weights = (np.ones((1, 6)), np.array([[-2.0]]))
    network = ReluNetwork(weights, (np.array([-2.5]), np.array([0.5])))
    images, classes, targets = np.zeros((2, 6)), np.ones(2, np.int64), np.zeros(2, np.int64)
    answer = predicted(network, images, classes, targets, np.ones((2, 1)), AttackStages("walk"))
    assert answer.found.all()
    np.testing.assert_allclose(answer.distance, 2.75 + 5e-4, atol=1e-6)
