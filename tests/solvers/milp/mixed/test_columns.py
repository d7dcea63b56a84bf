"""Columns and rows of functions without tables, at points where everything is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from cmpe.bounds.linearization import LinearProgram
from cmpe.solvers.milp.mixed.columns import (
    Affine,
    Columns,
    InputColumns,
    at_least,
    split_distance,
)
from tests.networks import random_network
from tests.problems import seeds


def a_box(count: int) -> Columns:
    """A program of `count` numbers in [0, 1] and no rows."""
    return Columns(
        LinearProgram(
            np.zeros(count), 0.0, csr_array((0, count)), np.zeros(0), np.zeros(0),
            np.zeros(count), np.ones(count), np.zeros(count, dtype=bool),
        )
    )  # fmt: skip


def kept(program: LinearProgram, point: np.ndarray) -> bool:
    sums = program.rows @ point
    rows = (sums >= program.lower - 1e-9) & (sums <= program.upper + 1e-9)
    columns = (point >= program.column_lower - 1e-9) & (point <= program.column_upper + 1e-9)
    return bool(rows.all() and columns.all())


def column(build: Columns, number: int) -> Affine:
    return Affine(np.zeros(1), build.pick([number]))


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_a_network_has_its_own_value_at_every_point(seed):
    sizes = [(3, 4, 2), (2, 1), (3, 4, 3, 1)][seed % 3]
    network, rng = random_network(seed, sizes), np.random.default_rng(seed)
    build, n = a_box(sizes[0]), sizes[0]
    inputs = InputColumns(np.zeros(n), np.arange(n), float(n))
    rows = rng.normal(size=(2, sizes[-1]))
    value = at_least(build, network, inputs, rows)
    program = build.program(Affine(value.constant[:1], value.matrix[:1]))
    for x in rng.random((5, n)):
        point = build.filled(x)
        assert kept(program, point)
        np.testing.assert_allclose(value.at(point), rows @ network.logits(x)[0], atol=1e-9)


def test_known_inputs_need_no_columns():
    network = random_network(0, (3, 4, 2))
    build, x = a_box(1), np.array([0.2, 0.5, 1.0])
    inputs = InputColumns(x, np.full(3, -1), 0.0)
    assert inputs.known
    value = at_least(build, network, inputs, np.eye(2))
    assert build.count == 1
    np.testing.assert_allclose(value.at(np.zeros(1)), network.logits(x)[0])


@pytest.mark.parametrize("exact", [True, False])
def test_a_distance_is_split_into_up_and_down(exact):
    build = a_box(2)
    difference = Affine(np.zeros(1), build.pick([0]) - build.pick([1]))
    value = split_distance(build, difference, np.array([2.0]), exact=exact)
    program = build.program(value)
    for x in ([0.25, 0.75], [1.0, 0.0], [0.5, 0.5]):
        point = build.filled(np.array(x))
        assert kept(program, point)
        assert value.at(point)[0] == pytest.approx(-2.0 * abs(x[0] - x[1]))
    assert program.integer.sum() == exact


def test_rows_without_columns_decide_at_once():
    build = a_box(1)
    nothing = Affine(np.array([2.0]), build.pick([-1]))
    build.require(nothing, -np.inf, 3.0)
    assert not build.impossible
    build.require(nothing, -np.inf, 1.0)
    assert build.impossible
    assert build.program(column(build, 0)).rows.shape[0] == 0


def test_new_columns_know_their_values():
    build = a_box(2)
    total = Affine(np.array([1.0]), build.pick([0]) + build.pick([1]))
    (new,) = build.add(np.zeros(1), np.full(1, 3.0), total.at)
    (switch,) = build.switches(1, lambda known: (known[[new]] > 2.0).astype(float))
    np.testing.assert_allclose(build.filled(np.array([0.5, 1.0])), [0.5, 1.0, 2.5, 1.0])
    program = build.program(column(build, int(switch)))
    assert program.integer.tolist() == [False, False, False, True]
    assert program.cost.tolist() == [0.0, 0.0, 0.0, 1.0]
