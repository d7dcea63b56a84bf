"""A constraint and its tolerance."""

import numpy as np
import pytest

from cmpe import Constraint, LogLinearModel
from cmpe.errors import ModelError
from cmpe.problem import FEASIBILITY_TOLERANCE

ONE = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])


@pytest.mark.parametrize(("q", "scale"), [(0.0, 1.0), (-0.5, 1.0), (3.0, 3.0), (-2e6, 2e6)])
def test_the_tolerance_grows_with_the_limit(q, scale):
    constraint = Constraint(ONE, q)
    assert FEASIBILITY_TOLERANCE == 1e-6
    assert constraint.tolerance == 1e-6 * scale
    assert constraint.loosened(0.0) == q + 1e-6 * scale
    assert constraint.loosened(1e-3) == pytest.approx(q + (1e-6 + 1e-3) * scale, rel=1e-15)
    assert constraint.loosened(-1e-6) == pytest.approx(q, rel=1e-15)


@pytest.mark.parametrize("q", [np.inf, -np.inf, np.nan])
def test_a_limit_is_finite(q):
    with pytest.raises(ModelError, match=f"at_most must be a finite number, found {q}"):
        Constraint(ONE, q)


def test_a_limit_is_a_float():
    assert type(Constraint(ONE, np.float32(0.5)).at_most) is float
    assert type(Constraint(ONE, 3).at_most) is float
