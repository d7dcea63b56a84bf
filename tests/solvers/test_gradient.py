"""Local search where functions have gradients only, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from cmpe.errors import MethodError
from cmpe.models.distance import Distance
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solution import Status
from cmpe.solvers import METHODS
from cmpe.solving import solve


def module(inputs: int, seed: int, hidden: int = 4) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, 1))


def random_model(cards: tuple[int, ...], rng: np.random.Generator) -> LogLinearModel:
    factors = []
    for _ in range(len(cards) + 1):
        scope = tuple(
            rng.permutation(len(cards))[: rng.integers(1, min(3, len(cards)) + 1)].tolist()
        )
        factors.append(Factor(scope, rng.normal(size=[cards[v] for v in scope])))
    return LogLinearModel(cards, tuple(factors))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_discrete_problems_with_a_network(seed):
    rng = np.random.default_rng(seed)
    cards = tuple(rng.integers(2, 4, size=rng.integers(1, 5)).tolist())
    inputs = sum(k - 1 for k in cards)
    t = NeuralFunction(module(inputs, seed), cards)
    h = random_model(cards, rng)
    observed = tuple(range(int(rng.integers(0, len(cards)))))
    every = np.stack(np.meshgrid(*map(np.arange, cards), indexing="ij"), -1).reshape(-1, len(cards))
    q = float(np.quantile(t.value(every), rng.choice([-0.0, 0.3, 0.8])))
    problem = Problem(h, (Constraint(t, q),), observed)
    evidence = (
        np.stack([rng.integers(0, cards[v], size=2) for v in observed], 1) if observed else None
    )
    best = solve(problem, evidence, method="exhaustive")
    found = solve(problem, evidence, method="local", seed=seed)
    assert found.assignments.dtype == np.int32
    for row in range(len(best)):
        if best.status[row] == Status.INFEASIBLE:
            assert found.status[row] == Status.VIOLATED
        else:  # single moves from several starts find a feasible one and no better than the best
            assert found.feasible[row] or found.status[row] == Status.VIOLATED
            if found.feasible[row]:
                assert found.objective[row] <= best.objective[row] + 1e-9
    same = solve(problem, evidence, method="local", seed=seed)
    np.testing.assert_array_equal(found.assignments, same.assignments)


def test_a_linear_problem_in_the_box_is_solved():
    """maximise z0 + 2 z1 subject to z0 + z1 <= 1.2: (0.2, 1)."""
    h = LogLinearModel((2, 2), (Factor((0,), [0.0, 1.0]), Factor((1,), [0.0, 2.0])))
    t = LogLinearModel((2, 2), (Factor((0,), [0.0, 1.0]), Factor((1,), [0.0, 1.0])))
    problem = Problem(h, (Constraint(t, 1.2),), (), "box", (0, 1))
    found = solve(problem, method="local")
    assert found.feasible.all()
    assert found.objective[0] == pytest.approx(2.2, abs=2e-2)


def flip(seed: int = 0, outputs: int = 3) -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(seed)
    net = ReluNetwork(
        (rng.normal(size=(6, 3)), rng.normal(size=(outputs, 6))),
        (rng.normal(size=6) * 0.1, rng.normal(size=outputs) * 0.1),
    )
    first, second = tuple(range(3)), tuple(range(3, 6))
    h = Distance.between(first, second, 6)
    t = ClassMargin(net, first, second, (2,) * 6)
    problem = Problem(h, (Constraint(t, 0.0),), first, "flip", tuple(range(6)))
    return problem, rng.random((4, 3))


@pytest.mark.parametrize("outputs", [1, 3])
def test_flips_are_found_near_the_best_of_a_fine_grid(outputs):
    problem, images = flip(outputs=outputs)
    found = solve(problem, images, method="local")
    ticks = np.linspace(0, 1, 21)
    grid = np.stack(np.meshgrid(ticks, ticks, ticks, indexing="ij"), -1).reshape(-1, 3)
    assert found.assignments.dtype == np.float64
    for row, image in enumerate(images):
        whole = np.concatenate([np.repeat(image[None], len(grid), 0), grid], 1)
        feasible = problem.is_feasible(whole)
        if feasible.any():
            best = problem.objective.value(whole)[feasible].max()
            assert found.feasible[row]
            assert found.objective[row] >= best - 0.15


@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("local",) and "milp" not in m])
def test_methods_that_need_tables_say_so(method):
    problem, images = flip()
    if method == "exhaustive":
        with pytest.raises(MethodError, match="continuous variables"):
            solve(problem, images, method=method)
    elif method != "auto":
        with pytest.raises(MethodError, match=f"method {method} needs tables.*Distance"):
            solve(problem, images, method=method)


def test_a_start_is_taken_and_a_time_limit_kept():
    from cmpe.solvers.base import Running

    problem, images = flip()
    first = solve(problem, images, method="local")
    running = Running(start=first.assignments)
    again = solve(problem, images, method="local", running=running, time_limit=1e-6)
    assert (again.objective >= first.objective - 1e-12).all()
