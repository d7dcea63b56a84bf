"""Tests of the core run under each compiler: `make test` does it with all three.

pytest tests/core                          the fast compiler, where numba's version allows it
CMPE_PLAIN_NUMBA=1 pytest tests/core       numba alone
NUMBA_DISABLE_JIT=1 pytest tests/core      nothing is compiled: a debugger and coverage see all
"""

from __future__ import annotations

import numpy as np
import pytest

from cmpe.core.compiler import fence


@pytest.fixture(autouse=True)
def _arithmetic_does_not_warn():
    """Compiled integers wrap around, and -inf less -inf is NaN; numpy's scalars also warn of it."""
    if fence.IS_COMPILED:
        yield
    else:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            yield
