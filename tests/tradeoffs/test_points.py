"""Assignments by number, and what dominates within the tolerances."""

import numpy as np

from cmpe.tradeoffs.points import JoinedPoints, ListedPoints, NodePoints, undominated


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
