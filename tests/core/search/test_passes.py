"""A pass by itself: what is fetched, eliminated and decoded, with any number of inputs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import cmpe
from cmpe.core.search import loop
from cmpe.core.search.lanes import MOST_INPUTS
from tests.core.search.cases import KINDS, Searching


@pytest.mark.parametrize("arms", range(1, MOST_INPUTS + 3))
@pytest.mark.parametrize("values", [2, 3])
def test_the_centre_of_a_star_has_an_input_for_each_arm(arms, values):
    rng = np.random.default_rng(arms)
    scopes = [(0, v) for v in range(1, arms + 1)]
    tables = [(scope, rng.normal(size=(values, 2))) for scope in scopes]
    tables.append(((0,), rng.normal(size=values)))
    model = cmpe.LogLinearModel.from_tables([values, *[2] * arms], tables)
    case = Searching(cmpe.Problem(model), np.zeros((1, 0), dtype=int), rng)
    whole = int(np.argmax(case.pool.members[:, 1] - case.pool.members[:, 0]))
    assert len(case.variables(whole)) == arms + 1
    case.work(loop.BEGIN, values=case.lanes_of(np.zeros((1, arms + 1), dtype=np.int32)))
    case.work(loop.RUN, np.array([whole]))
    best = max(
        tables[-1][1][a] + sum(table[a].max() for _, table in tables[:-1]) for a in range(values)
    )
    assert np.isclose(case.state.totals[0, 0], best, atol=1e-4)
    z = case.state.z[:, 0]
    reached = sum(table[tuple(z[list(scope)])] for scope, table in tables)
    assert np.isclose(reached, best, atol=1e-4)


@pytest.mark.parametrize("arity", [3, 4])
def test_tables_of_several_variables_are_folded_and_fetched(arity):
    rng = np.random.default_rng(arity)
    cards = [2, 3, 2, 3, 2][: arity + 1]
    scopes = [tuple(range(arity)), tuple(range(1, arity + 1)), *((v,) for v in range(arity + 1))]
    tables = [(scope, rng.normal(size=[cards[v] for v in scope])) for scope in scopes]
    problem = cmpe.Problem(cmpe.LogLinearModel.from_tables(cards, tables))
    for m in range(sum(kind.number for kind in KINDS[:2])):
        case = Searching(problem, np.zeros((1, 0), dtype=int), rng)
        moved = case.variables(m)
        start = np.array([[rng.integers(k) for k in cards]], dtype=np.int32)
        case.work(loop.BEGIN, values=case.lanes_of(start))
        case.work(loop.RUN, np.array([m]))
        choices = list(itertools.product(*(range(cards[v]) for v in moved)))
        rows = np.repeat(start, len(choices), axis=0)
        rows[:, moved] = choices
        best = case.channels(0, rows)[0][:, 0].max()
        assert np.isclose(case.state.totals[0, 0], best, atol=1e-4)
