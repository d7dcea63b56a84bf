"""Smaller problems have the same values, and the same optimum."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.generation import grid
from cmpe.problem import Problem
from cmpe.solvers.wide.reduced import Reduced
from tests.problems import Shape, completions, random_problem, seeds

SHAPE = Shape(variables=5, factors=8)


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


@settings(max_examples=100)
@given(seeds, st.booleans())
def test_maximising_out_keeps_the_optimum(seed, all_at_once):
    shape = Shape(variables=6, factors=8, constraints=0, arity=3)
    problem, evidence = random_problem(seed, shape)
    instances = problem.given(evidence)
    until = np.inf if all_at_once else -np.inf
    small = Reduced.of(instances, 0).eliminated(until)
    best = problem.objective.value(completions(instances, 0)).max()
    left = assignments(small.instances.problem)
    own = small.instances.problem.objective.value(left)
    np.testing.assert_allclose(own.max(), best, atol=1e-9)
    whole = small.lift(left[int(np.argmax(own))])
    np.testing.assert_allclose(problem.objective.value(whole), best, atol=1e-9)
    np.testing.assert_array_equal(small.lower(whole), left[int(np.argmax(own))])


def test_only_what_pays_is_tried():
    chain = Reduced.of(Problem(grid(1, 9, seed=0)).given(), 0)
    assert chain.can_eliminate()
    assert chain.eliminated(np.inf).values == 0
    assert not Reduced.of(Problem(grid(30, 30, seed=0)).given(), 0).can_eliminate()
    fixed = Problem(grid(1, 1, seed=0), (), (0,)).given([[0]])
    assert not Reduced.of(fixed, 0).can_eliminate()
