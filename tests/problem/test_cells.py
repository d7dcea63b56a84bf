"""Cells: what is missing, and what a state is."""

import numpy as np
import pandas as pd
import pytest

from cmpe.domain import Domain
from cmpe.problem.cells import encoded, is_missing

DOMAIN = Domain((2, 2), ("a", "b"), (("off", "on"), ("-1", "1")))


@pytest.mark.parametrize("cell", [None, np.nan, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_missing(cell):
    assert is_missing(cell)


@pytest.mark.parametrize("cell", [0, -1, "", "nan", 0.0, False])
def test_not_missing(cell):
    assert not is_missing(cell)


def test_minus_one_may_be_a_state():
    assert encoded(DOMAIN, 0, [-1, "on"], is_continuous=False).tolist() == [-1, 1]
    assert encoded(DOMAIN, 0, np.array([-1, 1]), is_continuous=False).tolist() == [-1, 1]
    assert encoded(DOMAIN, 1, np.array([-1, 1]), is_continuous=False).tolist() == [0, 1]
    assert encoded(DOMAIN, 1, "1", is_continuous=False).shape == ()


def test_numpy_texts_and_series():
    for cells in (np.array(["on", "off"]), pd.Series(["on", "off"]), ("on", "off")):
        assert encoded(DOMAIN, 0, cells, is_continuous=False).tolist() == [1, 0]
