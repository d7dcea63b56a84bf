"""Scaled programs: the same points and values, nothing lost, large numbers gone."""

import itertools

import numpy as np
import pytest

from cmpe import Limits
from cmpe.solvers.milp import highs
from cmpe.solvers.milp.scaling import SLACK, scaled
from cmpe.solvers.settings import PROGRAMS
from tests.solvers.milp.programs import INF, program

POINTS = np.array(list(itertools.product((0.0, 1.0), repeat=3)))


def satisfied(given):
    """Which of POINTS satisfy the rows."""
    values = (given.rows @ POINTS.T).T
    return ((values >= given.lower) & (values <= given.upper)).all(axis=1)


def test_moderate_numbers_are_left_alone():
    given = program([1, -100, 5000], [[1, 2, PROGRAMS.large]], [-3], [4], offset=2.0)
    found = scaled(given)
    assert found.program is given
    assert (found.unit, found.error) == (1.0, 0.0)


def test_large_rows_are_divided_and_widened():
    given = program([1, 1, 1], [[3e7, -2e7, 1.0], [1, 1, 1]], [-1e7, 0], [1e7, 2])
    found = scaled(given).program
    dense = found.rows.toarray()
    assert 0.5 <= np.abs(dense[0]).max() <= 1.0
    np.testing.assert_array_equal(dense[1], [1, 1, 1])
    unit = 3e7 / dense[0, 0]
    assert found.upper.tolist() == [1e7 / unit + SLACK, 2.0]
    assert found.lower.tolist() == [-1e7 / unit - SLACK, 0.0]
    assert (satisfied(found) == satisfied(given)).all()


def test_tiny_coefficients_are_left_out_and_nothing_is_lost():
    given = program([1, 1, 1], [[1e9, -1e-3, 1e-3]], [-INF], [1e9])
    found = scaled(given).program
    assert found.rows.nnz == 1
    assert found.upper[0] >= (1e9 + 1e-3) * found.rows.data[0] / 1e9
    assert satisfied(found)[satisfied(given)].all()


def test_an_unbounded_column_is_kept():
    given = program([1, 1], [[1e9, 1e-3]], [-INF], [1e9], high=[1, INF])
    assert scaled(given).program.rows.nnz == 2


def test_a_large_objective_is_divided():
    given = program([1e9, -3e8, 1e-7], [[1, 1, 1]], [-INF], [2], offset=5e8)
    found = scaled(given)
    assert np.abs(found.program.cost).max() <= PROGRAMS.largest_cost
    best = (found.program.cost @ POINTS[6] + found.program.offset) * found.unit
    assert best == pytest.approx(1e9 - 3e8 + 5e8)
    assert found.error >= 1e-7 + 1e-7 / found.unit


def test_no_rows():
    assert scaled(program([1e9], [], [], [])).unit > 1.0


def test_a_back_end_answers_the_scaled_program():
    given = program([4e8, 3e8, 1], [[3e8, 2e8, 1e-3]], [-INF], [3.5e8])
    found = scaled(given)
    answer = highs.maximise(found.program, Limits(), None)
    assert found.unit * (answer.bound + found.error) == pytest.approx(4e8 + 1, abs=100)
