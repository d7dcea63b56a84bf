"""A problem with rows of evidence: taking rows, tables given evidence, whole assignments."""

import numpy as np
import pytest
from hypothesis import given

from cmpe import LogLinearModel, Problem
from tests.problems import all_assignments, random_problem, seeds, worked_example


def test_rows_are_taken_with_their_problem():
    instances = worked_example().given([[1, 0], [0, 1], [1, 1]])
    assert len(instances) == 3
    part = instances.take(slice(1, None))
    assert part.problem is instances.problem
    assert part.evidence.tolist() == [[0, 1], [1, 1]]
    assert instances.take(np.array([2, 0])).evidence.tolist() == [[1, 1], [1, 0]]
    assert len(instances.take(slice(0, 0))) == 0


@given(seeds)
def test_tables_add_up_to_the_functions(seed):
    """For every completion of every row: the entries that it selects, against the function."""
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    structure, cards = instances.conditioning, problem.objective.cardinalities
    values = all_assignments([cards[v] for v in problem.free])
    place = {v: k for k, v in enumerate(structure.free)}
    for which, function in enumerate(problem.functions):
        tables = instances.tables(which)
        np.testing.assert_array_equal(tables[1:], instances.tables(which, slice(1, None)))
        for row in range(len(instances)):
            sums = np.zeros(len(values))
            for start, scope in zip(structure.layout.offsets[:-1], structure.scopes, strict=True):
                sizes = [cards[v] for v in scope]
                shaped = tables[row, start : start + int(np.prod(sizes))].reshape(sizes)
                sums += shaped[tuple(values[:, place[v]] for v in scope)]
            rows = instances.take(np.full(len(values), row)).complete(values)
            np.testing.assert_allclose(sums, function.value(rows), atol=1e-9)


def test_evidence_and_free_values_make_whole_assignments():
    problem = worked_example()
    instances = problem.given([[1, 0], [0, 1]])
    whole = instances.complete([[0, 1], [1, 1]])
    assert whole.tolist() == [[1, 0, 0, 1], [0, 1, 1, 1]]
    assert whole.dtype == np.int32
    assert instances.complete([[1, 0]], slice(1, 2)).tolist() == [[0, 1, 1, 0]]
    assert instances.full().tolist() == [[1, 0, -1, -1], [0, 1, -1, -1]]


def test_a_variable_of_one_value_is_decided_already():
    model = LogLinearModel.from_tables([1, 2, 1], [((0, 1), [[0.0, 1.0]])])
    instances = Problem(model, (), (2,)).given([[0], [0]])
    assert instances.problem.free == (1,)
    assert instances.complete([[1], [0]]).tolist() == [[0, 1, 0], [0, 0, 0]]
    assert instances.full().tolist() == [[-1, -1, 0]] * 2


def test_nothing_free_and_no_rows():
    problem = worked_example().observing((3, 2, 1, 0))
    instances = problem.given([[1, 0, 1, 1]])
    assert instances.complete(np.zeros((1, 0))).tolist() == [[1, 1, 0, 1]]
    assert instances.full().tolist() == [[1, 1, 0, 1]]
    assert instances.tables(0).tolist() == [[pytest.approx(11.0)]]
    none = problem.given(np.zeros((0, 4), dtype=int))
    assert none.complete(np.zeros((0, 0))).shape == (0, 4)
    assert none.tables(1).shape == (0, 1)


def test_numbers_between_0_and_1_stay_what_they_are():
    model = LogLinearModel.from_tables([2, 2], [((0, 1), [[0.0, 1.0], [2.0, 3.0]])])
    instances = Problem(model, (), (0,), "", (0, 1)).given([[0.25]])
    whole = instances.complete([[0.75]])
    assert whole.tolist() == [[0.25, 0.75]]
    assert whole.dtype == instances.full().dtype == np.float64
    assert instances.full().tolist() == [[0.25, -1.0]]
