"""Cutset networks at relaxed points: values and gradients against expansion and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, CutsetSettings, LogLinearModel, Problem, learn_cutset
from cmpe.learning.losses import leaves
from cmpe.learning.losses.functions import relaxation_of
from cmpe.learning.losses.leaves import LeafRelaxation
from cmpe.learning.losses.relaxation import RelaxedProblem
from tests.learning.cases import assert_alike, whole_values
from tests.models.tractable.test_learning import clusters
from tests.problems import Shape, all_assignments, network_over, random_model, seeds


def network_problem(seed: int, *, zeros: bool = False) -> tuple[Problem, np.ndarray]:
    """One to three functions, the first a network, over mixed cardinalities, and evidence."""
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(2, 6)))]
    functions: list = [network_over(rng, cards, zeros=zeros)]
    for _ in range(int(rng.integers(0, 3))):
        is_network = rng.random() < 0.5
        functions.append(
            network_over(rng, cards, zeros=zeros)
            if is_network
            else random_model(rng, cards, Shape(zeros=zeros))
        )
    observed = [int(v) for v in rng.choice(len(cards), int(rng.integers(0, 3)), replace=False)]
    problem = Problem(functions[0], tuple(Constraint(f, 0.5) for f in functions[1:]), observed)
    rows = np.stack([rng.integers(0, cards[v], 4) for v in observed], 1) if observed else None
    return problem, problem.given(rows).evidence


def some_points(relaxed, rows: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn((rows, relaxed.coordinates.count), generator=generator)
    return relaxed.coordinates.probabilities(logits)


def enumerated(problem: Problem, row: np.ndarray, relaxed, point: torch.Tensor) -> torch.Tensor:
    """Every function's mean when the free variables are drawn independently, differentiable."""
    everything = all_assignments(problem.objective.cardinalities)
    everything = everything[((row < 0) | (row == everything)).all(axis=1)]
    places = relaxed.coordinates
    weights = torch.ones(len(everything), dtype=torch.float64)
    for number, v in enumerate(relaxed.free):
        own = point[int(places.first[number]) : int(places.first[number + 1])]
        distribution = torch.cat([1.0 - own.sum(0, keepdim=True), own])
        weights = weights * distribution[torch.as_tensor(everything[:, v], dtype=torch.int64)]
    values = np.stack([f.value(everything) for f in problem.functions], axis=1)
    return weights @ torch.as_tensor(values)


@given(seeds)
@settings(max_examples=60)
def test_values_and_gradients_agree_with_enumeration(seed):
    problem, evidence = network_problem(seed)
    relaxed = LeafRelaxation(problem)
    rows = relaxed.rows(evidence)
    points = some_points(relaxed, len(evidence), seed).requires_grad_(True)
    values = relaxed.values(rows, points)
    for k, row in enumerate(problem.given(evidence).full()):
        point = points[k].detach().double().requires_grad_(True)
        wanted = enumerated(problem, row, relaxed, point)
        np.testing.assert_allclose(values[k].detach(), wanted.detach(), atol=2e-4)
        if not len(point):
            continue
        for w in range(len(problem.functions)):
            (brute,) = torch.autograd.grad(wanted[w], point, retain_graph=True)
            (native,) = torch.autograd.grad(values[k, w], points, retain_graph=True)
            np.testing.assert_allclose(native[k], brute, atol=5e-4)


@given(seeds)
@settings(max_examples=40)
def test_values_agree_with_the_expansion(seed):
    problem, evidence = network_problem(seed)
    functions = [f if isinstance(f, LogLinearModel) else f.to_model() for f in problem.functions]
    tables = Problem(
        functions[0],
        tuple(Constraint(f, 0.5) for f in functions[1:]),
        problem.evidence_variables,
    )
    native, expanded = LeafRelaxation(problem), RelaxedProblem(tables)
    assert native.free == expanded.free
    points = some_points(native, len(evidence), seed)
    ours = native.values(native.rows(evidence), points)
    theirs = expanded.values(expanded.rows(evidence), points)
    torch.testing.assert_close(ours, theirs, atol=5e-4, rtol=1e-4)


@given(seeds)
@settings(max_examples=30)
def test_whole_points_have_the_problems_values(seed):
    problem, evidence = network_problem(seed, zeros=True)
    relaxed = LeafRelaxation(problem)
    free = whole_values(relaxed, len(evidence), seed)
    points = torch.as_tensor(relaxed.coordinates.of(free))
    found = relaxed.values(relaxed.rows(evidence), points).numpy()
    full = problem.given(evidence).complete(free)
    wanted = np.stack([f.value(full) for f in problem.functions], axis=1)
    finite = np.isfinite(wanted)
    np.testing.assert_allclose(found[finite], wanted[finite], atol=1e-3)
    assert np.isfinite(found).all()


def test_stacked_rows_and_a_sparse_form(monkeypatch):
    network = learn_cutset(clusters(0), CutsetSettings(depth=3))
    problem = Problem(network, (Constraint(network.perturb(0.1, 1), -5.0),), (0, 3))
    evidence = np.array([[0, 1], [1, 0], [1, 1]])
    dense = LeafRelaxation(problem)
    monkeypatch.setattr(leaves, "TRAINING", leaves.TRAINING._replace(dense_coefficients=0))
    thin = LeafRelaxation(problem)
    points = some_points(dense, 6, 0).reshape(2, 3, -1).requires_grad_(True)
    order = torch.tensor([[0, 1, 2], [2, 1, 0]])
    rows = dense.rows(evidence).take(order)
    assert dense.values(rows, points).shape == (2, 3, 2)
    assert_alike(dense, thin, points, lambda form: form.rows(evidence).take(order))


def test_the_relaxation_suits_the_problem():
    network = learn_cutset(clusters(0), CutsetSettings(depth=2))
    assert type(relaxation_of(Problem(network))) is LeafRelaxation
    assert type(relaxation_of(Problem(network.to_model()))) is RelaxedProblem


@pytest.mark.parametrize("loss", ["ss_cmpe", "mse"])
def test_a_network_is_trained_on_like_any_other_function(loss):
    from cmpe.learning.training.config import TrainingConfig
    from cmpe.learning.training.fitting import fit

    network = learn_cutset(clusters(0), CutsetSettings(depth=2))
    made = cmpe.generate(network, cmpe.Recipe(samples=60, percentile=30, evidence_fraction=0.4))
    solver = fit(made.problem, made.train, TrainingConfig(loss=loss, epochs=2, hidden=(8,)))
    answers = solver.solve(made.problem, made.test)
    oracle = cmpe.solve(made.problem, made.test, method="exhaustive")
    best = np.where(oracle.feasible, oracle.objective, -np.inf)
    assert (answers.bound >= best - 1e-6).all()
    assert answers.feasible.any()
    assert (np.where(answers.feasible, answers.objective, -np.inf) <= best + 1e-6).all()
