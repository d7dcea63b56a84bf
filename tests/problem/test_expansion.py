"""Rules of many variables as tables: the same objective, on the user's variables."""

import numpy as np
import pytest
from benchmarks.campaign.rules import random_rule, worth
from hypothesis import given
from hypothesis import strategies as st

import cmpe
from cmpe.elimination import rules as elimination_rules
from cmpe.errors import TooLarge
from cmpe.models import ruled
from cmpe.problem import Form, Problem
from cmpe.problem.expansion import expanded
from tests.problems import Shape, all_assignments, random_model


@given(st.integers(0, 2**32 - 1))
def test_each_assignment_has_one_completion_of_its_value(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(2, 6)))]
    base = random_model(rng, cards, Shape())
    made = [random_rule(rng, cards) for _ in range(int(rng.integers(1, 3)))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ruled, "SMALL_TABLE", 0)
        problem = Problem(base, [cmpe.count({0: 0}) <= 1, *(rule for rule, _ in made)])
    assert problem.form is Form.RULES
    rows = all_assignments(cards)
    expected = base.value(rows) + sum(worth(rule, holds, rows) for rule, holds in made)
    np.testing.assert_allclose(problem.objective.value(rows), expected)
    observed = [int(v) for v in np.flatnonzero(rng.random(len(cards)) < 0.3)]
    inner = expanded(problem, observed)
    assert expanded(problem, observed) is inner
    wide = all_assignments(inner.problem.objective.cardinalities)
    if len(wide) <= 100_000:
        values = inner.problem.objective.value(wide)
        where = {tuple(row): i for i, row in enumerate(rows.tolist())}
        best = np.full(len(rows), -np.inf)
        times = np.zeros(len(rows), dtype=int)
        for row, value in zip(wide[:, : len(cards)].tolist(), values, strict=True):
            best[where[tuple(row)]] = max(best[where[tuple(row)]], value)
            times[where[tuple(row)]] += value > -np.inf
        np.testing.assert_allclose(best, expected)
        assert times.max() <= 1
    whole = inner.tabled.completed(rows)
    finite = np.isfinite(expected)
    np.testing.assert_allclose(inner.problem.objective.value(whole[finite]), expected[finite])


def test_a_rule_of_many_variables_makes_no_large_table():
    n = 300
    rng = np.random.default_rng(0)
    h = cmpe.LogLinearModel.from_tables(
        [2] * n, [((i, i + 1), rng.normal(size=(2, 2))) for i in range(n - 1)]
    )
    problem = Problem(h, [cmpe.exactly_one(dict.fromkeys(range(n), 1))])
    inner = expanded(problem)
    assert max(f.log_table.size for f in inner.problem.models[0].factors) <= 27
    assert inner.problem.plan.width <= 6
    answer = cmpe.solve(problem)
    rows = np.eye(n, dtype=int)
    assert answer.labels == ["optimal"]
    assert answer.objective[0] == pytest.approx(h.value(rows).max())


def test_a_list_that_is_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(
        elimination_rules, "ELIMINATION", elimination_rules.ELIMINATION._replace(rule_entries=50)
    )
    rows = np.random.default_rng(0).integers(0, 3, (40, 8))
    model = cmpe.LogLinearModel.from_tables([3] * 8, [])
    problem = Problem(model, [cmpe.allowed(range(8), rows)])
    with pytest.raises(TooLarge, match="split it into rules of fewer variables or rows"):
        cmpe.solve(problem)
