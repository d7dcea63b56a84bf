"""Priced problems: h - mu t in one layout, and what each question tells the band."""

import math

import numpy as np
from hypothesis import given, settings

from cmpe import LogLinearModel, Problem
from cmpe.tradeoffs.wide.pricing import PricedLayout
from tests.problems import Shape, random_problem, seeds
from tests.tradeoffs.truth import enumerated
from tests.tradeoffs.wide.cases import priced_rows


@settings(max_examples=40)
@given(seeds)
def test_priced_tables_are_the_priced_function(seed):
    problem, evidence = random_problem(seed, Shape(constraints=1))
    if not problem.constraints:
        return
    tables = PricedLayout.of(*problem.models)
    truth = enumerated(problem, evidence)[0]
    h, t = problem.models[0].value(truth.rows), problem.models[1].value(truth.rows)
    both = np.isfinite(h) & np.isfinite(t)
    for mu in (0.3, 2.0):
        expected = np.where(both, h - mu * np.where(both, t, 0.0), -np.inf)
        np.testing.assert_allclose(tables.at(mu).value(truth.rows), expected, atol=1e-9)
    expected = np.where(both, -t, -np.inf)
    np.testing.assert_allclose(tables.negated().value(truth.rows), expected, atol=1e-9)
    assert 0.0 < tables.unit < math.inf


@settings(max_examples=60)
@given(seeds)
def test_every_answer_gives_a_bound_that_holds(seed):
    for pricing, band, h, t in priced_rows(seed):
        finite = np.isfinite(t)
        for mu in (0.0, 0.5):
            found = pricing.price(mu, 1.0)
            own = h if mu == 0.0 else h[finite] - mu * t[finite]
            best = own.max(initial=-np.inf)
            np.testing.assert_allclose(band.lines[mu], best, atol=1e-5)
            assert (found is not None) == bool(len(own))
        pricing.least(1.0)
        np.testing.assert_allclose(band.least, t[finite].min(initial=np.inf), atol=1e-5)
        if band.floor > -np.inf:
            pricing.lowest(1.0)
            np.testing.assert_allclose(band.floor, h[~finite].max(initial=-np.inf), atol=1e-5)
        pricing.limit(0.25, 1.0)
        best = h[t <= 0.25 + 1e-6].max(initial=-np.inf)
        np.testing.assert_allclose(band.ends[0.25 + 1e-6], best, atol=1e-5)


def test_tables_over_the_same_variables_in_another_order_are_one():
    h = LogLinearModel.from_tables([2, 3], [((1, 0), np.arange(6.0).reshape(3, 2)), ((), 1.0)])
    t = LogLinearModel.from_tables([2, 3], [((0, 1), np.ones((2, 3))), ((0, 1), np.ones((2, 3)))])
    tables = PricedLayout.of(h, t)
    assert tables.scopes == ((), (0, 1))
    assert tables.at(0.5).value([[1, 2]])[0] == 5.0
    nothing = Problem(
        LogLinearModel.from_tables([2], []), [LogLinearModel.from_tables([2], []) <= 1.0]
    )
    assert PricedLayout.of(*nothing.models).unit == 1.0
