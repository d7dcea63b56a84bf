"""Conflicts are minimal and relaxations cheapest: every subset and every assignment is tried."""

from itertools import combinations

import numpy as np
import pytest
from benchmarks.campaign.rules import random_rule, worth
from hypothesis import given, settings
from hypothesis import strategies as st

import cmpe
from cmpe import Problem
from cmpe.errors import EvidenceError, MethodError
from cmpe.generation import grid
from tests.problems import Shape, all_assignments, random_model
from tests.refusals import refused


def case(seed):
    """A model with zeros, constraints, rules with what they are worth, and one row."""
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
    model = random_model(rng, cards, Shape())
    functions = [random_model(rng, cards, Shape()) for _ in range(int(rng.integers(0, 3)))]
    rows = all_assignments(cards)
    constraints = []
    for function in functions:
        values = function.value(rows)
        finite = values[np.isfinite(values)]
        q = float(np.quantile(finite, rng.random() * 0.4)) if len(finite) else 0.0
        constraints.append(function <= q if rng.random() < 0.7 else function >= -q)
    rules = [random_rule(rng, cards) for _ in range(int(rng.integers(0, 3)))]
    problem = Problem(model, [*constraints, *(rule for rule, _ in rules)])
    seen = np.array([int(rng.integers(0, k)) for k in cards])
    seen[rng.random(len(cards)) < 0.3] = -1
    return problem, model, constraints, rules, seen


def holds(rows, model, constraints, rules, seen, members):
    """Which assignments satisfy these members."""
    good = np.isfinite(model.value(rows))
    for kind, j in members:
        if kind == "constraint":
            each = constraints[j]
            value = each.function.value(rows)
            good &= value - each.at_most <= each.tolerance
            if each.support is not None:
                good &= np.isfinite(each.support.value(rows))
        elif kind == "rule":
            good &= np.isfinite(worth(*rules[j], rows))
        else:
            good &= rows[:, j] == seen[j]
    return good


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_conflicts_are_minimal(seed):
    problem, model, constraints, rules, seen = case(seed)
    rows = all_assignments(model.cardinalities)
    found = cmpe.conflict(problem, seen)
    every = [("constraint", j) for j in range(len(constraints))]
    every += [("rule", j) for j in range(len(rules))]
    every += [("finding", v) for v in np.flatnonzero(seen >= 0).tolist()]
    about = (rows, model, constraints, rules, seen)
    assert found.feasible == bool(holds(*about, every).any())
    members = [("constraint", j) for j in found.constraints]
    members += [("rule", j) for j in found.rules] + [("finding", v) for v in found.findings]
    assert len(found.members) == len(members) == len(found)
    if found.feasible:
        assert not members
        return
    assert found.minimal
    assert not holds(*about, members).any()
    for fewer in combinations(members, len(members) - 1) if members else ():
        assert holds(*about, fewer).any()


@settings(max_examples=150)
@given(st.integers(0, 2**32 - 1))
def test_relaxations_are_cheapest(seed):
    problem, model, constraints, rules, seen = case(seed)
    rng = np.random.default_rng([seed, 3])
    rows = all_assignments(model.cardinalities)
    observed = np.flatnonzero(seen >= 0).tolist()
    named = [c.named(f"limit {j}") for j, c in enumerate(constraints)]
    problem = Problem(model, [*named, *(rule for rule, _ in rules)])
    costs = {v: float(rng.integers(1, 4)) for v in observed if rng.random() < 0.7}
    costs |= {c.name: float(rng.integers(1, 4)) for c in named if rng.random() < 0.6}
    good = holds(rows, model, named, rules, seen, [("rule", j) for j in range(len(rules))])
    total = np.zeros(len(rows))
    for v in observed:
        apart = rows[:, v] != seen[v]
        total += np.where(apart, costs.get(v, np.inf) * np.ones(len(rows)), 0.0)
    for j, each in enumerate(named):
        kept = holds(rows, model, named, rules, seen, [("constraint", j)])
        if each.name not in costs:
            good &= kept
            continue
        if each.support is not None:
            good &= np.isfinite(each.support.value(rows))
        over = each.function.value(rows) - each.at_most
        total += np.where(kept, 0.0, costs[each.name] * np.clip(over, 0.0, None))
    best = float(total[good].min(initial=np.inf))
    found = cmpe.relax(problem, seen, costs=costs)
    assert found.proved
    assert found.cost == pytest.approx(best, abs=1e-5)
    assert str(found)
    if best < np.inf:
        assert cmpe.solve(found.problem, found.evidence).feasible.all()
        assert len(found.findings) + len(found.evidence) == len(observed)


def test_the_fewest_findings_to_doubt():
    net = cmpe.read_model(cmpe.example("alarm"))
    few = cmpe.count({"LVFAILURE": "TRUE", "HYPOVOLEMIA": "TRUE"}, name="faults") <= 0
    problem = Problem(net, [few, cmpe.implies({"HRBP": "HIGH"}, {"LVFAILURE": "TRUE"})])
    row = {"HRBP": "HIGH", "CVP": "LOW"}
    found = cmpe.conflict(problem, row)
    assert str(found).startswith("cannot hold together: faults <= 0, rule ")
    assert "HRBP=HIGH" in str(found)
    assert "CVP" not in str(found)
    assert "faults &lt;= 0" in found._repr_html_()
    cheapest = cmpe.relax(problem, row)
    assert list(cheapest.findings) == ["HRBP"]
    assert "(cost 1, proved to be the cheapest)" in str(cheapest)
    raised = cmpe.relax(problem, row, costs={"faults": 0.5})
    assert raised.limits == {"faults": (0.0, 1.0)}
    assert "faults: limit 1 instead of 0" in str(raised)
    own = cmpe.conflict(problem, row, limits={0: [1.0]})
    assert own.feasible
    assert str(own) == "there is a feasible answer: nothing is in conflict"


def test_refusals():
    problem = Problem(grid(2, 2, seed=1), [grid(2, 2, seed=2) <= 1.0])
    refused(lambda: cmpe.conflict(problem, [[0, -1, -1, 1]] * 2), "about one row", EvidenceError)
    refused(lambda: cmpe.relax(problem, {0: 1}, costs={0: -1}), "above 0", MethodError)
    refused(lambda: cmpe.relax(problem, {0: 1}, costs={1: 1}), "does not observe", MethodError)


def test_frames_of_conflicts_and_relaxations():
    model = cmpe.LogLinearModel.from_tables((2, 2), [], ["A", "B"])
    limit = cmpe.count({"A": 1, "B": 1}, name="both") <= 0
    problem = Problem(model, [limit, cmpe.implies({"A": 1}, {"B": 1})])
    frame = cmpe.conflict(problem, {"A": 1}).to_frame()
    assert frame.to_numpy().tolist() == [["constraint", "both <= 0"], ["finding", "A=1"]]
    changes = cmpe.relax(problem, {"A": 1}, costs={"both": 1.0}).to_frame()
    assert changes.to_numpy().tolist() == [["both", 0.0, 2.0]]
    assert cmpe.conflict(problem).to_frame().empty
