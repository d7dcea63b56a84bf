"""toulbar2 where it needs more than one run, crashes, is stopped, or is wrong."""

import os
import signal
import threading

import numpy as np
import pytest
from benchmarks.golden_cases import KINDS, random_case

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.errors import MethodError, MissingExtra
from cmpe.execution.isolated import IsolatedProcess, Reply
from cmpe.solvers import toulbar2
from cmpe.solvers.toulbar2 import Toulbar2
from cmpe.solvers.toulbar2.posting import Found
from tests.problems import ask, worked_example

pytest.importorskip("pytoulbar2")


def replies(monkeypatch, *given):
    """Answers as if toulbar2 gave them; what it was asked is returned."""
    asked, left = [], list(given)

    def call(self, work, posting, **_):
        asked.append(posting)
        return left.pop(0) if left else work(posting)

    monkeypatch.setattr(IsolatedProcess, "call", call)
    return asked


def watched(monkeypatch):
    """What toulbar2 is asked, while it answers."""
    asked, call = [], IsolatedProcess.call

    def watch(self, work, posting, **limits):
        asked.append(posting)
        return call(self, work, posting, **limits)

    monkeypatch.setattr(IsolatedProcess, "call", watch)
    return asked


def frustrated(seed=0, count=30):
    """Pairs of all variables at random: too hard for a second."""
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    return Problem(
        LogLinearModel((2,) * count, tuple(Factor(p, rng.normal(size=(2, 2))) for p in pairs))
    )


def tight():
    """toulbar2 1.4 crashes on it where the constraint is a second network."""
    t = LogLinearModel.from_tables(
        [2] * 4,
        [
            ((2, 3), [[-2.0, 2], [2, 1]]),
            ((3, 0, 2), np.array([1.0, 1, 0, -2, 0, 0, -2, 0]).reshape(2, 2, 2)),
        ],
    )
    return Problem(LogLinearModel((2,) * 4), (Constraint(t, -2.0),))


def test_a_crash_does_not_end_the_process_and_another_form_answers(monkeypatch):
    asked = watched(monkeypatch)
    found = ask(Toulbar2(), tight())
    assert found.labels == ["optimal"]
    assert [posting.linear for posting in asked] == [False, True]


def test_a_crash_in_both_forms_leaves_its_row_unknown(monkeypatch):
    crash = Reply(error="its process crashed (SIGSEGV)")
    monkeypatch.setattr(IsolatedProcess, "call", lambda *_, **__: crash)
    with pytest.warns(RuntimeWarning, match=r"row 0: toulbar2 failed: .* crashed \(SIGSEGV\)"):
        found = ask(Toulbar2(), worked_example(), [[1, 1]])
    assert (found.labels, found.bound.tolist()) == (["unknown"], [np.inf])
    free = cmpe.queries.mpe(worked_example().objective, (0, 1))
    with pytest.warns(RuntimeWarning, match="row 0: toulbar2 failed"):
        assert ask(Toulbar2(), free, [[1, 1]]).labels == ["unknown"]


@pytest.mark.parametrize("name", ["toulbar2", "toulbar2:vac", "toulbar2:vns"])
def test_ties_at_the_limits_of_two_constraints(name):
    """Knapsacks with weights of both signs made toulbar2 certify 5 for 7 in the second row."""
    (kind,) = (k for k in KINDS if k.name == "ties-2")
    case = random_case(kind, 1)
    proves, truth = cmpe.METHODS[name].proves, np.array([8.0, 7.0, 3.0, 6.0, 5.0, 8.0])
    found = cmpe.solve(case.problem, case.rows, method=name, time_limit=30 if proves else 0.5)
    assert (found.bound >= truth - 1e-6).all()
    proved = np.array(found.labels) == "optimal"
    np.testing.assert_allclose(found.objective[proved], truth[proved])
    assert proved.all() or not proves
    assert set(found.method) == {name}


def test_a_time_limit_ends_a_run_with_what_it_has():
    found = cmpe.solve(frustrated(count=60), method="toulbar2", time_limit=0.5)
    assert found.labels == ["feasible"]
    assert np.isfinite(found.bound[0])
    again = cmpe.solve(worked_example(), [[1, 1]], method="toulbar2")
    assert again.labels == ["optimal"]


@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_the_incumbents(workers):
    def interrupt():
        os.kill(os.getpid(), signal.SIGINT)

    cmpe.solve(worked_example(), [[1, 1]], method="toulbar2")  # the process is there
    rows = np.zeros((2, 1), dtype=int) if workers == 1 else np.array([[0], [1]])
    problem = frustrated(count=60).observing((0,))
    threading.Timer(2.5, interrupt).start()
    with pytest.raises(cmpe.Interrupted, match="after 0 of 2 rows") as caught:
        cmpe.solve(problem, rows, method="toulbar2", running=cmpe.Running(workers=workers))
    known = caught.value.solutions
    assert "feasible" in known.labels  # on a busy machine a second process may not have begun
    assert set(known.labels) <= {"feasible", "unknown"}
    assert np.isfinite(known.bound[known.feasible]).all()


def test_rows_over_threads_are_those_of_one():
    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    alone = ask(Toulbar2(), worked_example(), rows)
    both = ask(Toulbar2(), worked_example(), rows, running=cmpe.Running(workers=2))
    np.testing.assert_array_equal(alone.objective, both.objective)
    assert alone.labels == both.labels


def test_a_missing_package_and_an_unknown_configuration_are_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pytoulbar2", None)
    with pytest.raises(MissingExtra, match=r"toulbar2 \(pytoulbar2\) .* 'cmpe\[toulbar2\]'"):
        ask(Toulbar2(), worked_example(), [[0, 0]])
    with pytest.raises(MethodError, match="one of default, vac, vns; found 'fast'"):
        Toulbar2("fast")


def test_what_rounding_lets_through_is_cut_off(monkeypatch):
    """t of the best value exceeds the tolerance by less than toulbar2's unit can tell."""
    h = LogLinearModel.from_tables([3], [((0,), [0.0, 2.0, 1.0])])
    t = LogLinearModel.from_tables([3], [((0,), [0.0, 1.0 + 1.0000001e-6, 0.5])])
    problem = Problem(h, (Constraint(t, 1.0),))
    asked = watched(monkeypatch)
    found = ask(Toulbar2(), problem)
    assert [len(posting.cuts) for posting in asked] == [0, 1]
    assert found.assignments.tolist() == [[2]]
    assert found.objective.tolist() == [1.0]
    assert found.bound[0] >= 1.0


def test_after_too_many_cuts_the_row_stays_open(monkeypatch):
    monkeypatch.setattr(toulbar2, "PROGRAMS", toulbar2.PROGRAMS._replace(network_cuts=1))
    t = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0 + 1.0000001e-6])])
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 2.0])])
    found = ask(Toulbar2(), Problem(h, (Constraint(t, 1.0),)))
    assert found.labels == ["violated"]


@pytest.mark.parametrize(
    ("reply", "label", "bound"),
    [
        (Reply(Found(None, bound=-12.5e9), stopped=True), "unknown", 12.5),
        (Reply(Found([0, 1], -11e9, -12.5e9), stopped=True), "feasible", 12.5),
        (Reply(Found([0, 1], -11e9, -12.5e9, complete=True)), "optimal", 11.0),
        (Reply(Found(None, complete=True)), "infeasible", -np.inf),
        (Reply(stopped=True), "unknown", np.inf),  # it had to be killed
    ],
)
def test_what_the_end_of_a_run_proves(monkeypatch, reply, label, bound):
    replies(monkeypatch, reply)
    found = ask(Toulbar2(), worked_example(), [[1, 1]])
    assert found.labels == [label]
    assert found.bound[0] == pytest.approx(bound, abs=1e-8)


@pytest.mark.parametrize("odd", [Found([0, 1], -12e9, complete=True), Found([0, 2**31 - 1], -11e9)])
def test_an_answer_that_does_not_add_up_proves_nothing(monkeypatch, odd):
    asked = replies(monkeypatch, Reply(odd), Reply(odd))
    found = ask(Toulbar2(), worked_example(), [[1, 1]])
    assert [posting.linear for posting in asked] == [False, True]
    assert (found.labels, found.bound.tolist()) == (["unknown"], [np.inf])


@pytest.mark.parametrize(
    ("start", "value"),
    [
        ([1, 1, 0, 1], 11.0),  # the optimum
        ([1, 1, 1, 1], None),
        ([1, 1, 0, 0], -np.inf),  # infeasible: no incumbent
        ([1, 1, -1, 0], -np.inf),
    ],
)
def test_only_a_feasible_start_is_an_incumbent(monkeypatch, start, value):
    problem = worked_example()
    if value is None:
        value = problem.objective.value([start])[0]
    asked = watched(monkeypatch)
    found = ask(Toulbar2(), problem, [[1, 1]], running=cmpe.Running(start=[start]))
    assert [posting.below for posting in asked] == [
        None if value == -np.inf else int(-value * 1e9) + 2
    ]
    assert found.objective.tolist() == [11.0]


def test_a_feasible_start_outweighs_a_proof_that_there_is_none(monkeypatch):
    replies(monkeypatch, Reply(Found(None, complete=True)))
    running = cmpe.Running(start=[[1, 1, 0, 1]])
    found = ask(Toulbar2(), worked_example(), [[1, 1]], running=running)
    assert (found.labels, found.objective.tolist()) == (["feasible"], [11.0])


def test_nothing_free_and_what_a_constant_rules_out():
    problem = worked_example().observing((0, 1, 2, 3))
    found = ask(Toulbar2(), problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert found.labels == ["optimal", "infeasible"]
    h = LogLinearModel.from_tables([2, 2], [((0,), [-np.inf, 0.0]), ((1,), [0.0, 1.0])])
    assert ask(Toulbar2(), Problem(h, (), (0,)), [[0], [1]]).labels == ["infeasible", "optimal"]


def test_several_constraints_are_knapsacks():
    """At most one of three, and not the last: the second is best."""
    h = LogLinearModel((2,) * 3, tuple(Factor((i,), [0.0, g]) for i, g in enumerate([1, 2, 3])))
    one = LogLinearModel((2,) * 3, tuple(Factor((i,), [0.0, 1.0]) for i in range(3)))
    last = LogLinearModel((2,) * 3, (Factor((2,), [0.0, 1.0]),))
    found = ask(Toulbar2(), Problem(h, (Constraint(one, 1.0), Constraint(last, 0.0))))
    assert found.assignments.tolist() == [[0, 1, 0]]
    assert found.labels == ["optimal"]
    never = ask(Toulbar2(), Problem(h, (Constraint(one, 1.0), Constraint(last.scale(-1.0), -2.0))))
    assert never.labels == ["infeasible"]
