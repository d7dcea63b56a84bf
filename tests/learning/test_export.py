"""An exported network says what the solver's network says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from cmpe import Constraint, Instances, LogLinearModel, NeuralFunction, Problem
from cmpe.errors import InputError, MethodError
from cmpe.flip import adversarial
from cmpe.formats.labels import problem_digest
from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.learning.networks.networks import Network, encode
from cmpe.learning.runs import Trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.fitting import fit
from tests.learning.cases import mixed_problem, quick, small_grid
from tests.learning.losses.test_functions import images, small_network

GRID = small_grid().problem


def untrained(problem, **changes):
    """A network straight from its start, with weights large enough to say something."""
    config = quick(**changes)
    relaxation = RelaxedProblem(problem, floor=config.floor)
    none = np.zeros((0, len(problem.evidence_variables)), dtype=int)
    width = encode(problem, none).shape[1]
    network = Network.of(config, width, relaxation)
    parameters = {k: 3.0 * v.unsqueeze(0) for k, v in network.initial(1).items()}
    return NeuralSolver(problem, Trained(config, problem_digest(problem), parameters))


def some_rows(problem, count):
    cards = [problem.objective.cardinalities[v] for v in problem.evidence_variables]
    return np.random.default_rng(0).integers(0, cards, (count, len(cards)))


def reloaded(solver, path):
    solver.export(path)
    return torch.export.load(path).module()


CASES = {
    "binary": (GRID, {"skip": True, "margins": (-1.0, 0.0, 2.0), "predict_multiplier": True}),
    "binary, one margin, no multiplier": (GRID, {}),
    "many values, two constraints": (mixed_problem(), {"predict_multiplier": True}),
    "no constraint": (replace(mixed_problem(), constraints=()), {"predict_multiplier": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_the_program_says_what_the_solver_says(name, tmp_path):
    problem, changes = CASES[name]
    solver = untrained(problem, **changes)
    program = reloaded(solver, tmp_path / "network.pt2")
    for count, margin in ((1, 0.0), (7, 0.0), (7, 1.5), (300, -1.0)):
        evidence = some_rows(problem, count)
        instances = Instances(problem, evidence.astype(np.int32))
        points, values, prices = program(torch.as_tensor(evidence), torch.full((count,), margin))
        wanted, multipliers = solver.predictor.relaxed(instances, margin)
        np.testing.assert_allclose(points.numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert values.shape == (count, problem.variables - len(problem.evidence_variables))
        np.testing.assert_array_equal(
            instances.complete(values.numpy()), solver.predictor.predict(instances, margin)[0]
        )
        if multipliers is None:
            assert prices.shape == (count, 0)
        else:
            np.testing.assert_allclose(prices.numpy(), multipliers, rtol=1e-5, atol=1e-6)
    assert len(np.unique(values.numpy(), axis=0)) > 1  # so that the rows mattered


def test_rows_have_their_own_margins(tmp_path):
    solver = untrained(GRID, margins=(0.0, 4.0))
    program = reloaded(solver, tmp_path / "network.pt2")
    evidence, margins = some_rows(GRID, 3), [0.0, 4.0, 1.0]
    points = program(torch.as_tensor(evidence), torch.tensor(margins))[0].numpy()
    for k, margin in enumerate(margins):
        alone, _ = solver.predictor.relaxed(GRID.given(evidence[k : k + 1]), margin)
        np.testing.assert_allclose(points[k : k + 1], alone, rtol=1e-5, atol=1e-6)
    without = program(torch.as_tensor(evidence), torch.zeros(3))[0].numpy()
    moved = np.abs(points - without).max(axis=1)
    assert moved[0] < 1e-6
    assert (moved[1:] > 1e-3).all()


def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(MethodError, match=r"network\.pt: an exported network ends in \.pt2"):
        untrained(GRID).export(tmp_path / "network.pt")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"network\.pt2: cannot be written"):
        untrained(GRID).export(tmp_path / "nowhere" / "network.pt2")


@pytest.mark.parametrize("head", ["plain", "residual"])
def test_continuous_variables_and_other_heads_are_refused(tmp_path, head):
    problem = adversarial(small_network())
    config = quick("ss_cmpe", head=head, epochs=1)
    solver = fit(problem, images(20), config)
    with pytest.raises(MethodError, match="only networks with head plain and variables of whole"):
        solver.export(tmp_path / "network.pt2")
    assert list(tmp_path.iterdir()) == []


def test_a_network_for_a_neural_constraint_is_exported(tmp_path):
    torch.manual_seed(0)
    constraint = NeuralFunction(torch.nn.Linear(4, 1), (2, 3, 2))
    h = LogLinearModel.from_tables([2, 3, 2], [((0, 1), np.eye(2, 3)), ((1, 2), np.eye(3, 2))])
    problem = Problem(h, (Constraint(constraint, 0.5),), (0,))
    solver = fit(problem, [[0], [1]] * 8, quick(epochs=1))
    program = reloaded(solver, tmp_path / "network.pt2")
    evidence = np.array([[0], [1]])
    points, _, _ = program(torch.as_tensor(evidence), torch.zeros(2))
    wanted, _ = solver.predictor.relaxed(problem.given(evidence), 0.0)
    np.testing.assert_allclose(points.numpy(), wanted, rtol=1e-5, atol=1e-6)
