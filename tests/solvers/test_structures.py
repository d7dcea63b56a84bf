"""Closures and assignments: what is recognised, and answers against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.arrays import FREE
from cmpe.solvers.structures import structure_of
from tests.problems import seeds


def random_rows(rng, cards, count=3):
    """Evidence on some of the variables, and scores with ties and forbidden states."""
    evidence = np.stack([rng.integers(0, k, count) for k in cards], axis=1)
    evidence = np.where(rng.random(evidence.shape) < 0.2, evidence, FREE)
    shape = (count, len(cards), max(cards))
    own = rng.integers(-2, 3, shape).astype(float) if rng.random() < 0.5 else rng.normal(size=shape)
    return evidence, np.where(rng.random(shape) < 0.07, -np.inf, own)


def agree(problem, evidence, own, name):
    found = cmpe.solve(problem, evidence, potentials=own)
    truth = cmpe.solve(problem, evidence, method="exhaustive", potentials=own)
    assert set(found.method) == {name}
    assert found.labels == truth.labels
    assert found.proved.all()
    assert np.allclose(found.objective, truth.objective, atol=1e-9, equal_nan=True)
    assert np.array_equal(found.observed, truth.observed)


def random_implications(rng, cards, turned):
    """Rules from one literal to one or more that agree on which state of a variable is its 1."""

    def literal(v, is_one):
        return {int(v): int(is_one ^ turned[v])}

    rules = []
    for _ in range(int(rng.integers(2, 7))):
        chosen = rng.choice(len(cards), int(rng.integers(2, min(4, len(cards)) + 1)), replace=False)
        left, *right = chosen
        is_one = len(right) == 1 and rng.random() < 0.5
        weight = float(rng.integers(1, 3)) if len(right) == 1 and rng.random() < 0.2 else None
        sides = literal(left, is_one), {k: s for v in right for k, s in literal(v, is_one).items()}
        rules.append(cmpe.implies(*sides, weight=weight))
    return rules


@given(seeds)
@settings(max_examples=60)
def test_closures_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    cards = [2] * int(rng.integers(3, 7)) + [int(k) for k in rng.integers(1, 4, 1)]
    turned = rng.integers(0, 2, len(cards)).astype(bool)
    tables = [((v,), rng.normal(size=k)) for v, k in enumerate(cards) if rng.random() < 0.5]
    if rng.random() < 0.5:
        table = rng.integers(-3, 4, (2, 2)).astype(float)
        table[0, 0] = table[0, 1] + table[1, 0] - table[1, 1] + rng.integers(0, 3)
        tables.append(((0, 1), table if turned[0] == turned[1] else table[::-1]))
    rules = random_implications(rng, cards[:-1], turned)
    problem = Problem(LogLinearModel.from_tables(cards, tables), rules)
    agree(problem, *random_rows(rng, cards), "closure")


@given(seeds)
@settings(max_examples=60)
def test_assignments_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(2, 5, int(rng.integers(2, 6)))]
    tables = [((v,), rng.normal(size=k)) for v, k in enumerate(cards) if rng.random() < 0.5]
    order = [int(v) for v in rng.permutation(len(cards))]
    cut = int(rng.integers(2, len(cards) + 1))
    rules = [cmpe.all_different(part) for part in (order[:cut], order[cut:]) if len(part) > 1]
    if rng.random() < 0.3:
        rules.append(cmpe.implies({}, {order[0]: [0, 1]}))
    problem = Problem(LogLinearModel.from_tables(cards, tables), rules)
    agree(problem, *random_rows(rng, cards), "assignment")


def binary(rules, tables=(), count=4, **more):
    return Problem(LogLinearModel.from_tables([2] * count, tables), rules, **more)


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (binary([cmpe.implies({0: 1}, {1: 1}), cmpe.implies({1: 1}, {2: 1, 3: 1})]), "closure"),
        (binary([cmpe.implies({0: 1}, {1: 0}), cmpe.implies({1: 0}, {2: 1})]), "closure"),
        (binary([cmpe.equal([0, 1]), cmpe.at_most_one({2: 1, 3: 1})]), "closure"),
        (binary([cmpe.implies({0: 1}, {1: 1}, weight=2.0)]), "closure"),
        (binary([cmpe.all_different([0, 1])]), "assignment"),
        (binary([cmpe.implies({0: 1}, {1: 1}), cmpe.implies({0: 1}, {1: 0})]), None),
        (binary([cmpe.implies({0: 1, 1: 1}, {2: 1})]), None),
        (binary([cmpe.implies({0: 1}, {1: 1, 2: 1}, weight=1.0)]), None),
        (binary([cmpe.implies({0: 1}, {1: 1}), cmpe.exactly_one({1: 1, 2: 1, 3: 1})]), None),
        (binary([cmpe.implies({0: 1}, {1: 1}), cmpe.count({0: 1, 1: 1}) <= 1]), None),
        (binary([cmpe.implies({0: 1}, {1: 1})], [((0, 1, 2), np.ones((2, 2, 2)))]), None),
        (binary([cmpe.implies({0: 1}, {1: 1})], [((0, 1), np.eye(2)[::-1])]), None),
        (binary([cmpe.at_most_one({0: 1, 1: 1, 2: 1})]), None),
        (binary([]), None),
        (Problem(LogLinearModel((3, 3)), [cmpe.implies({0: 1}, {1: 2})]), None),
        (Problem(LogLinearModel((3, 3, 3)), [cmpe.all_different([0, 1, 2])]), "assignment"),
        (Problem(LogLinearModel((3, 3)), [cmpe.all_different([0, 1], weight=1.0)]), None),
        (
            Problem(
                LogLinearModel((3, 3, 3)),
                [cmpe.all_different([0, 1]), cmpe.all_different([1, 2])],
            ),
            None,
        ),
    ],
)
def test_what_is_recognised(problem, name):
    found = structure_of(problem)
    assert (found and found.name) == name
    own = np.random.default_rng(0).normal(size=(2, problem.variables, 3))
    answers = cmpe.solve(problem, potentials=own)
    truth = cmpe.solve(problem, method="exhaustive", potentials=own)
    assert np.allclose(answers.objective, truth.objective)


def test_rows_of_pairs_are_answered_by_elimination():
    problem = binary([cmpe.implies({0: 1}, {1: 1})])
    pairs = {(0, 1): np.random.default_rng(0).normal(size=(3, 2, 2))}
    found = cmpe.solve(problem, potentials=pairs)
    assert set(found.method) == {"exact"}
    assert found.proved.all()


def test_evidence_alone_and_no_rows():
    problem = binary([cmpe.implies({0: 1}, {1: 1})], [((1,), [0.0, -1.0])])
    found = cmpe.solve(problem, [{0: 1}, {0: 0}])
    assert found.assignments[:, :2].tolist() == [[1, 1], [0, 0]]
    assert found.method.tolist() == ["closure"] * 2
    assert cmpe.solve(problem, {0: 1, 1: 0}).labels == ["infeasible"]
    assert len(cmpe.solve(problem, np.zeros((0, 4), dtype=int))) == 0


def test_many_rows_in_threads_report_progress():
    problem = binary([cmpe.implies({0: 1}, {1: 1})])
    own = np.random.default_rng(0).normal(size=(50, 4, 2))
    told = []
    running = cmpe.Running(threads=2, progress=lambda *done: told.append(done))
    found = cmpe.solve(problem, potentials=own, running=running)
    assert told[-1] == (50, 50)
    assert np.array_equal(found.assignments, cmpe.solve(problem, potentials=own).assignments)


def test_ctrl_c_keeps_what_is_answered(monkeypatch):
    problem = binary([cmpe.implies({0: 1}, {1: 1})])

    def stop(*_):
        raise KeyboardInterrupt

    running = cmpe.Running(progress=stop)
    with pytest.raises(cmpe.Interrupted) as stopped:
        cmpe.solve(problem, potentials=np.zeros((3, 4, 2)), running=running)
    assert stopped.value.finished == 3
    assert stopped.value.solutions.proved.all()


def test_two_states_of_a_variable_in_one_rule_are_no_assignment():
    """The states would share a column, of which only one was remembered."""
    scores = cmpe.LogLinearModel.from_tables((2, 3), [((0,), [1.0, 2.0]), ((1,), [1.0, 2.0, 3.0])])
    rule = cmpe.at_most_one([{0: 1}, {1: (0, 1, 2)}])
    answers = cmpe.solve(cmpe.Problem(scores, [rule]), [{0: 0, 1: 1}, {1: 0}])
    assert answers.labels == ["optimal", "optimal"]
    assert answers.objective.tolist() == [3.0, 2.0]
