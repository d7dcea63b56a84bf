"""The curves of the compiled pass; the pass itself is in test_compiled.py."""

from __future__ import annotations

import math

import numpy as np

from cmpe.learning.amortised.kernels import REACH, SOFT, STEPS


def test_the_kept_curve_is_straight_between_its_points():
    x = np.linspace(0, REACH, 10_001)
    found = np.interp(x * STEPS, np.arange(len(SOFT)), SOFT)
    assert np.abs(found - np.log1p(np.exp(-x))).max() < 2e-6
    assert math.isclose(SOFT[0], math.log(2.0))
