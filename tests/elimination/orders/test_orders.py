"""Compiled orders: complete, costed, given up in time."""

import math
from itertools import pairwise

import numpy as np
import pytest

from cmpe.core.orders import FILL, WEIGHT
from cmpe.elimination.orders import Ordering, candidate_orders, neighbours_of
from cmpe.elimination.plan import make_plan, plan_in_order
from cmpe.elimination.settings import ELIMINATION
from cmpe.generation import grid


def ordering_of(model, until=math.inf):
    scopes = tuple(f.scope for f in model.factors)
    chosen = np.arange(model.variables)
    return scopes, Ordering(model.cardinalities, scopes, chosen, 0, until)


def test_costs_are_those_of_the_plans():
    model = grid(5, 6, seed=0)
    scopes, ordering = ordering_of(model)
    for order, cost in candidate_orders(ordering, 2):
        assert sorted(order.tolist()) == list(range(30))
        plan = plan_in_order(model.cardinalities, scopes, order.tolist())
        assert cost == pytest.approx(plan.operations)


def test_min_fill_of_a_chain_is_its_width():
    model = grid(1, 50, seed=0)
    _, ordering = ordering_of(model)
    for rule in (FILL, WEIGHT):
        assert ordering.greedy(rule)[1] == pytest.approx(49 * 4 + 2)


def test_hopeless_graphs_are_given_up_and_large_ones_have_no_buckets():
    model = grid(60, 60, seed=0)
    scopes, ordering = ordering_of(model)
    assert ordering.greedy(WEIGHT) == (None, math.inf)
    plan = make_plan(model.cardinalities, scopes)
    assert plan.hopeless
    assert plan.width == 40
    assert plan.operations == plan.message_entries == 1 << 40
    with pytest.raises(Exception, match="elimination of width 40"):
        plan.require()


def test_after_the_deadline_one_order_of_each_kind_is_made(monkeypatch):
    monkeypatch.setattr("cmpe.elimination.orders.ELIMINATION", ELIMINATION._replace(least_work=10))
    model = grid(6, 6, seed=0)
    scopes, ordering = ordering_of(model, until=-math.inf)
    assert ordering.greedy(FILL) == (None, math.inf)  # no time for it
    assert make_plan(model.cardinalities, scopes, until=-math.inf).width >= 6


def test_neighbours_share_a_scope():
    number = np.array([0, -1, 1, 2])
    starts, near = neighbours_of(number, 3, [(), (0,), (0, 2), (3, 2, 0), (2, 0)])
    assert [near[a:b].tolist() for a, b in pairwise(starts)] == [
        [1, 2],
        [0, 2],
        [0, 1],
    ]
