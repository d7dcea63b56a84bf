"""Starts: evidence is put in, and what does not fit is refused."""

import numpy as np
import pytest

from cmpe import LogLinearModel, Problem
from cmpe.arrays import FREE
from cmpe.errors import MethodError
from cmpe.problem.starts import by_leaf, check_start, checked, not_worse
from tests.problems import random_network_problem, worked_example


def test_evidence_is_put_into_a_start():
    instances = worked_example().given([[1, 1], [0, 1]])
    rows = checked(instances, [[0, 0, 1, 0], [-1, -1, -1, -1]])
    assert rows.tolist() == [[1, 1, 1, 0], [0, 1, -1, -1]]
    assert checked(instances, -1).tolist() == [[1, 1, -1, -1], [0, 1, -1, -1]]


@pytest.mark.parametrize("start", [[[0, 0]], [[0, 0, 0, 2]], [[0, 0, -2, 0]]])
def test_a_start_that_does_not_fit_is_refused(start):
    with pytest.raises(MethodError, match="a start must"):
        check_start(worked_example().given([[1, 1]]), np.array(start))


def test_a_variable_of_one_value_needs_no_start():
    model = LogLinearModel((2, 1, 3))
    instances = Problem(model, (), (0,)).given([[1], [0]])
    assert checked(instances, -1).tolist() == [[1, 0, -1], [0, 0, -1]]
    assert checked(instances, [[0, 0, 2], [1, 0, 1]]).tolist() == [[1, 0, 2], [0, 0, 1]]
    for wrong in ([[0, 0, 3]] * 2, [[0, 0, -2]] * 2):
        with pytest.raises(MethodError, match="a start must hold values of its variables"):
            checked(instances, wrong)
    with pytest.raises(MethodError, match=r"shape \(2, 3\), found \(3,\)"):
        checked(instances, [0, 0, 0])


def test_a_start_is_kept_where_it_is_feasible_and_worth_more():
    problem = worked_example()
    start = np.array([[1, 1, 0, 1], [1, 1, 0, 0], [-1, -1, -1, -1], [1, 1, 1, 1]])
    found = np.array([[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 0, 1]])
    kept = not_worse(problem, found, start)
    assert kept.tolist() == [[1, 1, 0, 1], [1, 1, 1, 1], [1, 1, 0, 1], [1, 1, 0, 1]]


def test_rows_go_to_the_leaf_where_they_start():
    problem, evidence = random_network_problem(3)
    instances = problem.given(evidence)
    nothing = checked(instances, FREE)
    seen = np.zeros(len(evidence), dtype=int)
    for numbers, part, inside in by_leaf(instances, nothing):
        seen[numbers] += 1
        assert (part.full()[:, list(problem.evidence_variables)] == evidence[numbers]).all()
        assert inside.shape == (len(numbers), problem.variables)
    assert (seen == 1).all()
