"""The constant baseline against every constant there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Problem
from cmpe.evaluation import Constant, chosen, constants
from cmpe.evaluation import constant as module
from cmpe.generation import Recipe, generate, grid
from tests.learning.losses.test_functions import images, small_network
from tests.problems import (
    Shape,
    random_model,
    random_network_problem,
    random_problem,
    seeds,
    worked_example,
)


def every_constant(problem, evidence):
    """(values, mean h, share violated) of all assignments of the free variables, by hand."""
    cards = [problem.objective.cardinalities[v] for v in problem.free]
    instances = problem.given(evidence)
    for values in product(*map(range, cards)):
        whole = instances.complete(np.array([values] * len(instances)).reshape(len(instances), -1))
        fine = np.isfinite(problem.objective.value(whole))
        for c in problem.constraints:
            fine &= c.function.value(whole) - c.at_most <= 1e-6 * max(1.0, abs(c.at_most))
        yield values, problem.objective.value(whole).mean(), (~fine).mean()


def check(problem, evidence):
    """What is said of every constant is true, and none is dominated by another one."""
    found = constants(problem, evidence)
    truth = {values: (h, violated) for values, h, violated in every_constant(problem, evidence)}
    for each in found:
        h, violated = truth[tuple(each.assignment[list(problem.free)].tolist())]
        assert each.objective == pytest.approx(h, abs=1e-9)
        assert each.violated == violated
    objectives, shares = [e.objective for e in found], [e.violated for e in found]
    assert objectives == sorted(set(objectives))
    assert shares == sorted(set(shares))
    return found, truth


@pytest.mark.parametrize("constraints", [0, 1, 3])
@settings(max_examples=60)
@given(seeds)
def test_constants_are_judged_as_by_hand_and_the_last_has_the_largest_mean(constraints, seed):
    shape = Shape(zeros=False, constraints=constraints)
    problem, evidence = random_problem(seed, shape)
    found, truth = check(problem, evidence)
    assert found[-1].objective == pytest.approx(max(h for h, _ in truth.values()), abs=1e-6)


@settings(max_examples=60)
@given(seeds)
def test_potentials_of_zero_are_violations(seed):
    problem, evidence = random_problem(seed)
    check(problem, evidence)


@settings(max_examples=60)
@given(seeds)
def test_a_constraint_on_free_variables_alone_is_kept_or_broken_by_all_rows(seed):
    """Then the best constant without violations is one constrained optimum, and it is found."""
    rng = np.random.default_rng(seed)
    cards, shape = [2, 3, 2, 2], Shape(zeros=False)
    h, t = random_model(rng, cards, shape), random_model(rng, cards, shape)
    t = cmpe.LogLinearModel(cards, [f for f in t.factors if not {0, 1} & {*f.scope}])
    limit = float(np.median(t.value(np.array(list(product(*map(range, cards)))))))
    problem = Problem(h, [Constraint(t, limit)], (0, 1))
    evidence = rng.integers(0, [2, 3], (7, 2))
    found, truth = check(problem, evidence)
    best = max(h for h, violated in truth.values() if not violated)
    assert found[0].violated == 0.0
    assert found[0].objective == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("percentile", [10, 40])
def test_the_trade_off_is_close_to_that_of_all_constants(percentile):
    made = generate(grid(3, 3, seed=2), Recipe(percentile=percentile, samples=200, seed=1))
    found, truth = check(made.problem, made.train)
    assert len(found) > 1
    spread = np.ptp([h for h, _ in truth.values()])
    for allowed in (0.0, 0.02, 0.1, 0.5, 1.0):
        best = max((h for h, v in truth.values() if v <= allowed), default=None)
        mine = max((e.objective for e in found if e.violated <= allowed), default=None)
        if best is not None:
            assert mine is not None
            assert best - mine <= 0.1 * spread


@settings(max_examples=30)
@given(seeds)
def test_cutset_networks_have_constants_too(seed):
    problem, evidence = random_network_problem(seed)
    check(problem, evidence)


def test_wide_problems_use_local_search(monkeypatch):
    made = generate(grid(3, 3, seed=2), Recipe(percentile=30, samples=100))
    narrow = constants(made.problem, made.train)
    monkeypatch.setattr(module, "SETTINGS", module.SETTINGS._replace(cheap_bytes=0))
    wide = constants(made.problem, made.train)
    assert wide[-1].objective == pytest.approx(narrow[-1].objective)


def test_every_row_gets_the_same_answer_and_keeps_its_evidence():
    problem, rows = worked_example(), np.array([[1, 1], [0, 1], [1, 0]])
    found = constants(problem, rows)[0]
    answers = found.answers(problem, rows)
    assert answers.method.tolist() == ["constant"] * 3
    np.testing.assert_array_equal(answers.assignments[:, :2], rows)
    assert len(np.unique(answers.assignments[:, 2:], axis=0)) == 1
    np.testing.assert_array_equal(answers.objective, problem.objective.value(answers.assignments))


def test_the_chosen_one_violates_little_or_least():
    few, some, many = (Constant(np.zeros(1), h, v) for h, v in ((1, 0.0), (2, 0.01), (3, 0.4)))
    assert chosen([few, some, many]) is some
    assert chosen([few, some, many], allowed=0.0) is few
    assert chosen([many]) is many


def test_without_tables_or_rows_there_are_none():
    problem = cmpe.queries.adversarial(small_network())
    assert constants(problem, images(3, seed=1)) == ()
    assert constants(worked_example(), np.zeros((0, 2), dtype=int)) == ()
