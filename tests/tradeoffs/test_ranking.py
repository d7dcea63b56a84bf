"""`cmpe.best` against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Problem
from cmpe.generation import grid
from cmpe.tradeoffs.points import h_tolerance
from tests.problems import Shape, random_network_problem, random_problem, seeds, worked_example
from tests.refusals import refused
from tests.tradeoffs.truth import enumerated


def assert_ranked(problem, evidence, k):
    for ranked, truth in zip(
        cmpe.best(problem, evidence, k), enumerated(problem, evidence), strict=True
    ):
        rows, h = truth.ranked()
        assert ranked.complete
        np.testing.assert_array_equal(ranked.assignments, rows[:k])
        np.testing.assert_array_equal(ranked.objective, h[:k])
        missing = h[k] if len(h) > k else -np.inf
        assert ranked.bound == pytest.approx(missing, abs=1e-9)


@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("k", [1, 5, 100])
@settings(max_examples=12)
@given(seeds)
def test_small_problems_of_every_kind(constraints, k, seed):
    assert_ranked(*random_problem(seed, Shape(constraints=constraints, variables=6)), k)


@settings(max_examples=20)
@given(seeds)
def test_cutset_networks(seed):
    assert_ranked(*random_network_problem(seed), 4)


def test_no_answer_and_no_row():
    problem = worked_example()
    low = Problem(problem.objective, [Constraint(problem.constraints[0].function, -90.0)], (0, 1))
    ranked = cmpe.best(low, [[1, 1]])[0]
    assert ranked.infeasible
    assert "no feasible assignment" in repr(ranked)
    assert cmpe.best(problem, np.zeros((0, 2), dtype=int)) == []


@settings(max_examples=15)
@given(seeds)
def test_answers_at_a_distance_are_greedy(seed):
    problem, evidence = random_problem(seed, Shape(constraints=1, variables=5, values=3))
    for ranked, truth in zip(
        cmpe.best(problem, evidence, 3, distance=2), enumerated(problem, evidence), strict=True
    ):
        rows, h = truth.ranked()
        left = np.ones(len(rows), dtype=bool)
        for answer in ranked:
            best = h[left].max()
            assert answer.objective == pytest.approx(best, abs=1e-6)
            left &= (rows != answer.assignment).sum(axis=1) >= 2
        assert ranked.complete
        assert len(ranked) == 3 or not left.any()


def test_wide_rows_get_what_a_search_finds():
    model = grid(24, 24, seed=2)
    ranked = cmpe.best(Problem(model), k=3, time_limit=0.5)[0]
    assert len(ranked) == 3
    assert (np.diff(ranked.objective) <= 0).all()
    last, near = ranked.objective[-1], h_tolerance(ranked.objective[-1:])[0]
    assert ranked.bound >= last - near
    assert ranked.complete == (ranked.bound <= last + near)


def test_refusals():
    refused(lambda: cmpe.best(worked_example(), [[1, 1]], 0), "k must be")
    refused(lambda: cmpe.best(worked_example(), [[1, 1]], distance=0), "distance must be")
    refused(lambda: cmpe.best(worked_example().objective), "best needs a Problem")


@pytest.mark.parametrize("constraints", [0, 1])
def test_wide_rows_are_proved_where_every_search_is(constraints, monkeypatch):
    from cmpe.tradeoffs import ranking

    problem, evidence = random_problem(7, Shape(constraints=constraints, variables=5))
    known = cmpe.best(problem, evidence, 4)
    monkeypatch.setattr(ranking, "too_wide", lambda *_: True)
    for ranked, truth in zip(cmpe.best(problem, evidence, 4), known, strict=True):
        assert ranked.complete
        np.testing.assert_allclose(ranked.objective, truth.objective)


def test_equal_rows_are_ranked_once():
    ranked = cmpe.best(worked_example(), [[1, 1], [0, 1], [1, 1]], 2)
    assert ranked[0] is ranked[2]
    assert ranked[0] is not ranked[1]
