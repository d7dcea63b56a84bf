"""How last numbers become answers, and which heads fit where."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe.errors import MethodError
from cmpe.flip import adversarial
from cmpe.learning.losses.functions import FunctionRelaxation
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import fit
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from tests.learning.losses.test_functions import images, small_network


def test_heads_that_do_not_fit_are_refused():
    h = LogLinearModel((2, 2), (Factor((0, 1), np.zeros((2, 2))),))
    with pytest.raises(MethodError, match="Distance objective"):
        fit(Problem(h, (), (0,)), [[0], [1]], TrainingConfig(head="residual", epochs=1))
    problem = Problem(h, (), (0,), "", (0, 1))
    with pytest.raises(MethodError, match="pairs every free variable"):
        FunctionRelaxation(problem, head="residual")
    with pytest.raises(MethodError, match="a head is one of"):
        TrainingConfig(head="tail")


def test_small_logits_of_head_residual_move_nothing():
    problem = adversarial(small_network())
    relaxation = FunctionRelaxation(problem, head="residual")
    rows = relaxation.rows(problem.given(images(3)).evidence)
    still = torch.full((3, 5), 0.9 * TRAINING.still)
    x = torch.as_tensor(images(3), dtype=torch.float32)
    torch.testing.assert_close(relaxation.head.points(rows, still), x)
    towards = relaxation.head.points(rows, torch.full((3, 5), 9.0))
    assert (towards > x).all()
    assert (towards <= 1.0).all()
    away = relaxation.head.points(rows, torch.full((3, 5), -9.0))
    assert (away < x).all()
    assert (away >= 0.0).all()
