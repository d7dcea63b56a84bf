"""Tabu search: answers that are what they claim, the optimum of small rows, others' finds kept."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.core.compiler import timing
from cmpe.generation import grid
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.wide import tabu
from cmpe.solvers.wide.reduced import Reduced
from cmpe.solvers.wide.tabu import TabuTurns
from tests.problems import Shape, completions, random_problem, seeds


def tabu_of(problem, evidence=None, seed=0):
    instances = problem.given(evidence).take(slice(0, 1))
    reduced, best = Reduced.of(instances, 0), Incumbent(instances.problem, 0.0)
    return TabuTurns(reduced, best, seed), best, instances


@settings(max_examples=60)
@given(seeds)
def test_the_optimum_of_small_rows_with_zeros_and_constraints(seed):
    problem, evidence = random_problem(seed, Shape(variables=5, factors=9, constraints=2))
    player, best, instances = tabu_of(problem, evidence)
    if not instances.problem.free:  # no moves: not for tabu search
        return
    every = completions(instances, 0)
    h = np.where(problem.is_feasible(every), problem.objective.value(every), -np.inf)
    for _ in range(40):
        assert player.play(timing.now() + 2e-3) == np.inf
        assert best.objective <= h.max() + 1e-9
        if best.objective >= h.max() - 1e-9:
            return
    pytest.fail("not found")


def test_a_frustrated_dense_row():
    """All pairs of twelve variables of five values: subgraphs of small width hold two of them."""
    random = np.random.default_rng(3)
    factors = [cmpe.Factor((v,), random.normal(size=5)) for v in range(12)]
    factors += [
        cmpe.Factor((u, v), random.normal(size=(5, 5))) for v in range(12) for u in range(v)
    ]
    problem = cmpe.Problem(cmpe.LogLinearModel((5,) * 12, tuple(factors)))
    values = []
    for seed in range(3):
        player, best, _ = tabu_of(problem, seed=seed)
        player.play(timing.now() + 0.3)
        values.append(best.objective)
    assert values == pytest.approx([values[0]] * 3)
    assert values[0] >= cmpe.solve(problem, method="search").objective[0] - 1e-9


def test_what_others_found_joins_the_elite():
    problem = cmpe.Problem(grid(6, 6, seed=2))
    player, best, _ = tabu_of(problem)
    optimum = cmpe.solve(problem)
    best.offer(optimum.assignments[0])
    player.play(timing.now() + 0.01)
    assert best.objective == pytest.approx(optimum.objective[0])
    assert player._walk.worth.max() == pytest.approx(optimum.objective[0])
    assert not player.finished
    for _ in range(tabu.PATIENCE):
        player.play(timing.now())
    assert player.finished  # nothing better is to be had


def test_rows_with_too_many_moves_are_left_to_others(monkeypatch):
    reduced = Reduced.of(cmpe.Problem(grid(5, 5, seed=1)).given(), 0)
    assert TabuTurns.suits(reduced)
    monkeypatch.setattr(tabu, "MOST_SLOTS", 49)
    assert not TabuTurns.suits(reduced)
