"""Problems whose evidence says more."""

import numpy as np

import cmpe
from cmpe.tradeoffs.forcing import with_distance, with_forced_values
from tests.problems import worked_example


def test_forced_values_are_taken_and_nothing_else_changes():
    problem = worked_example()
    wide = with_forced_values(problem)
    full = np.array([[1, 1, -1, -1]] * 3)
    further = np.array([[0, 0], [2, 0], [0, 1]])  # nothing; y1 = 1; y2 = 0
    found = cmpe.solve(wide.problem, wide.rows(full, further), method="exact")
    assert found.labels == ["optimal", "optimal", "infeasible"]
    assert found.assignments[:2, 2:4].tolist() == [[0, 1], [1, 1]]
    assert found.objective[:2].tolist() == [11.0, 8.0]


def test_answers_keep_their_distance():
    problem = worked_example()
    wide = with_distance(problem, 1, 1)
    found = cmpe.solve(wide.problem, wide.rows(np.array([[1, 1, -1, -1]]), np.array([[0, 1]])))
    assert found.assignments[0, 2:4].tolist() == [1, 1]
