"""Who plays when, what a failure costs, and what shrinks."""

import time
from itertools import pairwise

import numpy as np
import pytest

import cmpe
from cmpe import Limits
from cmpe.generation import grid
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.reduction import Splits
from cmpe.solvers.wide import race as module
from cmpe.solvers.wide.race import Known, Race
from cmpe.solvers.wide.turns import SearchTurns, SplitTurns


def race_of(problem, seconds, row=0):
    known = Known(Incumbent(problem, 0.0))
    return Race(problem.given(), row, Limits(seconds), Splits(problem, 0), known), known


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

    monkeypatch.setattr(SplitTurns, "play", fails)
    monkeypatch.setattr(SearchTurns, "play", fails)
    problem = cmpe.Problem(grid(12, 12, seed=3))
    race, known = race_of(problem, 0.5)
    with pytest.warns(RuntimeWarning, match="failed: no room"):
        list(race.run())
    assert {"search"} <= race.failed
    assert known.best.assignment is not None
    assert np.isfinite(known.upper)


def test_after_the_deadline_there_is_still_an_answer():
    problem = cmpe.Problem(grid(12, 12, seed=3))
    race, known = race_of(problem, 1e-9)
    time.sleep(0.01)
    list(race.run())
    assert known.best.assignment is not None
    assert known.upper < np.inf


def test_values_that_cannot_be_better_are_taken_away(monkeypatch):
    monkeypatch.setattr(module, "WORTH", 0.01)
    rng = np.random.default_rng(0)
    tables = [((v,), rng.normal(size=4) * 3.0) for v in range(40)]
    tables += [((u, v), rng.normal(size=(4, 4))) for v in range(40) for u in range(v) if v - u < 9]
    problem = cmpe.Problem(cmpe.LogLinearModel.from_tables([4] * 40, tables))
    race, known = race_of(problem, 20.0)
    values = {race.reduced.values for _ in race.run()} | {race.reduced.values}
    assert race.shrunk
    assert len(values) > 1
    assert known.closed
    toulbar = cmpe.solve(problem, method="milp", time_limit=20.0)
    assert known.best.objective >= toulbar.objective[0] - 1e-6
