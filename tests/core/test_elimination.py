"""Max-sum elimination, decoding and totals against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import complete, eliminate_max, totals
from tests.core.cases import Case, examples, plain_values
from tests.problems import seeds


@njit(cache=False)
def eliminated(plan, values, carried, best, best_carried, choice, at_choice):
    eliminate_max(plan, values, carried, best, best_carried)
    complete(plan, values, choice)
    totals(plan, values, choice, at_choice)


@given(seeds)
@examples(150)
def test_maxima_and_maximisers_are_those_of_enumeration(seed):
    case = Case.random(seed)
    plan, functions = case.problem.compiled_plan, len(case.problem.models)
    rows = len(case.instances)
    values, carried = np.zeros((plan.total, rows)), np.zeros((plan.total, rows))
    values[: plan.entries] = case.tables(0)
    carried[: plan.entries] = case.tables(functions - 1)
    best, best_carried, at_choice = np.zeros(rows), np.zeros(rows), np.zeros(rows)
    choice = np.full((len(plan.buckets), rows), -1)
    fixed = case.rng.random(choice.shape) < 0.2
    eliminated(plan, values, carried, best, best_carried, choice, at_choice)
    for row in range(rows):
        _, h, t = case.every(row)
        wanted = h.max()
        assert np.isclose(best[row], wanted, rtol=1e-12, atol=1e-12)
        if wanted == -np.inf:
            continue
        other = h if functions == 1 else t[:, -1]
        pairs = other[np.isclose(h, wanted, rtol=1e-12, atol=1e-12)]
        assert np.isclose(pairs, best_carried[row], rtol=1e-12, atol=1e-12).any()
        assert np.isclose(at_choice[row], wanted, rtol=1e-12, atol=1e-12)
        chosen = plain_values(case.problem.models[0], case.of_choice(row, choice[:, row])[None])
        assert np.isclose(chosen[0], wanted, rtol=1e-12, atol=1e-12)
    given_values = case.rng.integers(0, np.maximum(plan.buckets[:, 1], 1)[:, None], choice.shape)
    choice[:] = np.where(fixed, given_values, -1)
    eliminated(plan, values, carried, best, best_carried, choice, at_choice)
    assert (choice[fixed] == given_values[fixed]).all()
    for row in range(rows):  # parents come first: a root that is fixed has the best completion
        expected = plain_values(case.problem.models[0], case.of_choice(row, choice[:, row])[None])
        assert np.isclose(at_choice[row], expected[0], rtol=1e-12, atol=1e-12)
