"""One split for all multipliers: bounds that hold, and when there is none."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
import cmpe.tradeoffs.wide.pricing as module
from cmpe import Limits, Problem
from cmpe.errors import TooLarge
from cmpe.generation import grid
from cmpe.tradeoffs.wide.band import Band
from cmpe.tradeoffs.wide.pricing import PricedLayout, Pricing
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS
from cmpe.tradeoffs.wide.splits import SharedSplit
from tests.problems import seeds
from tests.tradeoffs.wide.cases import priced_rows


def instances_of(mu, side=8):
    model = grid(side, side, seed=1)
    return Problem(PricedLayout.of(model, model.perturb(0.2, 1)).at(mu)).given()


@pytest.mark.parametrize("mu", [0.0, 0.4, 1.3])
def test_a_split_of_one_multiplier_bounds_all(mu):
    split = SharedSplit()
    assert split.bound(instances_of(mu), 0.1) == np.inf
    assert split.enlarge(instances_of(0.7), 0.0, 60.0)
    assert split.is_made
    best = cmpe.solve(instances_of(mu).problem)[0].objective
    assert best - 1e-6 <= split.bound(instances_of(mu), 0.5) <= best + 5.0
    assert split.bound(instances_of(mu, side=5), 0.1) == np.inf  # other tables


def test_a_larger_split_comes_later_and_only_so_many():
    split = SharedSplit()
    assert split.enlarge(instances_of(0.7), 1.0, 60.0)
    assert not split.enlarge(instances_of(0.7), 1.0, 60.0)
    made = [
        split.enlarge(instances_of(0.7), 1e6 * (1 + k), 60.0)
        for k in range(len(WIDE_FRONTS.split_seconds))
    ]
    assert made == [True] * (len(WIDE_FRONTS.split_seconds) - 1) + [False]


def test_no_time_for_a_split_is_no_error():
    split = SharedSplit()
    assert not split.enlarge(instances_of(0.7), 0.0, 0.0)
    assert not split.is_made
    assert not split.enlarge(instances_of(0.7), 1e6, 60.0)


@settings(max_examples=40)
@given(seeds)
def test_lines_of_splits_hold(seed):
    for pricing, band, h, t in priced_rows(seed):
        pricing.enlarge_split(0.0, 60.0)
        finite = np.isfinite(t)
        for mu in (0.0, 0.5):
            pricing.price(mu, 0.02, apart=True)
            own = h if mu == 0.0 else h[finite] - mu * t[finite]
            assert band.lines[mu] >= own.max(initial=-np.inf) - 1e-6
        assert band.h.max(initial=-np.inf) <= h.max(initial=-np.inf)


def test_a_search_that_does_not_fit_is_replaced(monkeypatch):
    model = grid(4, 4, seed=1)
    problem = Problem(model, [model.perturb(0.2, 1) <= 0.0])
    right, asked = module.answer, []

    def crowded(problem, evidence, method, limits):
        asked.append(method)
        if method == "search" or len(asked) > 2:
            raise TooLarge("no room")
        return right(problem, evidence, method, limits)

    monkeypatch.setattr(module, "answer", crowded)
    pricing = Pricing(problem.given(), Band(problem, 0), Limits())
    assert pricing.price(0.5, 1.0, apart=True) is not None
    assert asked == ["search", "auto"]
    with pytest.raises(TooLarge):
        pricing.price(0.5, 1.0)
