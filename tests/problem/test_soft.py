"""Soft evidence: every form of it, what it is worth, what is refused."""

import numpy as np
import pandas
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.errors import EvidenceError
from tests.problems import all_assignments, random_problem, seeds
from tests.refusals import refused

NAMES, STATES = ["rain", "wind"], [["no", "yes"], ["low", "mid", "high"]]
MODEL = LogLinearModel.from_tables(
    [2, 3], [((0, 1), np.arange(6.0).reshape(2, 3))], names=NAMES, states=STATES
)
PROBLEM = Problem(MODEL)
FORBIDS = [1.0, 0.5, 0.0]  # not high


def objectives(evidence, **options):
    return cmpe.solve(PROBLEM, evidence, **options).objective.tolist()


EACH = {
    "list": {"wind": FORBIDS},
    "tuple": {"wind": tuple(FORBIDS)},
    "array": {"wind": np.array(FORBIDS)},
    "by state": {"wind": {"low": 1.0, "high": 0.0, "mid": 0.5}},
    "by number": {1: FORBIDS},
    "one row": [{"wind": FORBIDS}],
    "rows": {"wind": [FORBIDS]},
    "matrix": {"wind": np.array([FORBIDS])},
    "cells": pandas.DataFrame({"wind": [FORBIDS]}),
    "columns": pandas.DataFrame({"wind=low": [1.0], "wind=mid": [0.5], "wind=high": [0.0]}),
}


@pytest.mark.parametrize("name", EACH)
def test_every_form_says_the_same(name):
    found = cmpe.solve(PROBLEM, EACH[name])
    assert found.objective[0] == pytest.approx(4.0 + np.log(0.5))
    assert dict(found[0]) == {"rain": "yes", "wind": "mid"}
    assert not found.observed.any()


def test_names_of_columns_may_contain_equals_signs():
    names, states = ["a=b", "c"], [["x=y", "z"], ["=", "d"]]
    tables = [((0,), [0.0, 1.0]), ((1,), [0.0, 1.0])]
    problem = Problem(LogLinearModel.from_tables([2, 2], tables, names=names, states=states))
    frame = pandas.DataFrame({"a=b=x=y": [1.0], "a=b=z": [0.0], "c==": [0.5], "c=d": [0.0]})
    found = cmpe.solve(problem, frame)
    assert dict(found[0]) == {"a=b": "x=y", "c": "="}
    assert found.objective[0] == pytest.approx(np.log(0.5))


def test_it_stands_beside_hard_evidence():
    assert objectives({"rain": "no", "wind": FORBIDS}) == pytest.approx([1.0 + np.log(0.5)])
    assert objectives([{"rain": "no", "wind": FORBIDS}, {"wind": "high"}, {}]) == pytest.approx(
        [1.0 + np.log(0.5), 5.0, 5.0]
    )
    frame = pandas.DataFrame(
        {"rain": ["no", None], "wind=low": [1, np.nan], "wind=mid": [0.5, np.nan],
         "wind=high": [0, np.nan]}
    )  # fmt: skip
    assert objectives(frame) == pytest.approx([1.0 + np.log(0.5), 5.0])
    more = {"wind": [[0.0, 0.0, -9.0]]}
    assert objectives({"wind": [0.5, 0.5, 1.0]}, potentials=more) == pytest.approx(
        [4.0 + np.log(0.5)]
    )


def test_states_per_row_are_read_as_before():
    assert objectives({"wind": ["low", "mid", "high"]}) == [3.0, 4.0, 5.0]
    assert objectives({"wind": [0, 1, 2]}) == [3.0, 4.0, 5.0]
    assert objectives({"wind": np.array([0.0, 1.0, np.nan])}) == [3.0, 4.0, 5.0]


@pytest.mark.parametrize("kind", [list, np.array, pandas.Series])
def test_what_may_be_states_or_likelihoods_is_refused(kind):
    message = "variable 'wind': states must be whole numbers or names, likelihoods a mapping"
    both = {"wind": kind([0.0, 0.0, 1.0])}
    assert message in refused(lambda: cmpe.solve(PROBLEM, both), kind=EvidenceError)
    assert objectives([{"wind": [0.0, 0.0, 1.0]}]) == [5.0]
    assert objectives({"wind": {0: 0.0, 1: 0.0, 2: 1.0}}) == [5.0]


@settings(max_examples=60)
@given(seeds)
def test_against_enumeration(seed):
    problem, _ = random_problem(seed)
    problem = problem.observing(())
    rng = np.random.default_rng([seed, 2])
    cards = problem.objective.cardinalities
    every = all_assignments(cards)
    rows, best = [], []
    for _ in range(3):
        worth = problem.objective.value(every)
        good = problem.is_feasible(every)
        row = {}
        for v, k in enumerate(cards):
            kind = rng.integers(0, 4)
            if kind == 0:
                row[v] = int(rng.integers(0, k))
                good &= every[:, v] == row[v]
            elif kind < 3:
                likelihood = np.where(rng.random(k) < 0.3, 0.0, rng.random(k))
                likelihood[rng.integers(0, k)] = 0.5
                row[v] = likelihood.tolist() if kind == 1 else dict(enumerate(likelihood))
                with np.errstate(divide="ignore"):
                    worth = worth + np.log(likelihood)[every[:, v]]
        rows.append(row)
        best.append(worth[good].max(initial=-np.inf))
    found = cmpe.solve(problem, rows)
    told = np.where(found.feasible, found.objective, -np.inf)
    np.testing.assert_allclose(told, best, atol=1e-9)
    assert (found.bound >= np.array(best) - 1e-9).all()


WRONG = {
    "zeros": ({"wind": {"low": 0, "mid": 0, "high": 0}}, "found only zeros"),
    "negative": ({"wind": [0.5, -0.5, 1.0]}, "must be at least 0, found -0.5"),
    "nan": ({"wind": [0.5, np.nan, 1.0]}, "must be at least 0, found nan"),
    "length": ([{"wind": [0.5, 0.5]}], "row 0, variable 'wind': likelihoods must be 3 numbers"),
    "state": ({"wind": {"low": 1, "mid": 1, "strong": 1}}, "has no state 'strong'"),
    "missing": ({"wind": {"low": 1, "mid": 1}}, "for every state; found none for 'high'"),
    "twice": ({"wind": {"low": 1, "mid": 1, "high": 1, 0: 1}}, "'low' has two likelihoods"),
    "text": ([{"wind": ["low", "mid", "high"]}], "likelihoods must be numbers"),
    "column": (
        pandas.DataFrame({"wind=low": [1.0], "wind=mid": [0.5]}),
        "need a column for every state; found none for 'high'",
    ),
    "no state": (pandas.DataFrame({"wind=strong": [1.0]}), "column 'wind=strong': "),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_said_by_name(name):
    evidence, message = WRONG[name]
    refused(lambda: cmpe.solve(PROBLEM, evidence), message, EvidenceError)
