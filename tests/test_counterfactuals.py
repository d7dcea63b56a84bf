"""Counterfactuals by probability and by price, against enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, queries
from cmpe.errors import ModelError
from tests.problems import Shape, all_assignments, random_model, seeds
from tests.refusals import refused


def random_case(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(2, 7)))]
    model = random_model(rng, cards, Shape(zeros=True))
    order = rng.permutation(len(cards)).tolist()
    target = {order[0]: int(rng.integers(cards[order[0]]))}
    attributes = order[1 : 1 + int(rng.integers(1, len(cards)))]
    case = {v: int(rng.integers(cards[v])) for v in attributes}
    costs = {}
    for v in attributes:
        kind = int(rng.integers(3))
        if kind == 0:
            costs[v] = float(rng.integers(1, 4))
        elif kind == 1:
            some = [s for s in range(cards[v]) if rng.random() < 0.7]
            costs[v] = {s: float(rng.integers(4)) for s in some}
    return model, case, target, costs, float(rng.choice([0.2, 0.5, 0.9, 1.0]))


def price(costs, v, old, new):
    if old == new:
        return 0.0
    own = costs.get(v, np.inf)
    return own.get(new, np.inf) if isinstance(own, dict) else own


@given(seeds)
def test_the_cheapest_change_of_all(seed):
    model, case, target, costs, least = random_case(seed)
    rows = all_assignments(model.cardinalities)
    weight = np.exp(model.value(rows))
    (goal, state) = next(iter(target.items()))

    def likely(states):
        agree = np.all([rows[:, v] == s for v, s in states.items()], axis=0)
        total = weight[agree].sum()
        return weight[agree & (rows[:, goal] == state)].sum() / total if total else np.nan

    cheapest = np.inf
    for new in itertools.product(*(range(model.cardinalities[v]) for v in case)):
        changed = dict(zip(case, new, strict=True))
        cost = sum(price(costs, v, case[v], s) for v, s in changed.items())
        if likely(changed) >= least - 1e-9:
            cheapest = min(cheapest, cost)
    found = queries.counterfactual(model, case, target, probability=least, costs=costs)
    assert found.proved
    assert found.cost == cheapest
    assert found.before == pytest.approx(likely(case), nan_ok=True)
    if np.isfinite(cheapest):
        assert found.probability == pytest.approx(likely(found.case))
        assert found.probability >= least - 1e-6
        spent = sum(price(costs, v, *states) for v, states in found.change.items())
        assert spent == pytest.approx(cheapest)


@given(seeds)
@settings(max_examples=20)
def test_longer_lists_go_on_where_shorter_ones_end(seed):
    """More cheaper cases than the first list holds."""
    rng = np.random.default_rng(seed)
    cards = [2] * 8
    weights = rng.normal(size=7)
    model = LogLinearModel.from_tables(
        cards, [((v, 7), [[0.0, -weights[v]], [-weights[v], 0.0]]) for v in range(7)]
    )
    case = dict.fromkeys(range(7), 0)
    most = 1 / (1 + np.exp(-np.abs(weights).sum()))
    found = queries.counterfactual(model, case, {7: 1}, probability=most - 1e-7)
    assert found.cost == (weights > 0).sum()
    none = queries.counterfactual(model, case, {7: 1}, probability=min(1.0, most + 1e-3))
    assert (none.cost, none.proved) == (np.inf, True)
    assert "no change makes" in str(none)


NAMED = LogLinearModel.from_tables(
    [3, 2, 2],
    [((0, 1, 2), np.log([[[0.9, 0.1], [0.8, 0.2]], [[0.6, 0.4], [0.3, 0.7]], [[0.2, 0.8]] * 2]))],
    names=["income", "owner", "approved"],
    states=[["low", "middle", "high"], ["no", "yes"], ["no", "yes"]],
)
CASE = {"income": "low", "owner": "no"}


def test_names_and_prices_of_states():
    costs = {"income": {"middle": 2.0, "high": 5.0}, "owner": 4.0}
    found = queries.counterfactual(NAMED, CASE, {"approved": "yes"}, probability=0.5, costs=costs)
    assert found.change == {"income": ("low", "high")}
    assert found.case == {"income": "high", "owner": "no"}
    assert (found.cost, round(found.before, 9)) == (5.0, 0.1)
    assert "income: high instead of low (cost 5, proved to be the cheapest)" in str(found)
    assert "<td>high</td>" in found._repr_html_()
    fixed = queries.counterfactual(
        NAMED,
        {**CASE, "approved": "no"},
        {"approved": "yes"},
        probability=0.5,
        immutable=["income"],
    )
    assert fixed.cost == np.inf
    nothing = queries.counterfactual(NAMED, CASE, {"approved": "yes"}, probability=0.05)
    assert (nothing.cost, nothing.change) == (0.0, {})
    assert "nothing to change" in str(nothing)


def test_prices_of_states_in_the_joint_form():
    costs = {"income": {"middle": 2.0}, "owner": {"yes": 4.0}}
    query = queries.counterfactual(NAMED, CASE, {"approved": "yes"}, np.log(0.5), costs)
    answer = cmpe.solve(*query)[0]
    assert (answer["income"], answer["owner"], answer.objective) == ("middle", "yes", -6.0)


def test_time_that_is_over_leaves_a_bound():
    model = LogLinearModel.from_tables([2] * 9, [((v, 8), np.zeros((2, 2))) for v in range(8)])
    found = queries.counterfactual(
        model, dict.fromkeys(range(8), 0), {8: 1}, probability=0.9, time_limit=1e-9
    )
    assert not found.proved
    assert 0 < found.bound < np.inf
    assert f"that costs less than {found.bound:g}" in str(found)


MISTAKES = {
    "both": ({"probability": 0.5, "at_least": -3.0}, "and one of them"),
    "none": ({}, "needs probability=0.5"),
    "limit": ({"at_least": -3.0, "time_limit": 1.0}, "time_limit goes with probability"),
    "above": ({"probability": 1.5}, "must be above 0 and at most 1, found 1.5"),
    "text": ({"probability": "half"}, "probability must be a number"),
    "negative": ({"probability": 0.5, "costs": {"owner": -1.0}}, "must be at least 0"),
    "state": ({"probability": 0.5, "costs": {"owner": {"maybe": 1.0}}}, "has no state 'maybe'"),
    "unknown": ({"probability": 0.5, "immutable": ["approved"]}, "none of them immutable"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    options, message = MISTAKES[name]
    refused(
        lambda: queries.counterfactual(NAMED, CASE, {"approved": "yes"}, **options),
        message,
        ModelError,
    )
