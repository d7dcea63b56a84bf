"""The best feasible assignment of a row."""

import numpy as np

from cmpe.solvers.incumbent import Incumbent
from tests.problems import worked_example


def test_only_better_feasible_assignments_are_taken():
    best = Incumbent(worked_example(), 0.0)
    assert best.enough == -np.inf
    assert not best.offer(np.array([1, 1, -1, 0]))
    assert not best.offer(np.array([1, 1, 0, 0]))  # t = 23 > 20
    assert best.offer(np.array([1, 1, 1, 1]))
    assert best.offer(np.array([1, 1, 0, 1]))
    assert not best.offer(np.array([1, 1, 1, 1]))
    assert best.objective == 11.0
    assert 11.0 < best.enough < 11.0 + 1e-5
    assert Incumbent(worked_example(), 0.5, best.assignment, 11.0).enough > 11.4
