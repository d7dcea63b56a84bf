"""Bounds beside a network's answers: never below the optimum, and tighter where more is spent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import cmpe
from cmpe import Status
from cmpe.errors import MethodError
from cmpe.flip import adversarial
from cmpe.learning.certificates import CERTIFICATES
from cmpe.learning.settings import TRAINING
from tests.learning.cases import GRID, untrained
from tests.learning.losses.test_functions import images, small_network


def test_the_optimal_bound_is_the_tighter_one(grid_solver):
    bounds = {
        kind: grid_solver.with_stages(certificate=kind).solve(GRID.problem, GRID.test).bound
        for kind in ("none", "predicted", "optimal")
    }
    assert (bounds["optimal"] <= bounds["predicted"] + 1e-6).all()
    assert (bounds["predicted"] < np.inf).all()
    assert (bounds["none"] == np.inf).all()


def test_a_predicted_bound_needs_a_multiplier():
    solver = untrained(GRID.problem, predict_multiplier=False)
    with pytest.raises(MethodError, match="predicts no multiplier; ask for certificate 'optimal'"):
        solver.with_stages(certificate="predicted").solve(GRID.problem, GRID.test)


def test_without_constraints_the_predicted_bound_is_the_optimum():
    problem = replace(GRID.problem, constraints=())
    solver = untrained(problem).with_stages(certificate="predicted")
    truth = cmpe.solve(problem, GRID.test, method="exhaustive")
    np.testing.assert_allclose(solver.solve(problem, GRID.test).bound, truth.objective, atol=1e-6)


def test_what_is_too_wide_has_no_bound(grid_solver, monkeypatch):
    monkeypatch.setattr("cmpe.bounds.lagrangian.MOST_BYTES", 10)
    for certificate in ("predicted", "optimal"):
        solver = grid_solver.with_stages(certificate=certificate)
        answers = solver.solve(GRID.problem, GRID.test)
        assert (answers.bound == np.inf).all()
        assert (answers.status == Status.FEASIBLE).all()


def test_wide_rows_are_bounded_by_splitting(grid_solver, monkeypatch):
    from cmpe.learning import certificates as module

    monkeypatch.setattr(module, "TRAINING", TRAINING._replace(quick_bytes=0))
    problem, rows = GRID.problem, GRID.test
    truth = cmpe.solve(problem, rows, method="exhaustive")
    found = grid_solver.solve(problem, rows)
    assert np.isfinite(found.bound).all()
    assert (found.bound >= truth.objective)[truth.feasible].all()


@pytest.mark.parametrize("name", CERTIFICATES)
def test_flips_are_bounded_by_the_classifier(name):
    problem = adversarial(small_network())
    rows = problem.given(images(20))
    proved = CERTIFICATES[name](rows, None, 1)
    best = cmpe.solve(problem, rows.evidence, method="milp")
    assert (proved.bound >= best.objective - 1e-9)[best.feasible].all()
    assert not (proved.infeasible & best.feasible).any()
    assert np.isinf(proved.bound).all() == (name == "none")


@pytest.mark.parametrize("layer", [torch.nn.ReLU, torch.nn.GELU])
def test_other_problems_without_tables_have_bounds_where_layers_have(layer):
    torch.manual_seed(0)
    function = cmpe.NeuralFunction(torch.nn.Sequential(torch.nn.Linear(2, 1), layer()), (2, 2))
    h = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), np.eye(2))])
    problem = cmpe.Problem(h, (cmpe.Constraint(function, 0.5),), (0,))
    proved = CERTIFICATES["optimal"](problem.given([[0], [1]]), None, 1)
    best = cmpe.solve(problem, [[0], [1]], method="exhaustive")
    assert (proved.bound >= best.objective)[best.feasible].all()
    assert np.isposinf(proved.bound).all() == (layer is torch.nn.GELU)
    assert not proved.infeasible.any()
