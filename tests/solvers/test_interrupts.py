"""Ctrl-C in any method: Interrupted, with every incumbent and bound that is known."""

import os
import signal
import threading

import numpy as np
import pytest

import cmpe
from cmpe import Limits, Running
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted
from cmpe.generation import grid
from cmpe.problem import Constraint, Problem
from cmpe.solvers import exhaustive, lagrangian, reduction
from cmpe.solvers.exhaustive import Exhaustive
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.lagrangian import DualAnswers
from cmpe.solvers.milp import Milp
from cmpe.solvers.reduction import Reduction
from cmpe.solvers.search import Search
from cmpe.solvers.stages import Stage, continue_with
from cmpe.solvers.wide.race import Race
from cmpe.solvers.wide.reduced import Reduced
from cmpe.solvers.wide.turns import MilpTurns, SearchTurns
from tests.problems import ask, worked_example

ROWS = [[0, 0], [0, 1], [1, 0], [1, 1]]
START = np.array([[1, 1, 0, 1]])


def after(calls, function):
    """The function, with Ctrl-C instead of the call after so many."""
    done = []

    def stops(*arguments, **named):
        if len(done) == calls:
            raise KeyboardInterrupt
        done.append(1)
        return function(*arguments, **named)

    return stops


def wide(side=12):
    """A grid that is too wide for cheap elimination, under a constraint."""
    h, t = grid(side, side, seed=1), grid(side, side, seed=2)
    zeros = np.zeros((1, side * side), dtype=int)
    return Problem(h, (Constraint(t, float(t.value(zeros)[0])),))


class Stops:
    """An engine that is interrupted before anything is known."""

    def answer(self, instances, limits):
        raise KeyboardInterrupt


def test_a_method_that_knows_nothing_leaves_its_start():
    problem = worked_example()
    with pytest.raises(Interrupted, match="after 0 of 1 rows") as caught:
        cmpe.solve(problem, [[1, 1]], method=Stops(), running=Running(start=START))
    assert caught.value.solutions.objective.tolist() == [11.0]
    with pytest.raises(Interrupted) as caught:
        cmpe.solve(problem, ROWS, method=Stops())
    assert caught.value.solutions.labels == ["unknown"] * 4


def test_a_stage_keeps_what_was_known_before_it():
    instances = worked_example().given([[1, 1]])
    known = cmpe.Solutions.of(instances.problem, START, bound=12.0)
    with pytest.raises(Interrupted) as caught:
        continue_with(Stage(Stops(), "more"), instances, known, Limits())
    found = caught.value.solutions
    assert (found.objective.tolist(), found.bound.tolist()) == ([11.0], [12.0])


def test_exhaustive_keeps_the_best_so_far(monkeypatch):
    monkeypatch.setattr(exhaustive, "SOLVERS", exhaustive.SOLVERS._replace(chunk=2))
    monkeypatch.setattr(exhaustive, "judged", after(1, exhaustive.judged))
    with pytest.raises(Interrupted, match="after 0 of 1 rows") as caught:
        ask(Exhaustive(), worked_example(), [[1, 1]])
    assert caught.value.solutions.labels == ["feasible"]


def test_lagrangian_keeps_the_dual(monkeypatch):
    monkeypatch.setattr(lagrangian, "improve", after(0, lagrangian.improve))
    whole = cmpe.solve(worked_example(), ROWS, method="exhaustive")
    with pytest.raises(Interrupted, match="after 0 of 4 rows") as caught:
        ask(DualAnswers(), worked_example(), ROWS)
    known = caught.value.solutions
    answered = whole.feasible
    assert (known.bound[answered] >= whole.objective[answered] - 1e-6).all()
    assert (known.bound < np.inf).all()
    assert known.feasible.any()


def test_lagrangian_keeps_the_parts_before(monkeypatch):
    monkeypatch.setattr(lagrangian, "chunk_rows", lambda _: 1)
    dual = lagrangian.lagrangian_dual
    monkeypatch.setattr(lagrangian, "lagrangian_dual", after(2, dual))
    with pytest.raises(Interrupted, match="after 2 of 4 rows") as caught:
        ask(DualAnswers(), worked_example(), ROWS)
    assert (caught.value.solutions.bound < np.inf).tolist() == [True, True, False, False]


def test_lagrangian_in_parts_is_lagrangian(monkeypatch):
    whole = ask(DualAnswers(), worked_example(), ROWS)
    seen = []
    monkeypatch.setattr(lagrangian, "chunk_rows", lambda _: 1)
    running = Running(progress=lambda done, total: seen.append((done, total)))
    parts = ask(DualAnswers(), worked_example(), ROWS, running=running)
    np.testing.assert_array_equal(parts.assignments, whole.assignments)
    np.testing.assert_array_equal(parts.bound, whole.bound)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert len(ask(DualAnswers(), worked_example(), np.zeros((0, 2), dtype=int))) == 0


def test_reduction_keeps_incumbent_and_bound(monkeypatch):
    """The node that was being looked at still counts."""

    def once(self, node):
        self.push(1e6, node.row)

    monkeypatch.setattr(reduction.BestFirst, "expand_node", after(1, once))
    with pytest.raises(Interrupted, match="after 0 of 1 rows") as caught:
        ask(Reduction(), wide(6))
    known = caught.value.solutions
    assert (known.labels, known.bound.tolist()) == (["feasible"], [1e6])


def test_reduction_without_an_answer(monkeypatch):
    monkeypatch.setattr(reduction.BestFirst, "expand_node", after(0, None))
    none = np.full((1, 36), -1)
    with pytest.raises(Interrupted) as caught:
        ask(Reduction(), wide(6), running=Running(start=none))
    assert caught.value.solutions.labels == ["unknown"]


def test_a_wide_row_of_auto_keeps_its_incumbent(monkeypatch):
    monkeypatch.setattr(Race, "played", after(0, Race.played))
    problem = wide(20)
    start = np.zeros((1, 400), dtype=int)
    with pytest.raises(Interrupted, match="after 0 of 1 rows") as caught:
        cmpe.solve(problem, time_limit=2, running=Running(start=start))
    known = caught.value.solutions
    assert known.labels == ["feasible"]
    assert known.objective[0] >= problem.objective.value(start)[0]


def test_search_hears_ctrl_c():
    problem = wide()
    cmpe.solve(problem, method="search", time_limit=0.1)  # compiled code and pool are there
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted) as caught:
        cmpe.solve(problem, method="search", time_limit=60)
    assert caught.value.solutions.labels == ["feasible"]


@pytest.mark.parametrize(("engine", "turns"), [(Search, SearchTurns), (Milp, MilpTurns)])
def test_a_turn_offers_what_it_had(monkeypatch, engine, turns):
    problem = wide(6)
    instances = problem.given()
    zeros = cmpe.Solutions.of(problem, np.zeros((1, 36), dtype=int))

    def interrupted(self, *_):
        raise Interrupted(zeros, 0)

    monkeypatch.setattr(engine, "answer", interrupted)
    best = Incumbent(problem, 0.0)
    with pytest.raises(Interrupted):
        turns(Reduced.of(instances, 0), best, Limits()).play(timing.now() + 1.0)
    assert best.assignment.tolist() == [0] * 36
