"""Small problems and short training runs that the tests of learning share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem, Status
from cmpe.formats.labels import problem_digest
from cmpe.generation import Generated, Recipe, generate, grid
from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.learning.networks.networks import Network, encode
from cmpe.learning.runs import Trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.data import prepare, split
from cmpe.learning.training.trainer import Trainer


@cache
def small_grid(
    side: int = 3, *, values: int = 2, samples: int = 60, percentile: int = 10, seed: int = 5
) -> Generated:
    """A side x side grid with 60 % evidence; 9 of 10 samples are to train on.

    With the defaults nearly every row is constrained, and none is infeasible.
    """
    recipe = Recipe(samples=samples, percentile=percentile, seed=seed)
    return generate(grid(side, side, values=values, seed=seed), recipe, name=f"grid{side}")


def quick(loss: str = "ss_cmpe", **changes: Any) -> TrainingConfig:
    """A run of a moment."""
    base: dict[str, Any] = {"hidden": (8,), "epochs": 3, "batch_size": 16, "validation_share": 0.2}
    return TrainingConfig(loss=loss, **{**base, **changes})


def trainer_for(problem: Problem, evidence: np.ndarray, config: TrainingConfig) -> Trainer:
    """One member on its own split."""
    data = prepare(problem.given(evidence), config)
    return Trainer(data, [config], [split(len(data), config)])


def trained(problem: Problem, evidence: np.ndarray, config: TrainingConfig) -> Trainer:
    """The same after all epochs."""
    trainer = trainer_for(problem, evidence, config)
    for _ in trainer.epochs():
        pass
    return trainer


def weights(trainer: Trainer, member: int = 0) -> torch.Tensor:
    return trainer.program.adam.flat[member].detach().clone()


def one_choice(limit: float | None = 0.5, slope: float = 1.0) -> Problem:
    """One binary variable: h = (0, 5) wants 1, t = (0, slope) <= limit allows 0 only.

    C = 6, so by default f = (6, 1) and g = (-0.5, 0.5): p* = 6, q* = 1.5.
    """
    h = LogLinearModel((2,), (Factor((0,), [0.0, 5.0]),))
    t = LogLinearModel((2,), (Factor((0,), [0.0, slope]),))
    return Problem(h, () if limit is None else (Constraint(t, limit),))


def mixed_problem(seed: int = 0, *, zeros: bool = False) -> Problem:
    """Six variables of 2 to 4 values, factors of arity 1 to 3, two constraints, two observed."""
    rng = np.random.default_rng(seed)
    cards = (2, 3, 4, 2, 3, 2)
    scopes = [(0, 1, 2), (1, 3), (2, 4, 5), (0, 3, 5), (4,), (1,)]

    def model() -> LogLinearModel:
        return LogLinearModel(
            cards, tuple(Factor(s, rng.normal(size=[cards[v] for v in s])) for s in scopes)
        )

    h = model()
    if zeros:
        tables = [f.log_table.copy() for f in h.factors]
        tables[0][1, 2, 3] = tables[1][0, 0] = -np.inf
        h = LogLinearModel(
            cards, tuple(Factor(f.scope, t) for f, t in zip(h.factors, tables, strict=True))
        )
    return Problem(h, (Constraint(model(), 1.0), Constraint(model(), 0.5)), (0, 4))


def whole_values(relaxed: Any, rows: int, seed: int) -> np.ndarray:
    """Random values of a relaxation's free variables: (rows, free)."""
    rng = np.random.default_rng(seed)
    cards = [relaxed.problem.objective.cardinalities[v] for v in relaxed.free]
    return np.array([[rng.integers(0, k) for k in cards] for _ in range(rows)]).reshape(rows, -1)


def assert_alike(one: Any, other: Any, points: torch.Tensor, rows_of: Callable[[Any], Any]) -> None:
    """Two forms of a relaxation have the same values and gradients."""
    results = []
    for form in (one, other):
        rows = rows_of(form)
        values = form.values(rows, points)
        (slopes,) = torch.autograd.grad(values.square().sum(), points)
        results.append((values, slopes))
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b, atol=1e-3, rtol=1e-4)


GRID = small_grid(4, samples=100)
MARGINS = (-1.0, 0.0, 0.5, 1.0)


def untrained(problem, seed=0, **changes):
    """A network straight from its start: its answers are arbitrary."""
    config = quick(**{"predict_multiplier": True, **changes})
    relaxation = RelaxedProblem(problem, floor=config.floor)
    none = np.zeros((0, len(problem.evidence_variables)), dtype=int)
    network = Network.of(config, encode(problem, none).shape[1], relaxation)
    parameters = {k: 5.0 * v.unsqueeze(0) for k, v in network.initial(seed).items()}
    return NeuralSolver(problem, Trained(config, problem_digest(problem), parameters))


def check_honest(problem, evidence, answers):
    """Statuses, values and bounds against enumeration."""
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    exists = truth.feasible
    for k, status in enumerate(answers.status):
        row = answers.assignments[k : k + 1]
        if status == Status.INFEASIBLE:  # no assignment is returned
            assert not exists[k]
            assert (row < 0).all()
            continue
        np.testing.assert_array_equal(
            row[0, list(problem.evidence_variables)], np.atleast_2d(evidence)[k]
        )
        really = bool(problem.is_feasible(row)[0])
        assert really == (status in (Status.OPTIMAL, Status.FEASIBLE))
        if really:
            assert answers.objective[k] == problem.objective.value(row)[0]
        if status == Status.OPTIMAL:
            assert answers.objective[k] == pytest.approx(truth.objective[k], abs=1e-5)
        if exists[k]:
            assert answers.bound[k] >= truth.objective[k] - 1e-9
    return truth
