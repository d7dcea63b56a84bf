"""Mixtures: never worse than the best answer, made of their parts only, the best where few."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.core.settings import LOCAL
from cmpe.errors import MethodError
from cmpe.generation import grid
from cmpe.solvers.local import improve
from cmpe.solvers.local.mixing import mixed
from tests.problems import Shape, random_problem, seeds
from tests.refusals import refused

WIDE = Shape(variables=12, values=2, arity=2, factors=9, constraints=1)
FREE = Shape(variables=9, values=3, arity=2, factors=7, constraints=0)
SHAPES = [Shape(), WIDE, FREE, Shape(variables=6, values=4, arity=3, factors=5, constraints=3)]


def worth(problem, rows):
    """h of feasible rows, -inf of the others."""
    return np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)


def drawn(problem, evidence, seed, count):
    """Answers to every row, some after single moves, so that some are feasible."""
    rng, instances = np.random.default_rng(seed), problem.given(evidence)
    cards = problem.objective.cardinalities
    for k in range(count):
        rows = instances.complete(
            rng.integers(0, [cards[v] for v in problem.free], (len(instances), len(problem.free)))
        )
        yield improve(instances, rows, sweeps=0) if k % 2 == 0 else rows


def components(problem, one, other):
    """Sets of variables in which two answers differ, joined by the tables that hold them."""
    left = set(np.flatnonzero(one != other).tolist())
    scopes = [f.scope for model in problem.models for f in model.factors]
    while left:
        found = {left.pop()}
        while more := {v for s in scopes if found & set(s) for v in s} & left:
            found |= more
            left -= more
        yield sorted(found)


def best_mixture(problem, one, other):
    """By looking at every choice of components."""
    parts = list(components(problem, one, other))
    rows = np.repeat(one[np.newaxis], 2 ** len(parts), axis=0)
    for row, taken in zip(rows, product((False, True), repeat=len(parts)), strict=True):
        for part, from_other in zip(parts, taken, strict=True):
            if from_other:
                row[part] = other[part]
    return worth(problem, rows).max()


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=120)
@given(seeds)
def test_no_worse_than_the_best_and_made_of_the_answers(shape, seed):
    problem, evidence = random_problem(seed, shape)
    every = list(drawn(problem, evidence, seed, 4))
    before = [rows.copy() for rows in every]
    found = mixed(problem.given(evidence), every)
    for rows, same in zip(every, before, strict=True):
        np.testing.assert_array_equal(rows, same)
    best = np.max([worth(problem, rows) for rows in every], axis=0)
    assert (worth(problem, found) >= best - 1e-9).all()
    assert np.any([found == rows for rows in every], axis=0).all()


@pytest.mark.parametrize("shape", [WIDE, FREE])
@settings(max_examples=120)
@given(seeds)
def test_two_answers_are_mixed_as_enumeration_does(shape, seed):
    """With at most one constraint and few components."""
    problem, evidence = random_problem(seed, shape)
    one, other = (rows for k, rows in enumerate(drawn(problem, evidence, seed, 3)) if k % 2 == 0)
    found = worth(problem, mixed(problem.given(evidence), [one, other]))
    for row, (a, b) in enumerate(zip(one, other, strict=True)):
        if max(worth(problem, np.stack([a, b]))) > -np.inf:
            assert len(list(components(problem, a, b))) <= LOCAL.core
            np.testing.assert_allclose(found[row], best_mixture(problem, a, b), atol=1e-9)


def test_a_knapsack_of_many_parts_is_filled():
    """Thirty variables alone, each a trade of h for room: nothing is left that fits."""
    rng = np.random.default_rng(5)
    gain, cost = rng.random(30) + 0.1, rng.random(30) + 0.1
    cards = (2,) * 30

    def alone(values):
        pairs = zip(range(30), values, strict=True)
        return LogLinearModel(cards, tuple(Factor((v,), np.array([0.0, x])) for v, x in pairs))

    problem = Problem(alone(gain), (Constraint(alone(cost), cost.sum() / 2),))
    ends = [np.zeros((1, 30), dtype=np.int32), np.ones((1, 30), dtype=np.int32)]
    [found] = mixed(problem.given(np.zeros((1, 0), dtype=np.int32)), ends)
    assert problem.is_feasible(found[np.newaxis]).all()
    room = problem.limits[0] - cost @ found
    assert (cost[found == 0] > room).all()
    order = np.argsort(-gain / cost)
    after = np.cumsum(cost[order])
    whole = int((after <= problem.limits[0]).sum())
    first = order[whole]  # what the best filling by parts has in part
    share = (problem.limits[0] - after[whole - 1]) / cost[first]
    assert 0.99 < gain @ found / (gain[order[:whole]].sum() + share * gain[first]) <= 1.0


def apart(values):
    """A variable by itself for each row of `values`."""
    cards = tuple(map(len, values))
    return LogLinearModel(cards, tuple(Factor((v,), np.array(x)) for v, x in enumerate(values)))


@settings(max_examples=150)
@given(seeds)
def test_single_moves_of_variables_apart_are_traded_as_enumeration_does(seed):
    """Two values and one constraint: a knapsack whose core has all of its trades."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 13))
    assert count <= 2 * LOCAL.half
    h, t = np.round(rng.normal(size=(2, count, 2)), int(rng.integers(0, 4)))  # ties among them
    every = np.array(list(product((0, 1), repeat=count)), dtype=np.int32)
    if seed % 3 == 0:
        h[rng.random(h.shape) < 0.3] = -np.inf  # both values of a variable, at times
    sums = apart(t).value(every)
    q = float(rng.choice(sums)) if seed % 2 else float(rng.uniform(sums.min(), sums.max()))
    problem = Problem(apart(h), (Constraint(apart(t), q),))
    instances = problem.given(np.zeros((1, 0), dtype=np.int32))
    allowed = np.isfinite(apart(h).value(every))
    start = every[[int(np.argmin(np.where(allowed, sums, np.inf)))]]
    found = mixed(instances, [start], trades=1)
    np.testing.assert_allclose(worth(problem, found), worth(problem, every).max(), atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=100)
@given(seeds)
def test_trading_never_loses_and_leaves_evidence_alone(shape, seed):
    problem, evidence = random_problem(seed, shape)
    instances = problem.given(evidence)
    every = list(drawn(problem, evidence, seed, 3))
    before, found = mixed(instances, every), mixed(instances, every, trades=1)
    assert (worth(problem, found) >= worth(problem, before) - 1e-9).all()
    np.testing.assert_array_equal(found[:, list(problem.evidence_variables)], evidence)


def test_many_colours_and_values_are_looked_at_up_to_a_number():
    """A dense model of more variables than there are colours, of five values."""
    rng, n = np.random.default_rng(1), LOCAL.colours + 3
    pairs = [(a, b) for a in range(n) for b in range(a)]
    model = LogLinearModel((5,) * n, tuple(Factor(s, rng.normal(size=(5, 5))) for s in pairs))
    problem = Problem(model)
    instances = problem.given(np.zeros((1, 0), dtype=np.int32))
    start = np.zeros((1, n), dtype=np.int32)
    [found] = mixed(instances, [start], trades=1)
    assert model.value(found[np.newaxis])[0] > model.value(start)[0] + 10.0
    assert (found[LOCAL.colours :] == 0).all()  # no colour was left for them
    assert found.max() <= 4


def test_where_nothing_is_feasible_the_nearest_answer_stays():
    model = grid(2, 2, seed=1)
    problem = Problem(model, (Constraint(model, -1e3),))
    instances = problem.given(np.zeros((1, 0), dtype=np.int32))
    every = np.array(list(product((0, 1), repeat=4)), dtype=np.int32)
    [found] = mixed(instances, [row[np.newaxis] for row in every])
    np.testing.assert_array_equal(found, every[np.argmin(model.value(every))])


def test_chunks_threads_and_no_rows_make_no_difference():
    model = grid(4, 4, seed=2)
    problem = Problem(model, (Constraint(grid(4, 4, seed=3), 0.0),)).observing([0, 5])
    rng = np.random.default_rng(0)
    evidence = rng.integers(0, 2, (LOCAL.chunk + 40, 2)).astype(np.int32)
    every = list(drawn(problem, evidence, 1, 3))
    found = mixed(problem.given(evidence), every, threads=2)
    last = mixed(problem.given(evidence[-40:]), [rows[-40:] for rows in every])
    np.testing.assert_array_equal(found[-40:], last)
    assert mixed(problem.given(evidence[:0]), [rows[:0] for rows in every]).shape == (0, 16)


def test_answers_of_another_shape_or_with_gaps_are_refused():
    problem = Problem(grid(2, 2, seed=1))
    instances = problem.given(np.zeros((1, 0), dtype=np.int32))
    rows = np.zeros((1, 4), dtype=np.int32)
    refused(lambda: mixed(instances, [rows, rows[:, :3]]), "shape", MethodError)
    rows[0, 2] = -1
    refused(lambda: mixed(instances, [rows]), "a value for every variable", MethodError)
