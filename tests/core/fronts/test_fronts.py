"""Fronts of single rows against enumeration, with their nodes read back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmpe.core.buckets import COMPONENT, VARIABLE
from cmpe.core.fronts.fronts import COMPLETE, IMPOSSIBLE, ROOT, front_row
from cmpe.core.fronts.lists import H, T
from cmpe.core.fronts.reading import recall
from cmpe.core.fronts.settings import FRONTS
from cmpe.core.fronts.trees import FrontRow, Window, make_front_space
from cmpe.core.fronts.values import one_of_equal, point_values
from cmpe.core.states import SUM_LIMIT
from cmpe.tradeoffs.points import EvaluatedTables
from tests.core.cases import examples
from tests.core.enumerated import EnumeratedRows
from tests.problems import Shape

seeds = st.integers(0, 2**32 - 1)


def front_of(case, window=(-np.inf, np.inf)):
    """The front of row 0 over its first t."""
    plan, count = case.rows.plan, len(case.limits)
    space = make_front_space(1 << 12, count, plan)
    space.states.counts[SUM_LIMIT] = 1 << 30
    rows, tables = slice(0, 1), case.instances.tables
    t = np.concatenate([tables(1 + j, rows) for j in range(count)])
    limits = case.limits.copy()
    limits[0] = np.inf
    finite = all(c.function.is_finite for c in case.problem.constraints[1:])
    row = FrontRow(
        plan, case.rows.offsets, tables(0, rows)[0].copy(), t, limits, finite, Window(*window),
        np.zeros((0, 2)),
    )  # fmt: skip
    return front_row(row, 64, 4, np.full((2, FRONTS.places), -1.0), space)


def expected(case, window=(-np.inf, np.inf)):
    """(h, t_1) of the assignments that no other dominates, by falling h."""
    _, h, t = case.values(0)
    good = (t[:, 1:] <= case.limits[1:]).all(axis=1) & (h > -np.inf) & (t[:, 0] > -np.inf)
    pairs = sorted(zip(h[good], t[good, 0], strict=True), key=lambda p: (-p[0], p[1]))
    front, least = [], np.inf
    for value, cost in pairs:
        if cost < least - 1e-9 and cost <= window[1]:
            front.append((value, cost))
            least = cost
            if cost <= window[0]:
                break
    return np.array(front).reshape(-1, 2)


@given(seeds)
@examples(150)
def test_a_front_is_that_of_enumeration(seed):
    case = EnumeratedRows(seed, Shape(variables=6, values=3, constraints=2))
    if len(case.limits) == 0:
        return
    found, wanted = front_of(case), expected(case)
    if found.kind == IMPOSSIBLE:
        assert len(wanted) == 0
        return
    if len(case.limits) == 1:  # with several, points must be known that bound the corners
        assert found.kind == COMPLETE
    points = found.points[:, : T + 1]
    assert (np.diff(points[:, H]) < 0).all()
    assert (np.diff(points[:, T]) < 0).all()
    if found.kind == COMPLETE:
        assert len(points) == len(wanted)
        assert np.allclose(points, wanted, atol=1e-8)


@given(seeds)
@examples(60)
def test_points_have_the_values_of_their_assignments(seed):
    case = EnumeratedRows(seed, Shape(variables=6, values=3, constraints=1))
    if len(case.limits) == 0:
        return
    found = front_of(case)
    if not len(found.points):
        return
    plan, roots = case.rows.plan, found.points[:, ROOT].astype(np.int64)
    variables = np.ascontiguousarray(plan.buckets[:, VARIABLE])
    components = np.ascontiguousarray(plan.buckets[:, COMPONENT])
    begun = case.instances.complete(np.zeros((case.count, len(case.problem.free))))[0]
    rows = np.zeros((len(roots), len(begun)), dtype=begun.dtype)
    recall(found.nodes, roots, variables, begun, rows)
    h, t = case.problem.objective.value(rows), case.problem.constraints[0].function.value(rows)
    values = np.zeros((len(roots), 2))
    models = [case.problem.objective, case.problem.constraints[0].function]
    tables = EvaluatedTables.of(models)
    point_values(found.nodes, roots, variables, components, begun, tables, values)
    assert np.allclose(values[:, 0], h, atol=1e-10)
    assert np.allclose(values[:, 1], t, atol=1e-10)
    assert np.allclose(found.points[:, H], h, atol=1e-8)


@given(seeds)
@examples(60)
def test_a_window_cuts_the_front(seed):
    case = EnumeratedRows(seed, Shape(variables=5, values=3, constraints=1))
    whole = expected(case) if len(case.limits) else np.zeros((0, 2))
    if len(whole) < 3:
        return
    low, high = whole[-2, 1] + 1e-7, whole[0, 1] - 1e-7
    found = front_of(case, (low, high))
    wanted = expected(case, (low, high))
    assert found.kind == COMPLETE
    assert np.allclose(found.points[:, : T + 1], wanted, atol=1e-8)


def test_equal_points_are_kept_once():
    h = np.array([3.0, 3.0 - 1e-12, 2.0, 5.0, 4.0])
    t = np.array([1.0, 1.0, 0.5, 9.0, 9.0 - 1e-12])
    assert one_of_equal(h, t, 1e-9, 1e-9).tolist() == [2, 0, 3]
