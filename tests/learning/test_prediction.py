"""One pass of a network: what it says of rows, whatever their number."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cmpe.errors import MethodError
from cmpe.learning.prediction import Predictor
from cmpe.learning.settings import TRAINING
from tests.learning.cases import GRID, untrained


def test_a_larger_margin_violates_less(grid_solver):
    instances = GRID.problem.given(GRID.train)
    rates = [
        1.0 - GRID.problem.is_feasible(grid_solver.predictor.predict(instances, m)[0]).mean()
        for m in (-1.0, 1.0)
    ]
    assert rates[1] < rates[0]


def test_chunks_of_rows_give_the_same_answers(grid_solver, monkeypatch):
    whole = grid_solver.solve(GRID.problem, GRID.train)
    monkeypatch.setattr("cmpe.learning.prediction.TRAINING", TRAINING._replace(pass_rows=7))
    again = grid_solver.solve(GRID.problem, GRID.train)
    np.testing.assert_array_equal(again.assignments, whole.assignments)
    assert len(grid_solver.solve(GRID.problem, GRID.train[:0])) == 0


def test_relaxed_outputs_are_probabilities(grid_solver):
    points, multipliers = grid_solver.predictor.relaxed(GRID.problem.given(GRID.test))
    free = GRID.problem.variables - len(GRID.problem.evidence_variables)
    assert points.shape == (len(GRID.test), free)
    assert ((points >= 0) & (points <= 1)).all()
    assert multipliers.shape == (len(GRID.test), 1)
    assert (multipliers >= 0).all()


def test_weights_that_do_not_fit_are_refused():
    solver = untrained(GRID.problem)
    wrong = {**solver.trained.parameters, "weight0": torch.zeros((1, 3, 3))}
    for parameters in (wrong, dict(list(wrong.items())[1:])):
        broken = replace(solver, trained=replace(solver.trained, parameters=parameters))
        with pytest.raises(
            MethodError, match=r"the weights do not fit the network of config\.json"
        ):
            broken.solve(GRID.problem, GRID.test)


def test_a_relaxation_can_be_shared(grid_solver):
    own = grid_solver.predictor
    other = Predictor(own.problem, own.trained, shared=own.relaxation)
    assert other.relaxation is own.relaxation
    rows = GRID.problem.given(GRID.test)
    np.testing.assert_array_equal(own.predict(rows, 0.5)[0], other.predict(rows, 0.5)[0])


def test_relaxed_violations_are_the_polynomials(grid_solver):
    rows = GRID.problem.given(GRID.train)
    network = grid_solver.predictor
    points, _ = network.relaxed(rows, 0.5)
    values = network.relaxation.values(
        network.relaxation.rows(rows.evidence), torch.from_numpy(points)
    )
    over = values[:, 1].numpy() > GRID.problem.limits[0] + GRID.problem.tolerances[0]
    np.testing.assert_array_equal(network.relaxed_violations(rows, 0.5), over)
