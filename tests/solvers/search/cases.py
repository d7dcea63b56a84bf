"""What the tests of search share."""

from __future__ import annotations

import numpy as np

from cmpe import Constraint, Problem
from cmpe.generation import grid


def many_rows(side=7, rows=70):
    objective = grid(side, side, seed=4)
    rng = np.random.default_rng(0)
    function = objective.perturb(0.1, 1)
    limit = float(np.quantile(function.value(rng.integers(0, 2, (500, side * side))), 0.9))
    observed = tuple(range(0, side * side, 5))
    evidence = rng.integers(0, 2, (rows, len(observed)))
    return Problem(objective, (Constraint(function, limit),), observed), evidence


def member_variables(pool, m):
    """The variables of member `m`, as numbers of free ones."""
    low, high = pool.pool.members[m, :2]
    return pool.pool.buckets[low:high, 0]
