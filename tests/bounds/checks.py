"""What every bound has to satisfy."""

from __future__ import annotations

import numpy as np

import cmpe
from cmpe.bounds import Bounds
from tests.problems import Shape

AWKWARD = Shape(variables=6, factors=9, constraints=3)


def check(bounds: Bounds, truth: cmpe.Solutions) -> None:
    """No bound lies below a feasible objective, and infeasible means infeasible."""
    feasible = truth.feasible
    assert (bounds.upper[feasible] >= truth.objective[feasible]).all()
    assert not bounds.infeasible[feasible].any()
    assert not np.isnan(bounds.upper).any()
    np.testing.assert_array_equal(bounds.infeasible, bounds.upper == -np.inf)
    assert (bounds.multipliers >= 0).all()


def most(model: cmpe.LogLinearModel) -> float:
    """The largest value of a model."""
    return float(cmpe.solve(cmpe.Problem(model), None).objective[0])
