import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.lagrangian import Lagrangian
from cmpe.bounds.minibucket import MiniBucket
from cmpe.bounds.settings import SETTINGS
from cmpe.errors import TooLarge
from cmpe.generation import grid
from tests.bounds.checks import AWKWARD, check
from tests.problems import random_problem, seeds


@settings(max_examples=150)
@given(seeds, st.integers(1, 2))
@example(438, 1)  # seven copies agree: their shares of 1 / 7 do not add up to 1
def test_cost_shifting_is_never_worse_than_plain_mini_buckets(seed, i_bound):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    plain = MiniBucket(i_bound, shift=False).upper_bound(instances, Work(steps=20))
    shifted = MiniBucket(i_bound).upper_bound(instances, Work(steps=60))
    check(plain, cmpe.solve(problem, evidence, method="exhaustive"))
    assert (shifted.upper <= plain.upper + 1e-9).all()


@settings(max_examples=60)
@given(seeds)
def test_an_i_bound_of_the_width_is_elimination(seed):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    exact = Lagrangian().upper_bound(instances, Work())
    reached = MiniBucket(problem.plan.width).upper_bound(instances, Work(steps=1))
    np.testing.assert_allclose(reached.upper, exact.upper, atol=1e-9)


def test_one_bucket_less_than_the_width_splits_something():
    problem = cmpe.Problem(grid(5, 5, seed=1))
    instances = problem.given()
    width = problem.plan.width
    assert MiniBucket(width - 3).relaxation(instances.conditioning).copies > 0
    optimum = Lagrangian().upper_bound(instances, Work()).upper[0]
    plain = MiniBucket(1, shift=False).upper_bound(instances, Work(steps=5)).upper[0]
    shifted = MiniBucket(1).upper_bound(instances, Work(steps=300)).upper[0]
    assert optimum <= shifted < plain - 1e-3


def test_what_is_too_large_is_refused(monkeypatch):
    monkeypatch.setattr("cmpe.bounds.relaxation.SETTINGS", SETTINGS._replace(bucket_entries=100))
    with pytest.raises(TooLarge, match=r"have \d+ entries; the limit is 100: try a smaller width"):
        MiniBucket(3).upper_bound(cmpe.Problem(grid(6, 6, seed=2)).given(), Work(steps=1))
