"""One row at a time: the loop, its workers, and what is left after Ctrl-C."""

from dataclasses import replace

import numpy as np
import pytest

import cmpe
from cmpe import Running, Status
from cmpe.errors import BackendError, Interrupted
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of
from tests.problems import worked_example

ROWS = [[0, 0], [0, 1], [1, 0], [1, 1]]


def same(row):
    """A job that worker processes can be sent."""
    return RowAnswer(np.array([row % 2, 1]), 100.0 + row)


def instances():
    return worked_example().given(ROWS)


def test_answers_are_put_in_the_order_of_rows():
    found = solve_rows(instances(), same, "mine", Running())
    assert found.assignments.tolist() == [[0, 0, 0, 1], [0, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    feasible = worked_example().is_feasible(found.assignments)
    assert found.feasible.tolist() == feasible.tolist()
    assert found.bound.tolist() == [100.0, 101.0, 102.0, 103.0]
    assert set(found.method) == {"mine"}
    assert (found.seconds > 0).all()


def test_what_a_job_does_not_find():
    answers = [
        RowAnswer(None),
        RowAnswer(None, -np.inf, infeasible=True),
        RowAnswer(None, 7.0),
        RowAnswer(np.array([0, 1]), -5.0),  # a bound below its own answer is none
    ]
    found = solve_rows(instances(), answers.__getitem__, "mine", Running())
    assert found.labels == ["unknown", "infeasible", "unknown", "optimal"]
    assert found.bound.tolist() == [np.inf, -np.inf, 7.0, 11.0]
    assert (found.assignments[:3] == -1).all()


def test_no_rows_and_nothing_free():
    none = solve_rows(instances().take(slice(0, 0)), same, "mine", Running())
    assert len(none) == 0
    known = worked_example().observing((0, 1, 2, 3)).given([[1, 1, 0, 1]])
    found = solve_rows(known, lambda row: RowAnswer(np.zeros(0), 11.0), "mine", Running())
    assert found.assignments.tolist() == [[1, 1, 0, 1]]
    assert found.labels == ["optimal"]


@pytest.mark.parametrize(("one_core", "expected"), [(False, 2), (True, 6)])
def test_a_job_of_one_core_gets_the_threads_as_workers(monkeypatch, one_core, expected):
    asked = []

    def map_rows(job, count, *, workers):
        asked.append(workers)
        return ((row, job(row)) for row in range(count))

    monkeypatch.setattr("cmpe.solvers.rows.map_rows", map_rows)
    solve_rows(instances(), same, "mine", Running(workers=2, threads=3), one_core=one_core)
    assert asked == [expected]


def test_a_failing_back_end_leaves_its_row_unknown():
    def fails(row):
        if row == 2:
            raise BackendError("it broke")
        return same(row)

    with pytest.warns(RuntimeWarning, match="row 2: it broke"):
        found = solve_rows(instances(), fails, "mine", Running())
    assert (found.status == Status.UNKNOWN).tolist() == [False, False, True, False]


def test_ctrl_c_inside_a_job_keeps_the_rows_before_it():
    def stops(row):
        if row == 1:
            raise KeyboardInterrupt
        return same(row)

    with pytest.raises(Interrupted, match="after 1 of 4 rows") as caught:
        solve_rows(instances(), stops, "mine", Running())
    assert caught.value.solutions.assignments[0].tolist() == [0, 0, 0, 1]
    assert (caught.value.solutions.status[1:] == Status.UNKNOWN).all()


def test_what_is_known_of_an_interrupted_row_is_kept():
    def stops(row):
        return replace(same(row), interrupted=row == 1)

    with pytest.raises(Interrupted, match="after 1 of 4 rows") as caught:
        solve_rows(instances(), stops, "mine", Running())
    known = caught.value.solutions
    assert known.assignments[:2].tolist() == [[0, 0, 0, 1], [0, 1, 1, 1]]
    assert known.bound[:2].tolist() == [100.0, 101.0]
    assert (known.status[2:] == Status.UNKNOWN).all()


def test_a_start_is_the_values_of_free_variables():
    start = np.array([[1, 1, 0, 1], [1, 1, -1, 0]])
    assert start_of(start, 0, (2, 3)).tolist() == [0, 1]
    assert start_of(start, 1, (2, 3)) is None
    assert start_of(None, 0, (2, 3)) is None


def test_processes_give_the_same_answers_and_progress():
    seen = []
    running = Running(workers=2, progress=lambda done, total: seen.append((done, total)))
    found = solve_rows(instances(), same, "mine", running)
    alone = solve_rows(instances(), same, "mine", Running())
    np.testing.assert_array_equal(found.assignments, alone.assignments)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_ctrl_c_keeps_what_is_finished():
    problem = worked_example()

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    with pytest.raises(cmpe.Interrupted, match="after 2 of 4 rows") as caught:
        cmpe.solve(problem, rows, method="milp", running=Running(progress=stop))
    truth = cmpe.solve(problem, rows, method="exhaustive")
    status = caught.value.solutions.status
    assert status.tolist() == [*truth.status[:2], Status.UNKNOWN, Status.UNKNOWN]
    mixed = [[0, 0, -1, -1], [0, -1, -1, -1], [1, 0, -1, -1], [1, 1, -1, -1]]
    with pytest.raises(cmpe.Interrupted) as caught:
        cmpe.solve(problem, mixed, method="milp", running=Running(progress=stop))
    labels = caught.value.solutions.labels
    assert labels.count("unknown") == 2
    assert set(labels) <= {"unknown", "optimal", "infeasible"}
