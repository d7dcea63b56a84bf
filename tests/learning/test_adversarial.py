"""What follows a pass of head linear: the shorter closed form, or a walk that ends on a flip."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.flip import adversarial, flip_of
from cmpe.learning.adversarial import flipped
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import fit
from cmpe.solvers.flips.attack import AttackStages, guided_attack
from cmpe.solving import solve
from tests.learning.losses.test_functions import images, small_network


@pytest.mark.parametrize("outputs", [1, 3])
def test_a_predicted_linearisation_flips_and_repair_leaves_nothing_violated(outputs):
    network = small_network(outputs)
    problem = adversarial(network)
    config = TrainingConfig(
        loss="distill", head="linear", hidden=(32,), epochs=80, batch_size=32, learning_rate=5e-3,
        margins=(0.0, 0.1), keep_best=False,
    )  # fmt: skip
    solver = fit(problem, images(256), config)
    test = images(100, seed=9)
    best = solve(problem, test, method="local")
    alone = solver.with_stages(repair=False, certificate="none", margins=(0.1,)).solve(
        problem, test
    )
    whole = solver.solve(problem, test)
    assert alone.feasible[best.feasible].mean() > 0.7
    assert (whole.feasible == best.feasible).all()
    some = best.feasible
    assert -whole.objective[some].mean() <= 1.1 * -best.objective[some].mean()
    assert (whole.bound[some] >= best.objective[some] - 1e-9).all()
    torch_points = solver.predictor.relaxed(problem.given(test), 0.1)[0]
    both = alone.feasible & best.feasible
    kernel = alone.assignments[both, 5:]
    apart = np.abs(torch_points[both] - kernel).max(axis=1)
    assert (apart < 0.02).mean() > (0.5 if outputs > 1 else 0.99)  # else to the second class
    shorter = np.abs(test[both] - kernel).sum(1) - np.abs(test[both] - torch_points[both]).sum(1)
    assert (shorter < 0.02).all()


def test_of_several_margins_the_best_feasible_flip_is_kept():
    problem = adversarial(small_network())
    config = TrainingConfig(
        loss="distill", head="linear", hidden=(16,), epochs=10, batch_size=32, margins=(0.0, 0.5),
        keep_best=False,
    )  # fmt: skip
    solver, test = fit(problem, images(128), config), images(60, seed=3)
    alone = [
        solver.with_stages(repair=False, certificate="none", margins=margins).solve(problem, test)
        for margins in ((0.0,), (0.1,), (0.5,), (0.0, 0.1, 0.5))
    ]
    *single, every = alone
    assert not any((one.feasible == every.feasible).all() for one in single[:1])
    best = np.max([np.where(one.feasible, one.objective, -np.inf) for one in single], axis=0)
    np.testing.assert_allclose(np.where(every.feasible, every.objective, -np.inf), best)


@pytest.fixture(scope="module")
def linear():
    """A network that has learnt a little."""
    config = TrainingConfig(
        loss="distill", head="linear", hidden=(16,), epochs=10, batch_size=32, margins=(0.0, 0.5),
        keep_best=False,
    )  # fmt: skip
    problem = adversarial(small_network(4))
    return problem, fit(problem, images(128), config)


def test_one_pass_takes_the_shorter_of_two_closed_forms(linear):
    problem, solver = linear
    rows, margin = problem.given(images(80, seed=3)), 0.2
    flip, guide = flip_of(problem), solver.predictor.guide(margin)
    found = flipped(rows, solver.predictor, margin, Pipeline(repair=False), 1)
    lengths = -problem.objective.value(found)
    step = AttackStages("step", margin=flip.margin, safety=margin)

    def likeliest(sums, classes):
        targets, slopes = guide(sums, classes)
        return targets[:, :1], slopes

    first, both = (
        guided_attack(flip.network, rows.evidence, which, config=step).images
        for which in (likeliest, guide)
    )
    np.testing.assert_array_equal(found[:, 5:], both)
    first_lengths = np.abs(first - rows.evidence).sum(axis=1)
    assert (lengths <= first_lengths + 1e-9).all()
    assert (lengths < first_lengths - 1e-3).any()


def test_repair_flips_whatever_can_be_flipped(linear):
    problem, solver = linear
    rows = problem.given(images(80, seed=3))
    can = solve(problem, rows.evidence, method="local").feasible
    for sweeps in (0, 2):
        found = flipped(rows, solver.predictor, 0.0, Pipeline(sweeps=sweeps), 1)
        np.testing.assert_array_equal(problem.is_feasible(found), can)


def test_levels_are_eight_bits(linear):
    problem, solver = linear
    test = np.rint(255 * images(40, seed=3)) / 255
    rows = problem.given(test)
    found = flipped(rows, solver.predictor, 0.0, Pipeline(levels=True), 1)
    levels = 255.0 * found[:, 5:]
    assert (np.abs(levels - np.rint(levels)) < 1e-6).all()
    whole = solver.with_stages(levels=True).solve(problem, test)
    np.testing.assert_array_equal(whole.assignments, found)
