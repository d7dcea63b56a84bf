import numpy as np
import pytest

from cmpe import execution
from cmpe.arrays import FREE
from cmpe.bounding import bound
from cmpe.errors import Interrupted, MethodError
from cmpe.evaluation import reference
from cmpe.execution.local import InProcess
from cmpe.generation import Recipe, generate, grid
from cmpe.problem.rows import Rows
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import answer_rows
from cmpe.solvers.spread import answer_spread, spread_list
from cmpe.solving import solve
from cmpe.tradeoffs.best import best
from cmpe.tradeoffs.front import front

MADE = generate(grid(3, 3, seed=2), Recipe(samples=40, percentile=40))
PROBLEM, ROWS = MADE.problem, np.concatenate([MADE.train, MADE.test])
FULL = PROBLEM.given(ROWS).full()
HERE = Limits()  # an executor of one worker: this process


def same(found, wanted):
    for name in ("assignments", "objective", "bound", "status", "observed"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


@pytest.mark.parametrize("method", ["exact", "local"])
def test_blocks_give_the_answers_of_all_rows_together(method):
    found = answer_spread(answer_rows, Rows(PROBLEM, FULL), method, HERE)
    same(found, solve(PROBLEM, ROWS, method=method))


def test_starts_and_progress_go_along():
    wanted = solve(PROBLEM, ROWS, method="exact")
    seen = []
    told = Limits(start=wanted.assignments, progress=lambda *p: seen.append(p))
    found = answer_spread(answer_rows, Rows(PROBLEM, FULL), "local", told)
    np.testing.assert_allclose(found.objective, wanted.objective)
    assert seen[-1] == (40, 40)
    assert len(seen) == 8
    short = Limits(start=wanted.assignments[:1])
    with pytest.raises(MethodError, match="a start must have 40 rows, found 1"):
        answer_spread(answer_rows, Rows(PROBLEM, FULL), "local", short)


def test_after_ctrl_c_there_is_what_is_done():
    def stop(done, total):
        if done >= 10:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        answer_spread(answer_rows, Rows(PROBLEM, FULL), "exact", Limits(progress=stop))
    wanted = solve(PROBLEM, ROWS, method="exact")
    assert caught.value.finished == 10
    known = caught.value.solutions
    assert len(known) == 40
    np.testing.assert_array_equal(known.assignments[:10], wanted.assignments[:10])
    assert (known.assignments[10:] == FREE).all()


def test_lists_come_in_the_order_of_the_rows():
    seen = []
    told = Running(progress=lambda *p: seen.append(p))
    found = spread_list(lambda problem, rows: rows.sum(axis=1).tolist(), PROBLEM, ROWS, told)
    assert found == FULL.sum(axis=1).tolist()
    assert seen[-1] == (40, 40)


@pytest.fixture
def cluster(monkeypatch):
    """A Ray cluster that is this process; how often one was asked for, and where."""
    asked = []

    def made(address, workers, threads):
        asked.append((address, workers, threads))
        return InProcess()

    monkeypatch.setattr(execution, "RayExecutor", made)
    return asked


def test_every_question_can_be_asked_of_a_cluster(cluster):
    there = Running(workers=2, threads=3, executor="ray", address="10.0.0.1:6379")
    rows = ROWS[:9]
    same(solve(PROBLEM, rows, running=there), solve(PROBLEM, rows))
    fronts = front(PROBLEM, rows, running=there)
    assert [f.values.tolist() for f in fronts] == [f.values.tolist() for f in front(PROBLEM, rows)]
    ranked = best(PROBLEM, rows, 2, running=there)
    wanted = best(PROBLEM, rows, 2)
    assert [r.objective.tolist() for r in ranked] == [r.objective.tolist() for r in wanted]
    upper = bound(PROBLEM, rows, place=there.place).upper
    np.testing.assert_array_equal(upper, bound(PROBLEM, rows).upper)
    against = reference(PROBLEM, rows, running=there)
    np.testing.assert_array_equal(against.constrained, reference(PROBLEM, rows).constrained)
    assert cluster == [("10.0.0.1:6379", 2, 3)] * 6
