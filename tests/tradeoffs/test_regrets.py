"""The best h that each value allows."""

import numpy as np

from cmpe import Limits
from cmpe.tradeoffs.regrets import forced_values
from tests.problems import worked_example


def test_every_value_is_forced_in_turn():
    full = np.array([[1, 1, -1, -1], [0, 0, -1, -1]], dtype=np.int32)
    (first, second), _ = forced_values(worked_example(), full, Limits())
    assert [values.tolist() for values, _ in (first, second)] == [[11.0, 8.0], [-np.inf, 11.0]]
    assert all(exact.all() for _, exact in (first, second))


def test_nothing_to_force():
    observed = worked_example().observing((0, 1, 2, 3))
    assert forced_values(observed, np.array([[1, 1, 0, 1]], dtype=np.int32), Limits()) == [[]]
