"""Levels between incumbent and bound: found or refuted, and never a wrong bound."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.core.compiler import timing
from cmpe.generation import grid
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from cmpe.solvers.wide.probing import ProbingTurns
from cmpe.solvers.wide.reduced import Reduced
from cmpe.solvers.wide.settings import SETTINGS
from tests.problems import Shape, completions, random_problem, seeds


def probing_of(problem, evidence=None, prices=0.3):
    instances = problem.given(evidence).take(slice(0, 1))
    reduced, best = Reduced.of(instances, 0), Incumbent(instances.problem, 0.0)
    multipliers = np.full(len(problem.constraints), prices)
    shape = NetworkShape(instances.conditioning)
    network = RowNetwork(shape, instances, 0, multipliers)
    return ProbingTurns(reduced, best, network), best, instances


@settings(max_examples=100)
@given(seeds)
def test_from_any_answer_to_the_proved_optimum(seed):
    problem, evidence = random_problem(seed, Shape(variables=5, factors=9, constraints=2))
    probing, best, instances = probing_of(problem, evidence)
    every = completions(instances, 0)
    h = np.where(problem.is_feasible(every), problem.objective.value(every), -np.inf)
    assert probing.finished  # nothing is known yet
    if h.max() == -np.inf:
        return
    best.offer(every[int(np.argmin(np.where(h > -np.inf, h, np.inf)))])
    for _ in range(20):
        bound = probing.play(timing.now() + 10.0)
        assert max(bound, best.enough) >= h.max() - 1e-9
        if probing.finished:
            break
    assert probing.finished
    assert best.objective == pytest.approx(h.max())


def test_forbidden_pairs_are_avoided_at_the_first_level():
    """A colouring of a cycle with loose preferences, from an answer that breaks every rule."""
    rng, n = np.random.default_rng(0), 24
    differ = np.where(np.eye(3) > 0, -9.2, 0.0)
    tables = [((v, (v + 1) % n), differ) for v in range(n)]
    tables += [((v,), 0.1 * rng.normal(size=3)) for v in range(n)]
    problem = cmpe.Problem(cmpe.LogLinearModel.from_tables([3] * n, tables))
    probing, best, _ = probing_of(problem)
    best.offer(np.zeros(n, dtype=np.int32))
    assert best.objective < -200.0
    probing.play(timing.now() + 10.0)
    assert best.objective > -9.2


def test_a_level_that_is_neither_found_nor_refuted_makes_way():
    problem = cmpe.Problem(grid(12, 12, seed=1))
    probing, best, _ = probing_of(problem)
    best.offer(np.zeros(144, dtype=np.int32))
    levels = set()
    for _ in range(2 * SETTINGS.probing_turns + 1):
        probing.play(timing.now() + 1e-3)
        levels.add(probing.level)
    assert len(levels) >= 3
    assert probing.play(-np.inf) >= best.objective
