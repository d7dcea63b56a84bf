"""A trained solver that the tests of its parts share."""

from __future__ import annotations

import pytest

from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.fitting import fit
from tests.learning.cases import GRID, MARGINS, quick


@pytest.fixture(scope="session")
def grid_solver() -> NeuralSolver:
    config = quick("distill", hidden=(16,), skip=True, epochs=12, learning_rate=2e-2,
                   predict_multiplier=True, margins=MARGINS)  # fmt: skip
    return fit(GRID.problem, GRID.train, config)
