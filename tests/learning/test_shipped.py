"""Networks that come with the package."""

from __future__ import annotations

import warnings

import numpy as np

import cmpe
from cmpe.generation import Recipe, grid, perturbed
from cmpe.learning.amortised.solver import QuestionWarning
from cmpe.learning.shipped import resolved
from cmpe.solvers.local import improve
from tests.refusals import refused


def test_names_become_run_directories():
    assert resolved("shipped:grids").endswith("grids")
    assert resolved("auto") == "auto"
    refused(lambda: resolved("shipped:trees"), "ships grids, found 'shipped:trees'")


def test_grids_start_nearer_than_a_constant():
    """A grid that no network has seen, a tenth observed, t in the middle of its samples."""
    h = grid(12, 12, seed=77)
    t = perturbed(h, Recipe(seed=77))
    drawn = cmpe.sample(h, 20, seed=1).assignments
    seen = np.random.default_rng(0).permutation(144)[:14]
    problem = cmpe.Problem(h, [t <= float(np.median(t.value(drawn)))], np.sort(seen).tolist())
    posed = problem.given(drawn[:, np.sort(seen)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        found = cmpe.solve(problem, drawn[:, np.sort(seen)], method="shipped:grids")
    constant = improve(posed, np.where(posed.full() < 0, 0, posed.full()).astype(np.int32))
    assert problem.is_feasible(found.assignments).all()
    assert found.objective.mean() > h.value(constant).mean() + 0.5
