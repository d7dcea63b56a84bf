"""Array types, and the mark of a free variable."""

from typing import get_args

import numpy as np
import pytest

from cmpe import arrays
from cmpe.arrays import FREE
from tests.problems import worked_example


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Floats", np.float64),
        ("Integers", np.int64),
        ("Indices", np.intp),
        ("Unsigned", np.uint64),
        ("Assignments", np.int32),
    ],
)
def test_each_type_has_one_kind_of_number(name, kind):
    _, element = get_args(getattr(arrays, name))
    assert get_args(element) == (kind,)


def test_a_free_variable_is_marked_by_no_value():
    assert FREE == np.int32(FREE) == -1
    problem = worked_example()
    rows = problem.given([[1, 0]]).full()
    assert rows.tolist() == [[1, 0, FREE, FREE]]
    assert rows.dtype == get_args(get_args(arrays.Assignments)[1])[0]
