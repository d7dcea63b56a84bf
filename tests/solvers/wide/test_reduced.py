"""Smaller problems have the same values, and the same optimum."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.generation import grid
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem
from cmpe.solvers.wide.reduced import Reduced
from tests.problems import Shape, completions, random_problem, seeds

SHAPE = Shape(variables=5, factors=8)


def with_functions(problem: Problem, seed: int) -> Problem:
    """The same with every second variable a function of the one before."""
    rng, cards = np.random.default_rng(seed), problem.objective.cardinalities
    factors = list(problem.models[0].factors)
    for v in range(1, len(cards), 2):
        table = np.full((cards[v - 1], cards[v]), -np.inf)
        table[np.arange(cards[v - 1]), rng.integers(0, cards[v], cards[v - 1])] = 0.0
        factors.append(Factor((v - 1, v), table))
    model = LogLinearModel(cards, tuple(factors))
    return Problem(model, problem.constraints, problem.evidence_variables)


def assignments(problem: Problem) -> np.ndarray:
    return completions(problem.given(), 0)


@settings(max_examples=100)
@given(seeds)
def test_what_is_left_has_the_same_values(seed):
    problem, evidence = random_problem(seed, SHAPE)
    rng = np.random.default_rng(seed)
    reduced = Reduced.of(problem.given(evidence), 0)
    cards = problem.objective.cardinalities
    domains = [
        np.sort(rng.choice(cards[v], rng.integers(1, cards[v] + 1), replace=False))
        for v in problem.free
    ]
    small = reduced.restricted(domains)
    assert small.values == sum(len(d) for d in domains if len(d) > 1)
    for values in assignments(small.instances.problem):
        whole = small.lift(values)
        np.testing.assert_array_equal(whole[list(problem.evidence_variables)], evidence[0])
        for f, own in zip(problem.functions, small.instances.problem.functions, strict=True):
            np.testing.assert_allclose(f.value(whole), own.value(values), atol=1e-9)
        np.testing.assert_array_equal(small.lower(whole), values)
    out = [i for i, v in enumerate(problem.free) if 1 < len(domains[i]) < cards[v]]
    if out:
        whole = small.lift(assignments(small.instances.problem)[0])
        v = problem.free[out[0]]
        whole[v] = np.setdiff1d(np.arange(cards[v]), domains[out[0]])[0]
        assert small.lower(whole) is None


def best_feasible(problem: Problem, every: np.ndarray) -> tuple[float, np.ndarray | None]:
    """The greatest h of the feasible ones of these assignments, and one that has it."""
    h = np.where(problem.is_feasible(every), problem.objective.value(every), -np.inf)
    at = int(np.argmax(h))
    return float(h[at]), every[at] if h[at] > -np.inf else None


@settings(max_examples=150)
@given(seeds, st.booleans(), st.integers(0, 2), st.booleans())
def test_maximising_out_keeps_the_optimum(seed, all_at_once, constraints, hard):
    shape = Shape(variables=6, factors=8, constraints=constraints, arity=3)
    problem, evidence = random_problem(seed, shape)
    if hard:
        problem = with_functions(problem, seed)
    instances = problem.given(evidence)
    until = np.inf if all_at_once else -np.inf
    small = Reduced.of(instances, 0).eliminated(until)
    best, _ = best_feasible(problem, completions(instances, 0))
    left = completions(small.instances, 0)
    own, values = best_feasible(small.instances.problem, left)
    np.testing.assert_allclose(own, best, atol=1e-9)
    if values is None:
        return
    whole = small.lift(values)
    for f, g in zip(problem.functions, small.instances.problem.functions, strict=True):
        np.testing.assert_allclose(f.value(whole), g.value(values), atol=1e-9)
    np.testing.assert_array_equal(small.lower(whole), values)


def test_a_problem_of_which_nothing_can_go_stays_as_it_is():
    chain = Reduced.of(Problem(grid(1, 9, seed=0)).given(), 0)
    assert chain.eliminated(np.inf).values == 0
    dense = Reduced.of(Problem(grid(9, 9, seed=0)).given(), 0)
    assert dense.eliminated(-np.inf) is dense


def test_values_with_a_stand_in_are_lowered_to_it():
    reduced = Reduced.of(
        Problem(LogLinearModel.from_tables([4, 2], [((0, 1), np.zeros((4, 2)))])).given(), 0
    )
    stand_ins = [np.array([2, 0, -1, -1]), np.array([-1, -1])]
    small = reduced.restricted([np.array([2, 3]), np.array([0, 1])], stand_ins)
    assert small.lower(np.array([1, 1])).tolist() == [0, 1]
    assert small.lower(np.array([3, 0])).tolist() == [1, 0]
    small = reduced.restricted([np.array([0, 3]), np.array([0, 1])], stand_ins)
    assert small.lower(np.array([2, 1])) is None
