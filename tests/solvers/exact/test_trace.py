"""How `exact` closes in on one row: bounds fall, incumbents rise, both meet."""

from itertools import pairwise

import numpy as np
import pytest

import cmpe
from cmpe import Recipe
from cmpe.generation import generate, grid
from cmpe.solvers.exact.trace import trace
from tests.problems import worked_example
from tests.solvers.exact.wide import on_wide_rows, wide_grid

PLAYERS = {
    "consistency",
    "branching",
    "search",
    "splitting",
    "elimination",
    "milp",
    "relaxed",
    "shrunk",
}


@on_wide_rows
def test_a_trace_of_a_wide_row_closes_in_on_the_optimum():
    problem, evidence = wide_grid()
    optimum = cmpe.solve(problem, evidence[:1], method="milp").objective[0]
    events = trace(problem, evidence)
    assert [e.states for e in events] == list(range(len(events)))
    assert len(events) >= 2
    assert {e.by for e in events} <= PLAYERS
    for now, then in pairwise(events):
        assert now.seconds <= then.seconds
        assert now.bound >= then.bound
        assert now.incumbent <= then.incumbent
    assert all(e.bound >= optimum - 1e-9 for e in events)
    assert events[-1].incumbent == pytest.approx(optimum)
    assert events[-1].bound == pytest.approx(optimum, rel=1e-6)
    assert len(trace(problem, evidence, time_limit=1e-9)) <= 2


@on_wide_rows
def test_a_trace_of_a_wide_infeasible_row_ends_with_its_proof():
    events = trace(worked_example(), [[0, 0]])
    assert np.isnan([e.incumbent for e in events]).all()
    assert events[-1].bound == -np.inf


def test_a_trace_closes_in_on_the_optimum():
    made = generate(grid(9, 9, seed=4), Recipe(percentile=5, samples=200, evidence_fraction=0.3))
    optimum = cmpe.solve(made.problem, made.test[:1], method="exact").objective[0]
    events = trace(made.problem, made.test)
    bounds = [e.bound for e in events]
    assert bounds == sorted(bounds, reverse=True)
    assert all(e.bound >= optimum - 1e-9 for e in events)
    assert events[-1].incumbent == pytest.approx(optimum)
    assert all(e.seconds > 0 for e in events)


def test_a_trace_of_an_infeasible_row_is_one_event():
    (event,) = trace(worked_example(), [[0, 0]])
    assert np.isnan(event.incumbent)
    assert event.bound == -np.inf


def test_a_trace_without_evidence_is_of_the_whole_problem():
    problem = worked_example().observing(())
    best = cmpe.solve(problem, method="exhaustive").objective[0]
    last = trace(problem)[-1]
    assert last.incumbent == pytest.approx(best)
    assert last.bound == pytest.approx(best, abs=1e-5)


def test_only_the_first_row_is_traced():
    both = trace(worked_example(), [[1, 1], [0, 0]])
    assert both[-1].incumbent == pytest.approx(11.0)
