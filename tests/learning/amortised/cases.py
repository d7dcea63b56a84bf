"""A small grid, and a network for any question about it that the tests share."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

import cmpe
from cmpe import Constraint, Problem
from cmpe.generation import Recipe, grid, perturbed
from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from cmpe.learning.amortised.questions import QuestionMaker
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.tables import ModelTables
from cmpe.learning.amortised.training import fit_amortised

QUICK = {
    "generations": 0,
    "steps": 4,
    "width": 4,
    "batch_size": 32,
    "updates": 40,
    "rows": 100,
    "validation": 64,
}


@cache
def posed(side: int = 4, seed: int = 3) -> Problem:
    """h is a random grid, t a noisy copy; q is any number."""
    model = grid(side, side, seed=seed)
    return Problem(model, [Constraint(perturbed(model, Recipe()), 0.0)], name=f"grid{side}")


def config(**changes: object) -> AmortisedConfig:
    return AmortisedConfig(**{**QUICK, "learning_rate": 1e-2, **changes})  # type: ignore[arg-type]


@cache
def solver(network: str = "messages") -> AmortisedSolver:
    """Trained for a few seconds."""
    return fit_amortised(posed(), config(network=network, hidden=(32,)))


def questions(problem: Problem, count: int, seed: int, asked: QuestionRange | None = None):
    """(maker, questions) about samples that no training has seen."""
    maker = QuestionMaker(ModelTables(problem), asked or QuestionRange())
    rows = cmpe.sample(problem.objective, count, seed).assignments
    random = torch.Generator().manual_seed(seed)
    return maker, maker.draw(torch.as_tensor(rows, dtype=torch.int64), random)


def completions(given: np.ndarray, cards: tuple[int, ...]) -> np.ndarray:
    """All assignments that agree with one row of evidence."""
    free = np.flatnonzero(given < 0)
    every = np.indices([cards[v] for v in free]).reshape(len(free), -1).T
    rows = np.tile(given, (len(every), 1))
    rows[:, free] = every
    return rows
