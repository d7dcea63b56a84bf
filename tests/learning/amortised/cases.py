"""A small grid, and a network for any question about it that the tests share."""

from __future__ import annotations

from functools import cache

import numpy as np

import cmpe
from cmpe import Constraint, Problem
from cmpe.generation import Recipe, grid, perturbed
from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from cmpe.learning.amortised.messages import MessagePass
from cmpe.learning.amortised.questions import QuestionMaker
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.training import fit_amortised

QUICK = {"steps": 4, "generations": 3, "rows": 60}
FLOOR = 20.0


@cache
def posed(side: int = 4, seed: int = 3) -> Problem:
    """h is a random grid, t a noisy copy; q is any number."""
    model = grid(side, side, seed=seed)
    return Problem(model, [Constraint(perturbed(model, Recipe()), 0.0)], name=f"grid{side}")


def config(**changes: object) -> AmortisedConfig:
    return AmortisedConfig(**{**QUICK, **changes})  # type: ignore[arg-type]


@cache
def solver() -> AmortisedSolver:
    """Tuned for a second."""
    return fit_amortised(posed(), config())


def maker(problem: Problem, asked: QuestionRange | None = None) -> QuestionMaker:
    return QuestionMaker(problem, MessagePass.of(problem, FLOOR), asked or QuestionRange())


def questions(
    problem: Problem, count: int, seed: int, asked: QuestionRange | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Evidence (B, n) of different masks and q (B, m) about samples that no tuning has seen."""
    here, random = maker(problem, asked), np.random.default_rng(seed)
    rows = cmpe.sample(problem.objective, count, seed).assignments
    given = np.stack([np.where(here.mask(random), row, -1) for row in rows])
    return given, here.limits(given, random)


def completions(given: np.ndarray, cards: tuple[int, ...]) -> np.ndarray:
    """All assignments that agree with one row of evidence."""
    free = np.flatnonzero(given < 0)
    every = np.indices([cards[v] for v in free]).reshape(len(free), -1).T
    rows = np.tile(given, (len(every), 1))
    rows[:, free] = every
    return rows
