"""What the tests of wide rows share."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe import Recipe, Status
from cmpe.generation import generate, grid

on_wide_rows = pytest.mark.usefixtures("wide")


def wide_grid(rows=6):
    made = generate(grid(6, 6, seed=3), Recipe(percentile=20, samples=200, evidence_fraction=0.3))
    return made.problem, made.train[:rows]


def assert_true(found, truth):
    """What is said of a row holds, proved or not."""
    answered = truth.feasible
    assert (found.feasible <= answered).all()
    assert (found.objective[found.feasible] <= truth.objective[found.feasible] + 1e-9).all()
    assert (found.bound[answered] >= truth.objective[answered] - 1e-9).all()
    proved = found.status == Status.OPTIMAL
    np.testing.assert_allclose(found.objective[proved], truth.objective[proved], rtol=1e-6)
    assert not answered[found.status == Status.INFEASIBLE].any()
