"""Mixed-integer programs of tables: cuts for what the padding lets through, starts, bounds."""

import itertools
import sys

import numpy as np
import pytest

import cmpe
from cmpe import Constraint, LogLinearModel, Problem, Running, Status
from cmpe.core.compiler import timing
from cmpe.errors import BackendError, MethodError, MissingExtra
from cmpe.generation import grid
from cmpe.solvers import milp
from cmpe.solvers.milp import Milp, ProgramAnswer, backend, highs, only_candidate
from cmpe.solvers.settings import PROGRAMS
from tests.problems import ask, worked_example


def test_an_unknown_backend_is_said():
    with pytest.raises(MethodError, match="highs, scip, gurobi, cpsat, found 'cplex'"):
        Milp("cplex")


def test_a_failing_backend_leaves_its_row_unknown(monkeypatch):
    def fail(*_):
        raise BackendError("it broke")

    monkeypatch.setattr(highs, "maximise", fail)
    with pytest.warns(RuntimeWarning, match="row 0: it broke"):
        answer = cmpe.solve(worked_example(), [[0, 0]], method="milp:highs")
    assert Status(answer.status[0]) is Status.UNKNOWN


def test_equal_rows_are_solved_once_and_share_their_time():
    problem = worked_example()
    rows = np.array([[1, 1], [0, 0], [1, 1], [0, 1], [1, 1]])
    seen = []
    running = Running(progress=lambda done, total: seen.append((done, total)))
    answers = cmpe.solve(problem, rows, method="milp", running=running)
    assert seen == [(1, 3), (2, 3), (3, 3)]
    truth = [cmpe.solve(problem, row, method="exhaustive") for row in rows]
    assert answers.labels == [one.labels[0] for one in truth]
    np.testing.assert_array_equal(answers.objective, [one.objective[0] for one in truth])
    assert answers.seconds[0] == answers.seconds[2] == answers.seconds[4] > 0


@pytest.fixture
def asked(monkeypatch):
    """(rows of the program, start) of every program that HiGHS is given."""
    calls, maximise = [], highs.maximise

    def recorded(program, limits, start):
        calls.append((program.rows.shape[0], start))
        return maximise(program, limits, start)

    monkeypatch.setattr(highs, "maximise", recorded)
    return calls


def between(values=(0.0, 2.0, 1.0), excess=1.004e-6):
    """t of the best value is above the tolerance, but below the limit that the program has."""
    h = LogLinearModel.from_tables([3], [((0,), list(values))])
    t = LogLinearModel.from_tables([3], [((0,), [0.0, excess, 0.0])])
    return Problem(h, (Constraint(t, 0.0),))


def test_an_answer_between_tolerance_and_padding_is_cut_off(asked):
    found = ask(Milp(), between())
    first, second = (rows for rows, _ in asked)
    assert second == first + 1
    assert found.assignments.tolist() == [[2]]
    assert (found.labels, found.objective.tolist()) == (["optimal"], [1.0])


def test_after_too_many_cuts_the_bound_is_kept(monkeypatch, asked):
    monkeypatch.setattr(milp, "PROGRAMS", milp.PROGRAMS._replace(cuts=1))
    found = ask(Milp(), between())
    assert len(asked) == 1
    assert found.labels == ["violated"]
    assert found.bound[0] == pytest.approx(2.0, abs=1e-6)
    assert PROGRAMS.cuts > 1


def test_a_start_is_given_as_columns(asked):
    problem = worked_example()
    start = [[1, 1, 0, 1], [0, 0, -1, -1]]
    ask(Milp(), problem, [[1, 1], [0, 0]], running=Running(start=start))
    (_, first), (_, second) = asked
    assert first[:2].tolist() == [0.0, 1.0]
    assert second is None


def test_a_stopped_back_end_leaves_its_bound(monkeypatch):
    monkeypatch.setattr(highs, "maximise", lambda *_: ProgramAnswer(None, 12.0))
    found = ask(Milp(), worked_example(), [[1, 1]])
    assert found.labels == ["unknown"]
    assert 12.0 < found.bound[0] < 12.0 + 1e-6


def test_nothing_to_decide_needs_no_program(asked):
    problem = worked_example().observing((0, 1, 2, 3))
    found = ask(Milp(), problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert found.labels == ["optimal", "infeasible"]
    assert found.bound.tolist() == [11.0, -np.inf]
    forbidden = LogLinearModel.from_tables([2, 2], [((0,), [-np.inf, 0.0]), ((1,), [0.0, 1.0])])
    assert ask(Milp(), Problem(forbidden, (), (0,)), [[0]]).labels == ["infeasible"]
    assert asked == []


def test_the_only_candidate_of_a_row():
    instances = worked_example().observing((0, 1, 2, 3)).given([[1, 1, 0, 0], [1, 1, 0, 1]])
    assert only_candidate(instances, 0).infeasible
    assert only_candidate(instances, 1).bound == 11.0
    assert only_candidate(instances, 1).free_values.shape == (0,)


def test_a_back_end_that_is_not_installed_fails_before_any_row(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(MissingExtra, match="scip"):
        ask(Milp("scip"), worked_example(), np.zeros((0, 2), dtype=int))
    assert backend("highs").args == (highs.maximise,)


def test_what_is_known_survives_ctrl_c(monkeypatch):
    stopped = ProgramAnswer(np.array([0.0, 1.0, 0.0]), 12.0, interrupted=True)
    monkeypatch.setattr(highs, "maximise", lambda *_: stopped)
    with pytest.raises(cmpe.Interrupted, match="after 0 of 1 rows") as caught:
        ask(Milp(), worked_example(), [[1, 1]])
    known = caught.value.solutions
    assert (known.labels, known.objective.tolist()) == (["feasible"], [11.0])
    assert 12.0 < known.bound[0] < 12.0 + 1e-6


def test_ctrl_c_between_programs_leaves_the_start(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(highs, "maximise", interrupt)
    with pytest.raises(cmpe.Interrupted) as caught:
        ask(Milp(), worked_example(), [[1, 1]], running=Running(start=[[1, 1, 0, 1]]))
    assert caught.value.solutions.objective.tolist() == [11.0]


@pytest.mark.parametrize("steps", [3, 8])
def test_building_the_program_counts(monkeypatch, steps):
    """The time is over while tables are laid out, or before the back-end is called."""
    moments = itertools.count()
    monkeypatch.setattr(timing, "now", lambda: float(next(moments)))
    monkeypatch.setattr(highs, "maximise", lambda *_: pytest.fail("no time was left"))
    problem = Problem(grid(2, 2, seed=1))
    found = cmpe.solve(problem, method="milp", time_limit=steps + 0.5)
    assert found.labels == ["unknown"]
    start = cmpe.solve(problem, method="exhaustive").assignments
    running = Running(start=start)
    found = cmpe.solve(problem, method="milp", time_limit=steps + 0.5, running=running)
    assert found.labels == ["feasible"]


def test_a_bound_that_the_answer_disproves_is_none(monkeypatch):
    low = ProgramAnswer(np.array([0.0, 1.0, 0.0]), 10.0)
    for wrong in (low, ProgramAnswer(None, infeasible=True)):
        monkeypatch.setattr(highs, "maximise", lambda *_, w=wrong: w)
        found = ask(Milp(), worked_example(), [[1, 1]], running=Running(start=[[1, 1, 0, 1]]))
        assert (found.labels, found.bound.tolist()) == (["feasible"], [np.inf])


def test_large_numbers_do_not_keep_a_proof_open():
    """Tolerances of back-ends leave a gap of 3e-5 at an optimum of 0 among costs of 6e5."""
    size = 6e5 * np.array([[0.3, -0.7], [-0.2, 0.9]])
    tables = [((0, 1), size), ((1, 2), -size), ((0, 2), np.eye(2)), ((), np.array(-1.0))]
    h = LogLinearModel.from_tables([2, 2, 2], tables)
    best = cmpe.solve(Problem(h), method="exhaustive").objective[0]
    problem = Problem(h + LogLinearModel.from_tables([2, 2, 2], [((), np.array(-best))]))
    found = ask(Milp(), problem)
    assert (found.labels, found.objective.tolist()) == (["optimal"], [0.0])


def test_where_the_hair_is_wide_a_tighter_program_answers(monkeypatch):
    """Five values a hair beyond q, which a row of this size cannot tell from q, and one below."""
    monkeypatch.setattr(milp, "PROGRAMS", milp.PROGRAMS._replace(cuts=3))
    h = LogLinearModel.from_tables([8], [((0,), [0.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 1.0])])
    t = LogLinearModel.from_tables([8], [((0,), [1e9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, -300.0])])
    found = ask(Milp(), Problem(h, (Constraint(t, 0.0),)))
    assert (found.labels, found.objective.tolist()) == (["feasible"], [1.0])
    assert 6.0 < found.bound[0] < 9.1
