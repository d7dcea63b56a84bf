"""Assignments against scipy's: more columns than variables, private columns, forbidden ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from cmpe.core.assignment import assign_rows

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=80, deadline=None)
def test_assignments_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    count, columns = int(rng.integers(1, 7)), int(rng.integers(0, 8))
    shape = (3, count, columns)
    is_whole = rng.random() < 0.5
    scores = rng.integers(-3, 4, shape).astype(float) if is_whole else rng.normal(size=shape)
    scores[rng.random(shape) < rng.choice([0.0, 0.2, 0.6])] = -np.inf
    private = rng.normal(size=(3, count))
    private[rng.random((3, count)) < rng.choice([0.2, 1.0])] = -np.inf
    chosen, bounds = np.full((3, count), -1), np.zeros(3)
    assign_rows(scores, private, chosen, bounds)
    for row in range(3):
        whole = np.full((count, columns + count), -np.inf)
        whole[:, :columns] = scores[row]
        whole[np.arange(count), columns + np.arange(count)] = private[row]
        try:
            best = whole[linear_sum_assignment(whole, maximize=True)].sum()
        except ValueError:  # there is no assignment
            assert bounds[row] == -np.inf
            continue
        assert len(set(chosen[row])) == count
        assert abs(whole[np.arange(count), chosen[row]].sum() - best) <= 1e-12
        assert best <= bounds[row] <= best + 1e-10
