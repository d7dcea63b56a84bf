"""toulbar2 against enumeration where it needs more than one run, and Ctrl-C given back."""

import signal
from types import SimpleNamespace

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


class Stopped:
    """A run of toulbar2 that ends in one of its ways."""

    class Contradiction(Exception):  # noqa: N818 - the names of pytoulbar2
        pass

    class SolverOut(Exception):  # noqa: N818
        pass

    def __init__(self, result):
        self.result = result

    def Solve(self, timeLimit):  # noqa: N802
        if isinstance(self.result, type):
            raise self.result
        return self.result

    def GetDDualBound(self):  # noqa: N802
        return -30.0


@pytest.mark.parametrize(
    ("result", "seconds", "expected"),
    [
        (Stopped.SolverOut, None, (None, -np.inf, True)),
        (Stopped.Contradiction, None, (None, -np.inf, True)),
        (None, None, (None, -np.inf, True)),
        (([1, 0, 9], -20.0, 1), None, ([1, 0], 11.0, False)),
        (None, 1e-9, (None, 16.0, False)),  # as if its limit came first: only the dual bound counts
        (([1, 0, 9], -20.0, 1), 1e-9, ([1, 0], 16.0, False)),
    ],
)
def test_what_the_end_of_a_run_proves(monkeypatch, result, seconds, expected):
    """Costs of 2 units a nat, 2 of them lost to rounding."""
    network = SimpleNamespace(rounding=2, scale=2.0, structure=SimpleNamespace(free=(0, 1)))
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(toulbar2.time, "process_time", lambda: next(clock))
    answer = toulbar2._answer(Stopped(result), network, cmpe.Limits(seconds))
    values = None if answer.free_values is None else answer.free_values.tolist()
    assert (values, answer.bound, answer.infeasible) == expected


def test_functions_that_contradict_are_a_proof(monkeypatch):
    class Contradicting(Stopped):
        def AddVariable(self, *_):  # noqa: N802
            raise self.Contradiction

    package = SimpleNamespace(CFN=lambda *_, **__: Contradicting(None))
    monkeypatch.setattr(toulbar2, "_package", lambda: package)
    found = ask(Toulbar2(), worked_example(), [[1, 1]])
    assert found.labels == ["infeasible"]
