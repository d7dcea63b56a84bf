import numpy as np

import cmpe
from cmpe.arrays import FREE


def test_the_mark_of_a_free_variable_is_no_value():
    """In a row of all variables it leaves them to the solver."""
    model = cmpe.LogLinearModel((2, 3), (cmpe.Factor((0, 1), np.arange(6.0).reshape(2, 3)),))
    answer = cmpe.solve(cmpe.Problem(model), np.array([[0, FREE], [FREE, 1]]), method="exact")
    assert answer.assignments.tolist() == [[0, 2], [1, 1]]
    assert FREE not in answer.assignments
