import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.marginals import value_bounds
from cmpe.bounds.splitting import Cut
from tests.problems import Shape, completions, random_problem, seeds


@pytest.mark.parametrize("kind", ["layers", "leaves"])
@settings(max_examples=100)
@given(seeds)
def test_no_assignment_is_above_the_bound_of_a_value_it_takes(kind, seed):
    problem, evidence = random_problem(seed, Shape(variables=5, factors=8, constraints=3))
    instances = problem.given(evidence[:1])
    relaxation = Cut(kind, 1, seed % 5).relaxation(instances.conditioning)
    found = value_bounds(instances, relaxation, Work(steps=20))
    rows = completions(instances, 0)
    h = np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)
    assert h.max() <= found.upper
    for variable, bounds in zip(instances.conditioning.free, found.values, strict=True):
        for value, bound in enumerate(bounds):
            assert h[rows[:, variable] == value].max() <= bound <= found.upper + 1e-6


def test_without_splits_the_value_bounds_are_max_marginals():
    model = cmpe.LogLinearModel.from_tables([2, 3], [((0, 1), [[0, 5, 1], [2, -np.inf, 4]])])
    instances = cmpe.Problem(model).given()
    relaxation = Cut("layers", 9, 0).relaxation(instances.conditioning)
    found = value_bounds(instances, relaxation, Work(steps=1))
    assert relaxation.copies == 0
    np.testing.assert_allclose(found.values[0], [5, 4])
    np.testing.assert_allclose(found.values[1], [2, 5, 4])
    assert found.split == (False, False)
