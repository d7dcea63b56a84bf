"""Columns and rows of functions without tables, at points where everything is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.sparse import csr_array

from cmpe.bounds.linearization import LinearProgram
from cmpe.solvers.base import Limits
from cmpe.solvers.milp.highs import maximise
from cmpe.solvers.milp.mixed.columns import (
    Affine,
    Columns,
    InputColumns,
    at_least,
    split_distance,
)
from tests.networks import random_network
from tests.problems import all_assignments, seeds


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


def best(build: Columns, value: Affine, fixed: np.ndarray, sign: float) -> float:
    """The largest value, or with sign -1 the smallest, where the box's own columns are fixed."""
    build.require(Affine(np.zeros(len(fixed)), build.pick(range(len(fixed)))), fixed, fixed)
    found = maximise(build.program(value.through(np.array([[sign]]))), Limits(), None)
    assert not found.infeasible
    return sign * found.bound


@pytest.mark.parametrize("seed", range(3))
def test_sums_of_logits_are_never_smaller_than_they_are(seed):
    """The program may add to them, but its least value at a corner is the network's."""
    network, rows = random_network(seed, (3, 4, 2)), np.array([[1.0, -1.0]])
    for corner in all_assignments([2, 2, 2]).astype(np.float64):
        build = a_box(3)
        value = at_least(build, network, InputColumns(np.zeros(3), np.arange(3), 3.0), rows)
        exact = float(rows[0] @ network.logits(corner)[0])
        assert best(build, value, corner, -1.0) == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("z", "w"), [(0.0, 1.0), (0.75, 0.25), (0.5, 0.5), (1.0, 0.0)])
@pytest.mark.parametrize("exact", [True, False])
def test_a_distance_can_only_grow_and_not_even_that_where_it_is_exact(z, w, exact):
    found = []
    for sign in (1.0, -1.0):
        build = a_box(2)
        difference = Affine(np.zeros(1), build.pick([0]) - build.pick([1]))
        value = split_distance(build, difference, np.array([2.0]), exact=exact)
        found.append(best(build, value, np.array([z, w]), sign))
    assert found[0] == pytest.approx(-2.0 * abs(z - w), abs=1e-6)
    least = -2.0 * abs(z - w) if exact else -2.0 * (2.0 - abs(z - w))
    assert found[1] == pytest.approx(least, abs=1e-6)


def test_what_the_first_layer_sees_of_free_inputs():
    network = random_network(3, (3, 4, 2))
    some = InputColumns(np.array([0.0, 1.0, 0.0]), np.array([4, -1, 7]), 2.0)
    assert not some.known
    moves = some.moves(network)
    np.testing.assert_allclose(moves.values[0], network.weights[0][:, 1] + network.biases[0])
    np.testing.assert_array_equal(moves.slopes, network.weights[0][:, [0, 2]])
    assert (moves.caps.tolist(), moves.radius.tolist()) == ([[1.0, 1.0]], [2.0])
