import time

import numpy as np
from hypothesis import given

from cmpe.bounds.base import (
    PADDING,
    Bounds,
    Work,
    clock,
    least_objective,
    loosened_limits,
    over_chunks,
    row_tables,
)
from cmpe.bounds.settings import SETTINGS
from tests.problems import random_problem, seeds, worked_example


def test_the_least_objective_ignores_zeros_and_missing_tables():
    offsets = np.array([0, 1, 3])
    rows = np.array([[2.0, -np.inf, -1.0], [2.0, -np.inf, -np.inf]])
    np.testing.assert_allclose(least_objective(rows, offsets), [1, -np.inf], atol=1e-5)


def test_slices_add_up_to_the_steps_and_hear_the_clock():
    assert sum(Work(steps=150).slices(clock())) == 150
    assert sum(Work().slices(clock())) == 300
    assert list(Work(time_limit=0.0).slices(clock())) == [1]
    begin = clock()
    for _ in Work(time_limit=0.05).slices(begin):
        time.sleep(0)
    assert clock() - begin < 0.5


@given(seed=seeds)
def test_tables_of_a_row_bound_the_constraints(seed):
    """Where t is -inf the replacement satisfies the constraint, whatever else is chosen."""
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    limits, offsets = loosened_limits(instances), instances.conditioning.layout.offsets
    for at, found in enumerate(row_tables(instances, slice(0, len(instances)))):
        assert np.isfinite(found.t).all()
        assert (found.units > 0).all()
        for j, limit in enumerate(limits):
            raw = instances.tables(1 + j)[at]
            np.testing.assert_array_equal(found.t[j][np.isfinite(raw)], raw[np.isfinite(raw)])
            most = np.maximum.reduceat(found.t[j], offsets[:-1])
            for entry in np.flatnonzero(np.isneginf(raw)):
                table = np.searchsorted(offsets, entry, side="right") - 1
                assert most.sum() - most[table] + found.t[j][entry] <= limit


def test_limits_leave_room_for_rounding():
    instances = worked_example().given([[1, 1]])
    (constraint,) = instances.problem.constraints
    assert loosened_limits(instances)[0] == constraint.loosened(PADDING)
    assert constraint.loosened(PADDING) > constraint.at_most + constraint.tolerance


def test_every_row_is_in_one_chunk():
    instances = worked_example().given(np.zeros((2 * SETTINGS.chunk + 3, 2), dtype=int))
    seen: list[slice] = []
    over_chunks(instances, seen.append, threads=1)
    assert [(s.start, s.stop) for s in seen] == [(0, 64), (64, 128), (128, 131)]


def test_nothing_is_proved_at_first():
    empty = Bounds.empty(2, 3)
    assert empty.upper.tolist() == [np.inf, np.inf]
    assert empty.multipliers.shape == (2, 3)
    assert not empty.infeasible.any()
