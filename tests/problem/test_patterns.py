"""Rows that observe different variables, as one problem: the same values, and only those."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.problem.groups import by_observed
from cmpe.problem.patterns import Twins
from tests.problems import Shape, all_assignments, random_problem

SMALL = Shape(variables=4, values=3)


def patterns_of(problem, seed, count=6):
    rng = np.random.default_rng(seed)
    cards = problem.objective.cardinalities
    rows = rng.integers(0, cards, (count, len(cards)))
    rows[rng.random(rows.shape) < 0.5] = -1
    return rows


@settings(max_examples=25)
@given(st.integers(0, 10**6))
def test_twins_allow_what_each_row_allows(seed):
    problem = random_problem(seed, SMALL)[0].observing([])
    rows = patterns_of(problem, seed)
    twins = Twins.of(by_observed(problem, rows))
    n = problem.variables
    np.testing.assert_array_equal(twins.seen, rows >= 0)
    whole = twins.instances.problem
    every = all_assignments(problem.objective.cardinalities)
    for row, full in zip(rows, twins.instances.full(), strict=True):
        joined = np.concatenate([every, np.tile(full[n:], (len(every), 1))], axis=1)
        fits = ((row < 0) | (every == row)).all(axis=1)
        kept = ((full[:n] < 0) | (every == full[:n])).all(axis=1)  # what all rows observe
        value = np.where(kept, whole.objective.value(joined), -np.inf)
        np.testing.assert_array_equal(
            value, np.where(fits, problem.objective.value(every), -np.inf)
        )
        np.testing.assert_array_equal(
            whole.constraint_values(joined), problem.constraint_values(every)
        )
