"""toulbar2 against enumeration where it needs more than one run, and Ctrl-C given back."""

import signal

import numpy as np
import pytest

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.errors import MissingExtra
from cmpe.solvers import toulbar2
from cmpe.solvers.rows import RowAnswer
from cmpe.solvers.toulbar2 import Toulbar2
from tests.problems import ask, worked_example

pytest.importorskip("pytoulbar2")


def test_toulbar2_gives_ctrl_c_back():
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(30) for j in range(i)]
    h = LogLinearModel((2,) * 30, tuple(Factor(p, rng.normal(size=(2, 2))) for p in pairs))
    cmpe.solve(cmpe.queries.mpe(h), method="toulbar2", time_limit=1)
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the signal arrives on the next line
        signal.raise_signal(signal.SIGINT)
        sum(range(1000))


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pytoulbar2", None)
    with pytest.raises(MissingExtra, match=r"toulbar2 \(pytoulbar2\) .* 'cmpe\[toulbar2\]'"):
        ask(Toulbar2(), worked_example(), [[0, 0]])


def test_what_rounding_lets_through_is_cut_off(monkeypatch):
    """t of the best value exceeds the tolerance by less than toulbar2's unit can tell."""
    h = LogLinearModel.from_tables([3], [((0,), [0.0, 2.0, 1.0])])
    t = LogLinearModel.from_tables([3], [((0,), [0.0, 1.0 + 1.0000001e-6, 0.5])])
    problem = Problem(h, (Constraint(t, 1.0),))
    cuts = []
    run = toulbar2._run
    monkeypatch.setattr(toulbar2, "_run", lambda *a: cuts.append(len(a[2])) or run(*a))
    found = ask(Toulbar2(), problem)
    assert cuts == [0, 1]
    assert found.assignments.tolist() == [[2]]
    assert found.objective.tolist() == [1.0]
    assert found.bound[0] >= 1.0


def test_after_too_many_cuts_the_row_stays_open(monkeypatch):
    monkeypatch.setattr(toulbar2, "MOST_CUTS", 1)
    t = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0 + 1.0000001e-6])])
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 2.0])])
    found = ask(Toulbar2(), Problem(h, (Constraint(t, 1.0),)))
    assert found.labels == ["violated"]


def test_a_bound_of_a_stopped_run_is_kept(monkeypatch):
    monkeypatch.setattr(toulbar2, "_run", lambda *_: RowAnswer(None, 12.5))
    found = ask(Toulbar2(), worked_example(), [[1, 1]])
    assert (found.labels, found.bound.tolist()) == (["unknown"], [12.5])


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
    given, run = [], toulbar2._run
    monkeypatch.setattr(toulbar2, "_run", lambda *a: given.append(a[3]) or run(*a))
    running = cmpe.Running(start=[start])
    found = ask(Toulbar2(), problem, [[1, 1]], running=running)
    assert given == [value]
    assert found.objective.tolist() == [11.0]


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
