"""The multilinear extension: values, gradients, rounding, against tables and enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.generation import grid
from cmpe.learning.losses import relaxation
from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.learning.networks.coordinates import Coordinates
from tests.learning.cases import assert_alike, whole_values
from tests.problems import Shape, random_problem, seeds


def expected_values(problem, row, distributions):
    """Every function's mean when the free variables are drawn independently."""
    free = problem.conditioning.free
    total = np.zeros(len(problem.functions))
    for values in product(*(range(len(d)) for d in distributions)):
        z = problem.given(row[np.newaxis]).complete(np.array([values], dtype=int))
        weight = np.prod([d[v] for d, v in zip(distributions, values, strict=True)])
        total += weight * np.array([f.value(z)[0] for f in problem.functions])
    assert len(free) == len(distributions)
    return total


@given(seeds)
def test_values_are_the_means_of_independent_draws(seed):
    problem, evidence = random_problem(seed, Shape(zeros=False))
    relaxed = RelaxedProblem(problem)
    rng = np.random.default_rng(seed)
    cards = [problem.objective.cardinalities[v] for v in relaxed.free]
    distributions = [rng.dirichlet(np.ones(k)) for k in cards]
    point = np.concatenate([np.zeros(0), *(d[1:] for d in distributions)])
    points = torch.tensor(np.tile(point, (len(evidence), 1)), dtype=torch.float32)
    found = relaxed.values(relaxed.rows(evidence), points).numpy()
    wanted = [expected_values(problem, row, distributions) for row in evidence]
    np.testing.assert_allclose(found, wanted, atol=2e-4)


@given(seeds)
def test_whole_points_have_the_problems_values(seed):
    problem, evidence = random_problem(seed, Shape(zeros=False))
    relaxed = RelaxedProblem(problem)
    free = whole_values(relaxed, len(evidence), seed)
    points = torch.as_tensor(relaxed.coordinates.of(free))
    full = problem.given(evidence).complete(free)
    wanted = np.stack([f.value(full) for f in problem.functions], axis=1)
    np.testing.assert_allclose(
        relaxed.values(relaxed.rows(evidence), points).numpy(), wanted, atol=1e-4
    )
    np.testing.assert_array_equal(relaxed.coordinates.assignments(points), free)
    np.testing.assert_array_equal(relaxed.coordinates.round(points), points)


@given(seeds)
def test_gradients_are_the_differences_of_values(seed):
    problem, evidence = random_problem(seed, Shape(zeros=False))
    relaxed = RelaxedProblem(problem)
    rows = relaxed.rows(evidence)
    count = relaxed.coordinates.count
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(len(evidence), count, generator=generator)
    points.requires_grad_(True)
    values = relaxed.values(rows, points)
    for i in range(count):  # values are affine in each coordinate
        moved = relaxed.values(rows, points.detach() + torch.eye(count)[i])
        for w in range(len(problem.functions)):
            (gradient,) = torch.autograd.grad(values[:, w].sum(), points, retain_graph=True)
            difference = (moved - values.detach())[:, w]
            torch.testing.assert_close(gradient[:, i], difference, atol=1e-3, rtol=1e-3)


def test_zero_potentials_count_as_a_floor():
    model = LogLinearModel((2,), (Factor((0,), [3.0, -np.inf]),))
    relaxed = RelaxedProblem(Problem(model), floor=7.0)
    values = relaxed.values(relaxed.rows(np.zeros((1, 0), int)), torch.tensor([[1.0]]))
    assert values.item() == pytest.approx(-4.0)


def test_large_problems_use_a_sparse_form(monkeypatch):
    model = grid(4, 5, values=3, seed=1)
    problem = Problem(model, (Constraint(model.perturb(0.1, 2), 1.0),), (0, 7))
    evidence = np.array([[0, 1], [2, 2]])
    dense = RelaxedProblem(problem)
    monkeypatch.setattr(relaxation, "TRAINING", relaxation.TRAINING._replace(dense_coordinates=0))
    thin = RelaxedProblem(problem)
    points = torch.rand(2, dense.coordinates.count, generator=torch.Generator().manual_seed(0))
    points.requires_grad_(True)
    assert_alike(dense, thin, points, lambda form: form.rows(evidence))


def test_probabilities_and_entropy_of_mixed_cardinalities():
    places = Coordinates([2, 4, 3])
    logits = torch.tensor([[0.3, 1.0, -2.0, 0.5, 4.0, 0.0]])
    points = places.probabilities(logits)
    whole = [
        torch.softmax(torch.tensor([0.0, *group]), 0)
        for group in ([0.3], [1.0, -2.0, 0.5], [4.0, 0.0])
    ]
    torch.testing.assert_close(points[0], torch.cat([p[1:] for p in whole]))
    entropy = sum(torch.special.entr(p).sum() for p in whole)
    torch.testing.assert_close(places.entropy(logits)[0], entropy)
    assert places.assignments(points).tolist() == [[1, 1, 1]]
    target = torch.as_tensor(places.of([[0, 3, 1]]))
    wanted = -(whole[0][0].log() + whole[1][3].log() + whole[2][1].log())
    torch.testing.assert_close(places.cross_entropy(logits, target)[0], wanted)


def test_cross_entropy_of_binary_variables():
    places = Coordinates([2, 2])
    logits, targets = torch.tensor([[0.7, -1.1]]), torch.tensor([[1.0, 0.0]])
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="sum")
    torch.testing.assert_close(places.cross_entropy(logits, targets).sum(), wanted)
