import numpy as np

from cmpe.execution import Workplace
from cmpe.problem.groups import full_rows
from cmpe.streams.spreading import spread
from tests.streams.work import named_problem

PROBLEM = named_problem()


def ask(problem, rows, start):
    """What a block is told: its rows over all variables, and its part of what goes along."""
    assert problem.variables == rows.shape[1]
    return rows[:, :2].sum(axis=1) + (0 if start is None else start)


def test_evidence_in_any_form_becomes_rows_over_all_variables():
    rows = full_rows(PROBLEM, [{"a": "yes", "b": "top"}, {"c": 1}])
    assert rows.tolist() == [[1, 2, -1], [-1, -1, 1]]
    assert full_rows(PROBLEM, np.array([[0, 1]])).tolist() == [[0, 1, -1]]
    assert full_rows(PROBLEM.observing(()), None).tolist() == [[-1, -1, -1]]


def test_blocks_together_are_all_rows():
    rows = full_rows(PROBLEM, np.array([[k % 2, k % 3] for k in range(20)]))
    start = np.arange(20)
    for given in (start, None):
        out = np.full(20, -1)
        for where, found in spread(ask, PROBLEM, rows, Workplace(), given):
            assert where.stop - where.start <= 3  # eight blocks for the one core
            out[where] = found
        np.testing.assert_array_equal(
            out, rows[:, :2].sum(axis=1) + (0 if given is None else given)
        )


def test_no_rows_need_nobody():
    rows = np.zeros((0, 3), dtype=np.int32)
    assert list(spread(ask, PROBLEM, rows, Workplace(), None)) == []
