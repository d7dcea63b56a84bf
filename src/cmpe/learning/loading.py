"""Trained solvers of any kind, by their run directory."""

from __future__ import annotations

from pathlib import Path

from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.runs import AMORTISED, CONFIG, description
from cmpe.learning.solver import NeuralSolver
from cmpe.problem import Problem


def load_solver(folder: Path | str, problem: Problem) -> NeuralSolver | AmortisedSolver:
    """The trained solver in a directory, for a problem that it answers."""
    if description(Path(folder) / CONFIG)["kind"] == AMORTISED:
        return AmortisedSolver.load(folder, problem)
    return NeuralSolver.load(folder, problem)
