"""Which variables are maximised out."""

import numpy as np

from cmpe.generation import grid
from cmpe.models.loglinear import LogLinearModel
from cmpe.solvers.wide.elimination import eliminate_small


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
    assert found.kept == (0, 1)
    for x in np.ndindex(2, 2):
        whole = found.lift(np.array(x, dtype=np.int32))
        assert whole.tolist() == [*x, x[1], 1 - x[1]]
        for own, function in zip(found.models, (h, t), strict=True):
            assert own.value(np.array([x]))[0] == function.value(whole)[0]
