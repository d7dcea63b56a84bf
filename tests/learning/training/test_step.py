"""One step: what moves the weights, and what a loss is given."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.learning.losses.catalogue import LOSS_KINDS, Family
from cmpe.learning.losses.losses import NOTHING
from cmpe.learning.training.data import prepare
from cmpe.learning.training.trainer import Trainer
from tests.learning.cases import quick, small_grid, trained, trainer_for, weights


def test_infeasible_rows_are_skipped():
    """x = 1 forces t = 5 > 1; only rows with x = 0 may move the weights."""
    h = LogLinearModel((2, 2), (Factor((0, 1), [[0.0, 1.0], [0.0, 1.0]]),))
    t = LogLinearModel((2, 2), (Factor((0,), [0.0, 5.0]),))
    problem = Problem(h, (Constraint(t, 1.0),), (0,))
    for loss in ("ss_cmpe", "mse", "ssl_pen"):
        config = quick(loss, validation_share=0.0, batch_size=4)
        mixed = trained(problem, np.array([[0], [1], [0], [1]]), config)
        assert mixed.data.usable.ravel().tolist() == [True, False, True, False]
        twin = trained(problem, np.array([[0], [0], [0], [0]]), config)
        torch.testing.assert_close(weights(mixed), weights(twin), rtol=0, atol=1e-6)
        penalty = mixed.program.examples.penalty[0, :, 0]
        assert (penalty[[1, 3]] == 1.0).all()


@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_a_loss_is_given_what_the_catalogue_says(loss):
    one, kind = small_grid(), LOSS_KINDS[loss]
    program = trainer_for(one.problem, one.train, quick(loss)).program
    rows = torch.arange(4).unsqueeze(0)
    forward = program.forward(program.adam.parameters, rows, torch.zeros(rows.shape))
    found = program.evaluated(forward, rows)
    assert (found.alpha is not NOTHING) == kind.alpha
    assert (found.penalty is not NOTHING) == kind.penalty
    assert (found.multipliers is not NOTHING) == kind.dual
    assert (found.surprise is not NOTHING) == (kind.family is Family.distilled)
    assert (found.targets is not NOTHING) == (kind.family is Family.supervised)


def test_gamma_is_the_weight_of_the_outputs_entropy():
    """The regulariser of the paper's source: gamma times the sum of H(y_i), to be made small."""
    one, weight = small_grid(), 0.7
    program = trainer_for(one.problem, one.train, quick(gamma=weight)).program
    plain = trainer_for(one.problem, one.train, quick()).program
    rows = torch.arange(5).unsqueeze(0)
    with torch.no_grad():
        forward = program.forward(program.adam.parameters, rows, torch.zeros(rows.shape))
        y = forward.points
        entropy = -(y * y.log() + (1 - y) * (1 - y).log()).sum(-1)
        added = program.loss(forward, rows) - plain.loss(forward, rows)
    torch.testing.assert_close(added, weight * entropy, atol=1e-3, rtol=1e-4)


def test_alpha_is_reported_with_the_share_of_rows_that_have_one():
    one = small_grid()
    config = quick(alpha="paper", epochs=1)
    data = prepare(one.problem.given(one.train), config)
    every = (np.arange(len(data)), np.arange(0))
    data.q_lower[: len(data) // 2] = np.nan
    trainer = Trainer(data, [config], [every])
    (epoch,) = trainer.epochs()
    assert 0.0 < epoch.measures["alpha_known"][0] < 1.0
    assert epoch.measures["alpha"][0] > 1.0
    data.q_lower[...] = np.nan
    trainer = Trainer(data, [config], [every])
    (epoch,) = trainer.epochs()
    assert epoch.measures["alpha_known"][0] == 0.0
    assert np.isnan(epoch.measures["alpha"][0])
