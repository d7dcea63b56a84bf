"""The passes of kernels: enough for what kernels are made of."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.typed_passes import NativeLowering

from cmpe.core.compiler import notices
from cmpe.core.compiler.fast.passes import Lowering, kernel_passes
from cmpe.core.compiler.functions import njit


def test_the_passes_end_with_the_lowering_that_was_asked_for():
    for lowering in (Lowering, NativeLowering):
        manager = kernel_passes(lowering)
        assert [kind for kind, _ in manager.passes][-2] is lowering


def test_branches_loops_tuples_and_errors():
    @njit(cache=False, inner=False)
    def kernel(values, limit):
        found, both = 0.0, (1, 2.5)
        if limit is None:
            return found
        for i in range(len(values)):
            if values[i] > limit:
                break
            if i % 2:
                continue
            found += values[i] * both[0] + both[1]
        while found > 100.0:
            found /= 2.0
        if found < 0.0:
            raise ValueError("below 0")
        return found

    values = np.array([1.0, -3.0, 400.0, 2.0, 900.0])
    with notices.telling(lambda notice: None):
        assert kernel(values, 500.0) == kernel.py_func(values, 500.0)
        assert kernel(values, None) == 0.0
        with pytest.raises(ValueError, match="below 0"):
            kernel(-values, 500.0)


def test_array_expressions():
    @njit(cache=False, inner=False)
    def kernel(a, b):
        return np.sqrt(a * a + b) - (-b)

    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    with notices.telling(lambda notice: None):
        assert kernel(a, b).tolist() == kernel.py_func(a, b).tolist()
