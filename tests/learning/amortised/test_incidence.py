"""Handing numbers out to axes and summing them back: each is the other's derivative."""

from __future__ import annotations

import numpy as np
import torch

from cmpe.learning.amortised.incidence import Incidence

OWNER = np.array([2, 0, 2, 3])  # variable 1 has no axis


def test_spread_and_collect_are_transposes():
    incidence = Incidence(OWNER, 4, torch.device("cpu"))
    numbers = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    axes = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
    spread, collected = incidence.spread(numbers), incidence.collect(axes)
    torch.testing.assert_close(spread, numbers[OWNER])
    torch.testing.assert_close((spread * axes).sum(), (collected * numbers).sum())
    assert (collected[1] == 0).all()
    assert torch.autograd.gradcheck(incidence.spread, numbers)
    assert torch.autograd.gradcheck(incidence.collect, axes)
