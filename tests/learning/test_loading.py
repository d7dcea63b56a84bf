"""Runs of both kinds by their directory."""

from __future__ import annotations

from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.loading import load_solver
from cmpe.learning.solver import NeuralSolver
from tests.learning.amortised.cases import posed, solver
from tests.learning.cases import GRID


def test_the_kind_of_a_run_decides(tmp_path, grid_solver):
    grid_solver.save(tmp_path / "one")
    solver().save(tmp_path / "any")
    assert isinstance(load_solver(tmp_path / "one", GRID.problem), NeuralSolver)
    assert isinstance(load_solver(tmp_path / "any", posed()), AmortisedSolver)
