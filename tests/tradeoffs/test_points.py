"""Assignments by number, and what dominates within the tolerances."""

import numpy as np
import pytest

from cmpe.generation import grid
from cmpe.tradeoffs.points import (
    EvaluatedTables,
    JoinedPoints,
    ListedPoints,
    NodePoints,
    undominated,
)


def kept(h, t):
    return undominated(np.array(h, dtype=float), np.array(t, dtype=float)).tolist()


def test_undominated_by_rising_t():
    assert kept([1, 3, 2, 2], [0, 2, 1, 1.5]) == [0, 2, 1]
    assert kept([], []) == []
    assert kept([1, 2], [-np.inf, -np.inf]) == [1]


def test_values_within_the_tolerances_are_equal():
    assert kept([1.0, 2.0], [5.0, 5.0 + 1e-7]) == [1]
    assert kept([1.0, 1.0 + 1e-7], [5.0, 6.0]) == [0]
    assert kept([1.0, 2.0, 3.0], [5.0, 5.0 + 1e-7, 7.0]) == [1, 2]


def test_nodes_are_read_back():
    nodes = np.array([[-2, -1], [-1, -2], [-3, -2], [0, 1], [0, 2]], dtype=np.int32)
    points = NodePoints(
        np.array([7, 0, 0], dtype=np.int32), np.array([1, 2]), nodes, np.array([3, 4])
    )
    assert points.assignments(np.array([1, 0])).tolist() == [[7, 1, 2], [7, 1, 0]]


def test_points_of_several_kinds():
    some, others = ListedPoints(np.array([[0], [1]])), ListedPoints(np.array([[2]]))
    whole = JoinedPoints.of([(some, 2), (others, 1)])
    assert whole.assignments(np.array([2, 0, 1])).tolist() == [[2], [0], [1]]
    assert JoinedPoints.of([]).assignments(np.zeros(0, dtype=int)).shape == (0, 0)


@pytest.mark.parametrize("components", [1, 6])
def test_values_of_nodes_are_those_of_the_functions(components):
    """Of variables that no table joins, a component each or all together."""
    rng = np.random.default_rng(5)
    model = grid(4, 5, seed=3)
    functions = [model, model.perturb(0.3, 1), model.perturb(2.0, 2)]
    begun = rng.integers(0, 2, 20).astype(np.int32)
    free = np.array([3, 0, 9, 12, 19, 6])
    nodes = [[-1 - value, -1 - k] for k in range(6) for value in range(2)]
    roots = []
    for _ in range(150):
        whole = int(rng.integers(2))
        for k in range(1, 6):
            nodes.append([whole, 2 * k + int(rng.integers(2))])
            whole = len(nodes) - 1
        roots.append(whole)
    points = NodePoints(begun, free, np.array(nodes, dtype=np.int32), np.array(roots))
    rows = points.assignments(np.arange(150))
    assert (np.delete(rows, free, axis=1) == np.delete(begun, free)).all()
    assert len(np.unique(rows, axis=0)) > 40
    values = points.values(EvaluatedTables.of(functions), np.arange(6) % components)
    whole = np.stack([f.value(rows) for f in functions], axis=1)
    np.testing.assert_allclose(values, whole, rtol=1e-13, atol=1e-13)


def test_nodes_of_many_leaves():
    """More than a run holds."""
    count = 70
    nodes = [[-1 - k % 2, -1 - k] for k in range(count)]
    nodes += [[0, 1]] + [[count + k - 2, k] for k in range(2, count)]
    points = NodePoints(
        np.zeros(count, dtype=np.int32), np.arange(count), np.array(nodes, dtype=np.int32),
        np.array([len(nodes) - 1]),
    )  # fmt: skip
    assert points.assignments(np.array([0])).tolist() == [[k % 2 for k in range(count)]]
