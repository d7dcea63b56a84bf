"""Who plays when, what a failure costs, and what shrinks."""

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import cmpe
from cmpe import Limits
from cmpe.generation import grid
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.reduction import Splits
from cmpe.solvers.wide.race import Known, Race
from cmpe.solvers.wide.settings import SETTINGS
from cmpe.solvers.wide.turns import ConsistencyTurns


def race_of(problem, seconds, row=0):
    known = Known(Incumbent(problem, 0.0))
    return Race(problem.given(), row, Limits(seconds=seconds), Splits(problem, 0), known), known


def test_bound_and_answer_only_come_closer():
    problem = cmpe.Problem(grid(14, 14, seed=3))
    race, known = race_of(problem, 2.0)
    steps, reaches = [], []
    for step in race.run():
        steps.append(step)
        reaches.append(known.reach)
    assert steps[0] == "consistency"
    assert all(b <= a for a, b in pairwise(reaches))
    truth = cmpe.solve(problem).objective[0]
    assert known.best.objective <= truth + 1e-9
    assert known.upper >= truth - 1e-6


def test_a_failure_is_a_warning_and_no_loss(monkeypatch):
    def fails(self, until):
        raise MemoryError("no room")

    monkeypatch.setattr(ConsistencyTurns, "play", fails)  # the first to play
    problem = cmpe.Problem(grid(40, 40, seed=3))
    race, known = race_of(problem, 30.0)
    steps = race.run()
    with pytest.warns(RuntimeWarning, match="consistency failed: no room"):
        next(step for step in steps if race.left_out)
    assert race.left_out == {"consistency"}
    assert known.best.assignment is not None
    assert np.isfinite(known.upper)


def test_after_the_deadline_there_is_still_an_answer():
    problem = cmpe.Problem(grid(12, 12, seed=3))
    race, known = race_of(problem, 1e-9)
    time.sleep(0.01)
    list(race.run())
    assert known.best.assignment is not None
    assert known.upper < np.inf


def test_values_that_cannot_be_better_are_taken_away():
    rng = np.random.default_rng(0)
    tables = [((v,), rng.normal(size=4) * 3.0) for v in range(12)]
    tables += [((u, v), 0.5 * rng.normal(size=(4, 4))) for v in range(12) for u in range(v)]
    problem = cmpe.Problem(cmpe.LogLinearModel.from_tables([4] * 12, tables))
    best = cmpe.solve(problem, method="milp")
    race, known = race_of(problem, 30.0)
    race.settings = replace(SETTINGS, worth=0.01)
    steps = list(race.run())
    assert "shrunk" in steps
    assert race.shrunk
    assert race.reduced.values < 48
    lowered = race.reduced.lower(best.assignments[0])
    if lowered is not None:
        np.testing.assert_array_equal(race.reduced.lift(lowered), best.assignments[0])
    assert known.closed
    assert known.best.objective == pytest.approx(best.objective[0])


def test_what_is_quick_to_eliminate_is_eliminated_before_anyone_branches():
    problem = cmpe.Problem(grid(10, 10, seed=0, coupling=3.0))
    race, known = race_of(problem, 20.0)
    steps = list(race.run())
    assert not {"branching", "search"} & set(steps)
    assert known.closed
    assert known.best.objective == pytest.approx(cmpe.solve(problem).objective[0])
