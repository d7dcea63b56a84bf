"""Which variables are maximised out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.generation import grid
from cmpe.models.loglinear import LogLinearModel
from cmpe.solvers.wide.elimination import eliminate_small
from tests.problems import seeds


def test_a_tree_is_gone_and_a_complete_graph_stays():
    rng = np.random.default_rng(0)
    tree = [((v // 2, v), rng.normal(size=(3, 3))) for v in range(1, 9)]
    found = eliminate_small([LogLinearModel.from_tables([3] * 9, tree)])
    assert found.kept == ()
    assert found.lift(np.zeros(0, dtype=np.int32)).shape == (9,)
    pairs = [((u, v), rng.normal(size=(2, 2))) for v in range(5) for u in range(v)]
    found = eliminate_small([LogLinearModel.from_tables([2] * 5, pairs)])
    assert found.kept == (0, 1, 2, 3, 4)


def test_a_variable_inside_one_large_table_goes():
    rng = np.random.default_rng(1)
    tables = [((0, 1, 2, 3), rng.normal(size=(2, 2, 2, 2))), ((0, 1), rng.normal(size=(2, 2)))]
    assert eliminate_small([LogLinearModel.from_tables([2] * 4, tables)]).kept == ()


def test_nothing_is_done_after_the_deadline():
    assert len(eliminate_small([grid(3, 3, seed=0)], -np.inf).kept) == 9


def test_with_constraints_only_what_is_best_for_all_functions_goes():
    """Variable 2 is a function of 1; 3 counts in h alone; for 0 objective and limit disagree."""
    equal = np.where(np.eye(2) > 0, 0.0, -np.inf)
    h = LogLinearModel.from_tables(
        [2] * 4, [((0, 1), [[1.0, 0.0], [0.0, 2.0]]), ((1, 2), equal), ((1, 3), [[0, 1], [3, 2]])]
    )
    t = LogLinearModel.from_tables([2] * 4, [((0,), [0.0, 1.0]), ((2,), [0.0, 5.0])])
    found = eliminate_small([h, t])
    assert found.kept == (0, 2)
    for x in np.ndindex(2, 2):
        whole = found.lift(np.array(x, dtype=np.int32))
        assert whole.tolist() == [*x, x[1], 1 - x[1]]
        for own, function in zip(found.models, (h, t), strict=True):
            assert own.value(np.array([x]))[0] == function.value(whole)[0]


@settings(max_examples=200)
@given(seeds, st.integers(1, 6), st.integers(1, 6), st.booleans())
def test_functions_are_put_in_for_their_variables(seed, u, v, others):
    """Where variable 1 is a function of 0, its tables become tables of 0; none grows."""
    rng = np.random.default_rng(seed)
    hard = np.full((u, v), -np.inf)
    hard[np.arange(u), rng.integers(0, v, u)] = rng.normal(size=u)
    hard[rng.random((u, v)) < 0.1] = -np.inf  # some values of 0 have no weight
    tables = [((0, 1), hard) if seed % 2 else ((1, 0), hard.T)]
    scopes = [(1, 2), (1, 0), (2, 1, 3), (0, 2, 1), (1,), (2, 3), (0, 3)]
    cards = [u, v, 5, 4]
    tables += [(s, rng.normal(size=[cards[w] for w in s])) for s in scopes if rng.random() < 0.7]
    models = [LogLinearModel.from_tables(cards, tables)]
    if others:
        limited = [((1, 2), rng.normal(size=(v, 5))), ((1,), rng.normal(size=v))]
        models.append(LogLinearModel.from_tables(cards, limited))
    found = eliminate_small(models)
    left = np.array(list(np.ndindex(*found.models[0].cardinalities)), dtype=np.int32)
    every = np.array(list(np.ndindex(*cards)), dtype=np.int32)
    own = found.models[0].value(left)
    assert own.max() == pytest.approx(models[0].value(every).max())
    assert u > v or not {0, 1} <= set(found.kept)
    for values, h in zip(left, own, strict=True):
        if h > -np.inf:
            whole = found.lift(values)
            for small, model in zip(found.models, models, strict=True):
                assert small.value(values)[0] == pytest.approx(model.value(whole)[0])
