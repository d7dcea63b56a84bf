"""Instances that the tests of tensor code share."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from cmpe import Constraint, Instances, Problem, solve
from cmpe.generation import grid

DEVICES = [
    "cpu",
    pytest.param(
        "cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
    ),
]


def wide_instances(rows: int = 40, constraints: int = 1) -> Instances:
    """An 8x8 grid whose constraints bind in most rows."""
    model = grid(8, 8, seed=3)
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2, (200, 64))
    limited = []
    for j in range(constraints):
        other = model.perturb(0.3, 10 + j)
        limited.append(Constraint(other, float(np.quantile(other.value(points), 0.3))))
    problem = Problem(model, tuple(limited), tuple(range(0, 64, 7)))
    return problem.given(rng.integers(0, 2, (rows, len(problem.evidence_variables))))


def optimum(instances: Instances, method: str = "exhaustive") -> np.ndarray:
    found = solve(instances.problem, instances.evidence, method=method)
    return np.where(found.feasible, found.objective, -np.inf)


def completions(instances: Instances, row: int) -> np.ndarray:
    """Every assignment that agrees with one row of evidence."""
    problem = instances.problem
    ranges = [range(k) for k in problem.objective.cardinalities]
    for variable, value in zip(problem.evidence_variables, instances.evidence[row], strict=True):
        ranges[variable] = range(value, value + 1)
    return np.array(list(itertools.product(*ranges)))
