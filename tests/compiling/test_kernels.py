from __future__ import annotations

import numpy as np

from cmpe.compiling.functions import njit
from cmpe.compiling.kernels import copy


@njit(cache=False)
def call(source, target):
    copy(source, target)


def test_numbers_are_copied_and_the_rest_stays():
    source, target = np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0])
    call(source, target[:2])
    assert target.tolist() == [1.0, 2.0, 9.0]
