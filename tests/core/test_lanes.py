"""Vectors of compiled code against numpy."""

from __future__ import annotations

import numpy as np

from cmpe.core import lanes
from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import (
    LANES,
    exp_down,
    least,
    load,
    minus,
    most,
    over,
    plus,
    soft,
    spread,
    store,
    times,
)  # fmt: skip


@njit(cache=False)
def every_operation(x, y, out):
    for row in range(len(x)):
        a, b = load(x, row), load(y, row)
        store(out, 9 * row, plus(a, b))
        store(out, 9 * row + 1, minus(a, b))
        store(out, 9 * row + 2, times(a, b))
        store(out, 9 * row + 3, over(a, b))
        store(out, 9 * row + 4, most(a, b))
        store(out, 9 * row + 5, least(a, b))
        store(out, 9 * row + 6, exp_down(minus(least(a, b), most(a, b))))
        store(out, 9 * row + 7, soft(a, b, spread(np.float32(0.5)), spread(np.float32(2.0))))
        store(out, 9 * row + 8, spread(np.float32(row)))


def test_operations_are_those_of_numpy():
    random, rows = np.random.default_rng(0), 40
    x, y = (random.normal(0, 5, (rows, LANES)).astype(np.float32) for _ in range(2))
    x[0], y[0] = 1e4, -1e4
    out = np.zeros((9 * rows, LANES), dtype=np.float32)
    every_operation(x, y, out)
    found = out.reshape(rows, 9, LANES)
    a, b = x.astype(float), y.astype(float)
    rest = -abs(a - b)
    wanted = [
        a + b,
        a - b,
        a * b,
        a / b,
        np.maximum(a, b),
        np.minimum(a, b),
        np.exp(rest),
        0.5 * np.logaddexp(2 * a, 2 * b),
        np.arange(rows)[:, None] + 0 * a,
    ]
    exact = {0, 1, 2, 3, 4, 5, 8}
    for number, values in enumerate(wanted):
        close = 1e-6 if number in exact else 2e-6
        np.testing.assert_allclose(
            found[:, number], values, rtol=close, atol=close, err_msg=str(number)
        )


def test_far_numbers_leave_nothing_that_slows_a_core_down():
    """A product of two of the smallest values of exp_down is a normal number."""
    assert np.exp(-2 * lanes.FARTHEST) > 1e6 * np.finfo(np.float32).tiny
