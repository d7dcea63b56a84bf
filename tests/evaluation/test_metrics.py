"""Metrics against the same numbers written out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Problem
from cmpe.errors import InputError
from cmpe.evaluation import Evaluation, Spread, overlap
from cmpe.solution import Solutions
from tests.learning.losses.test_functions import images, small_network
from tests.problems import random_problem, seeds, worked_example

FIELDS = ["rows", "distinct", "optimal", "regret", "feasible_regret", "gap", "violation"]
FIELDS += ["violation_size", "certified_gap", "seconds"]


def some_answers(problem, evidence, seed):
    """Random assignments that agree with the evidence; some rows are not answered."""
    rng = np.random.default_rng(seed)
    cards = problem.objective.cardinalities
    rows = np.stack([rng.integers(0, k, len(evidence)) for k in cards], axis=1)
    rows[:, list(problem.evidence_variables)] = evidence
    rows[rng.random(len(rows)) < 0.1] = -1
    bound = rng.normal(20.0, 1.0, len(rows))
    return Solutions.of(problem, rows, bound=bound, seconds=rng.random(len(rows)))


def by_hand(problem, evidence, answers, best, which):
    """The mean and deviation of every metric, row by row; (None, None) without rows."""
    columns = {name: [] for name in FIELDS[3:]}
    for k in np.flatnonzero(which):
        h, star = answers.objective[k], best.objective[k]
        unanswered = answers.assignments[k, 0] < 0
        over = [
            np.nan if unanswered
            else c.function.value(answers.assignments[k : k + 1])[0] - c.at_most
            for c in problem.constraints
        ]  # fmt: skip
        fine = not unanswered and h > -np.inf
        fine = fine and all(
            v <= 1e-6 * max(1.0, abs(c.at_most))
            for v, c in zip(over, problem.constraints, strict=True)
        )
        columns["regret"].append(star - h)
        columns["gap"].append((star - h) / (problem.shift - star))
        columns["violation"].append(0.0 if fine else 1.0)
        columns["seconds"].append(answers.seconds[k])
        if fine:
            columns["feasible_regret"].append(star - h)
            columns["certified_gap"].append(max(answers.bound[k] - h, 0.0))
        else:
            columns["violation_size"].append(np.maximum(over, 0.0).sum())
    found = {}
    for name, values in columns.items():
        known = [v for v in values if np.isfinite(v)]
        mean = sum(known) / len(known) if known else None
        found[name] = mean
        found[f"{name}_std"] = (
            (sum((v - mean) ** 2 for v in known) / len(known)) ** 0.5 if known else None
        )
    return found


@settings(max_examples=60)
@given(seeds)
def test_metrics_are_what_is_computed_by_hand(seed):
    problem, evidence = random_problem(seed)
    against = cmpe.reference(problem, evidence, method="exhaustive")
    answers = some_answers(problem, against.evidence, seed)
    found = cmpe.evaluate(answers, against)
    best = cmpe.solve(problem, evidence, method="exhaustive")
    parts = {"every": best.feasible, "constrained": best.feasible & against.constrained}
    for name, which in parts.items():
        told = getattr(found, name).to_json()
        assert told["rows"] == which.sum()
        assert told["distinct"] == len({tuple(row) for row in against.evidence[which].tolist()})
        decided = answers.assignments[which][:, list(problem.free)].tolist()
        assert told["distinct_answers"] == len({tuple(row) for row in decided})
        for field, wanted in by_hand(problem, against.evidence, answers, best, which).items():
            assert told[field] == (None if wanted is None else pytest.approx(wanted, abs=1e-9)), (
                name, field,
            )  # fmt: skip
        if which.any():
            assert told["optimal"] == 1.0


@settings(max_examples=60)
@given(seeds)
def test_a_row_is_constrained_when_no_free_optimum_is_feasible(seed):
    problem, evidence = random_problem(seed)
    against = cmpe.reference(problem, evidence, method="exhaustive")
    cards = problem.objective.cardinalities
    every = np.stack(np.meshgrid(*map(np.arange, cards), indexing="ij"), -1).reshape(-1, len(cards))
    h, fine = problem.objective.value(every), problem.is_feasible(every)
    for k, row in enumerate(against.evidence):
        here = (every[:, list(problem.evidence_variables)] == row).all(axis=1)
        if not np.isfinite(h[here].max()):
            continue
        best = here & (h >= h[here].max() - 1e-9)
        if fine[best].all():
            assert not against.constrained[k]
        if not fine[best].any():
            assert against.constrained[k]


def test_the_worked_example():
    problem = worked_example()
    rows = [[1, 1], [0, 0], [1, 1]]
    against = cmpe.reference(problem, rows)
    assert against.constrained.tolist() == [True, True, True]
    perfect = cmpe.evaluate(cmpe.solve(problem, rows), against)
    assert (perfect.every.rows, perfect.every.distinct) == (2, 1)  # (0, 0): t >= 22
    assert perfect.every.regret == perfect.constrained.regret == Spread(0.0, 0.0)
    mpe = cmpe.solve(Problem(problem.objective, (), (0, 1)), rows)
    free = cmpe.evaluate(Solutions.of(problem, mpe.assignments), against).constrained
    assert free.regret == Spread(11.0 - 16.0, 0.0)  # better than the optimum, and not allowed
    assert free.violation == Spread(1.0, 0.0)
    assert free.violation_size == Spread(3.0, 0.0)
    assert free.gap.mean == pytest.approx(-5.0 / (problem.shift - 11.0))
    assert np.isnan(free.feasible_regret.mean)


def test_blocks_of_rows_have_the_metrics_of_all():
    problem = worked_example()
    rows = np.array([[1, 1], [0, 1], [0, 0], [1, 0], [0, 0]])
    answers = some_answers(problem, rows, seed=3)
    whole = cmpe.evaluate(answers, cmpe.reference(problem, rows))
    cuts = [slice(0, 2), slice(2, 3), slice(3, 5)]  # (0, 0) has no answer: an empty part
    parts = [cmpe.evaluate(answers.take(np.arange(5)[c]), cmpe.reference(problem, rows[c]))
             for c in cuts]  # fmt: skip
    pooled = Evaluation.pooled(parts)
    assert Evaluation.pooled(parts[:1]) == parts[0]
    for found, wanted in ((pooled.every, whole.every), (pooled.constrained, whole.constrained)):
        told = {**wanted.to_json(), "distinct": None, "distinct_answers": None}
        assert found.to_json() == pytest.approx(told, nan_ok=True)
    nobody = Evaluation.pooled([parts[1], parts[1]]).every
    assert (nobody.rows, nobody.to_json()["regret"]) == (0, None)


def test_the_share_of_rows_on_which_the_constraint_binds():
    problem = worked_example()
    rows = [[1, 1], [0, 1], [1, 0], [0, 0]]
    against = cmpe.reference(problem, rows)
    found = cmpe.evaluate(cmpe.solve(problem, rows), against)
    known = against.solutions.feasible
    assert found.binding == against.constrained[known].mean()
    none = cmpe.evaluate(cmpe.solve(problem, [[0, 0]]), cmpe.reference(problem, [[0, 0]]))
    assert np.isnan(none.binding)


def test_the_share_of_rows_that_are_training_rows():
    training = np.array([[0, 1], [1, 1], [1, 1]], dtype=np.int32)
    assert overlap(np.array([[1, 1], [0, 0], [1, 1], [1, 0]]), training) == 0.5
    assert overlap(training, training[:0]) == 0.0
    assert np.isnan(overlap(training[:0], training))
    assert overlap(np.array([[0.5, 1.0]]), np.array([[0.5, 1.0], [0.25, 0.0]])) == 1.0


def test_other_rows_are_refused():
    problem = worked_example()
    against = cmpe.reference(problem, [[1, 1], [0, 1]])
    with pytest.raises(InputError, match="2 rows need as many answers, found 1"):
        cmpe.evaluate(cmpe.solve(problem, [[1, 1]]), against)


def test_what_is_missing_is_none_in_plain_numbers():
    problem = worked_example()
    loose = Problem(problem.objective, (Constraint(problem.constraints[0].function, 1e3),), (0, 1))
    found = cmpe.evaluate(
        cmpe.solve(loose, [[1, 1]]), cmpe.reference(loose, [[1, 1]])
    ).every.to_json()  # fmt: skip
    assert found["violation_size"] is found["violation_size_std"] is None
    json.dumps(found, allow_nan=False)
    counts = ("rows", "distinct", "distinct_answers", "optimal")
    spreads = [name for name in found if name not in counts]
    assert sorted(spreads) == sorted([*FIELDS[3:], *(f"{name}_std" for name in FIELDS[3:])])


def test_no_constrained_rows_are_plain_too():
    problem = worked_example()
    loose = Problem(problem.objective, (Constraint(problem.constraints[0].function, 1e3),), (0, 1))
    found = cmpe.evaluate(cmpe.solve(loose, [[1, 1]]), cmpe.reference(loose, [[1, 1]]))
    assert found.constrained.rows == 0
    json.dumps(found.constrained.to_json(), allow_nan=False)


def test_flips_are_measured_against_proofs():
    """Without the constraint nothing changes, so every row that can flip is constrained."""
    problem, test = cmpe.queries.adversarial(small_network()), images(12, seed=4)
    against = cmpe.reference(problem, test)
    assert against.constrained.all()
    proved = cmpe.solve(problem, test, method="milp")
    np.testing.assert_allclose(against.solutions.objective, proved.objective)
    measured = cmpe.evaluate(cmpe.solve(problem, test, method="local"), against)
    assert measured.every.optimal == 1.0
    assert measured.every.regret.mean >= -1e-6
    assert measured.every.rows == measured.constrained.rows == proved.feasible.sum()


def test_a_neural_constraint_has_a_reference():
    torch.manual_seed(0)
    cards = (2, 3, 2)
    function = cmpe.NeuralFunction(torch.nn.Linear(4, 1), cards)
    h = cmpe.LogLinearModel.from_tables(cards, [((0, 1), np.eye(2, 3)), ((1, 2), np.eye(3, 2))])
    values = function.value(list(np.ndindex(*cards)))
    problem = Problem(h, (Constraint(function, float(np.median(values))),), (0,))
    against = cmpe.reference(problem, [[0], [1]])
    best = cmpe.solve(problem, [[0], [1]], method="exhaustive")
    np.testing.assert_allclose(against.solutions.objective, best.objective)
    free = cmpe.solve(cmpe.queries.mpe(h, (0,)), [[0], [1]], method="exact").assignments
    assert against.constrained.tolist() == (~problem.is_feasible(free)).tolist()
