"""Starts: evidence is put in, and what does not fit is refused."""

import numpy as np
import pytest

from cmpe.errors import MethodError
from cmpe.problem.starts import check_start, checked
from tests.problems import worked_example


def test_evidence_is_put_into_a_start():
    instances = worked_example().given([[1, 1], [0, 1]])
    rows = checked(instances, [[0, 0, 1, 0], [-1, -1, -1, -1]])
    assert rows.tolist() == [[1, 1, 1, 0], [0, 1, -1, -1]]
    assert checked(instances, -1).tolist() == [[1, 1, -1, -1], [0, 1, -1, -1]]


@pytest.mark.parametrize("start", [[[0, 0]], [[0, 0, 0, 2]], [[0, 0, -2, 0]]])
def test_a_start_that_does_not_fit_is_refused(start):
    with pytest.raises(MethodError, match="a start must"):
        check_start(worked_example().given([[1, 1]]), np.array(start))
