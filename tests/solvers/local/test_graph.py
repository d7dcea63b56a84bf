"""A problem as arrays for compiled moves, checked against the problem by hand and at random."""

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.core.tables import condition
from cmpe.solvers.local.graph import (
    LEAST_GAIN,
    PADDING,
    Graph,
    Rules,
    joined,
    mean_spread,
    starts_of,
)
from tests.problems import Shape, random_problem, seeds, worked_example

SHAPE = Shape(variables=6, values=3, arity=3, factors=8, constraints=2)


def chain():
    """0 - 1 - 2 of 2, 3 and 2 values, with a table of 1 alone; 3 has one value."""
    return LogLinearModel.from_tables(
        [2, 3, 2, 1],
        [
            ((0, 1), np.zeros((2, 3))),
            ((1,), np.zeros(3)),
            ((2, 1), np.zeros((2, 3))),
            ((3,), np.zeros(1)),
        ],
    )


def test_slots_places_and_arcs_of_a_chain():
    structure = Problem(chain()).conditioning
    assert structure.scopes == ((), (1,), (0, 1), (1, 2))
    graph = Graph.of(structure)
    assert graph.free.tolist() == [0, 1, 2]
    assert graph.owner.tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert graph.offsets.tolist() == [0, 1, 4, 10, 16]
    # slots from, to; arcs from, to; places from, from where others share, to
    assert graph.variables.tolist() == [
        [0, 2, 0, 1, 0, 0, 1],
        [2, 5, 1, 3, 1, 2, 4],
        [5, 7, 3, 4, 4, 4, 5],
    ]
    assert graph.places.tolist() == [[2, 3], [1, 1], [2, 1], [3, 2], [3, 1]]
    assert graph.arcs.tolist() == [
        [2, 3, 1, 1, 2, 5],
        [2, 1, 3, 0, 0, 2],
        [3, 2, 1, 2, 5, 7],
        [3, 1, 2, 1, 2, 5],
    ]
    assert graph.is_simple


def test_two_variables_that_share_two_tables_are_not_simple():
    wide = LogLinearModel.from_tables(
        [2, 2, 2], [((0, 1), np.zeros((2, 2))), ((0, 1, 2), np.zeros((2, 2, 2)))]
    )
    assert not Graph.of(Problem(wide).conditioning).is_simple


def test_nothing_free():
    graph = Graph.of(worked_example().observing((0, 1, 2, 3)).conditioning)
    assert graph.free.shape == graph.owner.shape == (0,)
    assert graph.places.shape == (0, 2)
    assert graph.arcs.shape == (0, 6)
    assert graph.is_simple


@settings(max_examples=50)
@given(seeds)
def test_every_slot_belongs_to_one_value_of_a_free_variable(seed):
    problem, _ = random_problem(seed, SHAPE)
    structure = problem.conditioning
    graph = Graph.of(structure)
    cards = [structure.cardinalities[v] for v in structure.free]
    assert graph.free.tolist() == list(structure.free)
    assert np.bincount(graph.owner.astype(int), minlength=len(cards)).tolist() == cards
    first, end = graph.variables[:, 0], graph.variables[:, 1]
    assert (end - first).tolist() == cards


@settings(max_examples=50)
@given(seeds)
def test_arcs_join_the_variables_of_a_table_both_ways(seed):
    problem, _ = random_problem(seed, SHAPE)
    structure = problem.conditioning
    graph = Graph.of(structure)
    number = {v: i for i, v in enumerate(structure.free)}
    wanted = {
        (f, number[u], number[v])
        for f, scope in enumerate(structure.scopes)
        for u in scope
        for v in scope
        if u != v
    }
    found = {
        (int(arc[0]), i, int(arc[3]))
        for i, row in enumerate(graph.variables)
        for arc in graph.arcs[int(row[2]) : int(row[3])]
    }
    assert found == wanted
    touched = {
        (int(place[0]), i)
        for i, row in enumerate(graph.variables)
        for place in graph.places[int(row[4]) : int(row[6])]
    }
    assert touched == {(f, number[v]) for f, s in enumerate(structure.scopes) for v in s}


@given(seeds)
def test_places_lead_to_the_entries_that_an_assignment_selects(seed):
    """h from the tables: each entry is where the strides of the scope's variables lead."""
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    structure = instances.conditioning
    graph = Graph.of(structure)
    values = np.random.default_rng(seed).integers(
        0, [problem.objective.cardinalities[v] for v in structure.free]
    )
    at = graph.offsets[:-1].astype(int)
    for v, row in enumerate(graph.variables.astype(int)):
        for table, stride in graph.places[row[4] : row[6]].astype(int):
            at[table] += stride * values[v]
    for row in range(len(instances)):
        here = slice(row, row + 1)
        full = instances.complete(values[np.newaxis], here)
        found = instances.tables(0, here)[0][at].sum()
        assert found == pytest.approx(problem.objective.value(full)[0])


@given(seeds)
def test_one_gather_fills_the_tables_of_all_functions(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    structure = instances.conditioning
    lanes = np.ascontiguousarray(instances.evidence.T, dtype=np.int64)
    size = len(structure.layout.values)
    out = np.zeros((len(problem.functions) * size, len(instances)))
    condition(lanes, joined(structure), out)
    each = [instances.tables(k).T for k in range(len(problem.functions))]
    np.testing.assert_array_equal(out, np.concatenate(each))


def test_rules_stay_inside_the_tolerance():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, -np.inf])])
    finite = LogLinearModel.from_tables([2], [((0,), [0.0, 4.0])])
    zeros = LogLinearModel.from_tables([2], [((0,), [-np.inf, 4.0])])
    rules = Rules.of(Problem(h, (Constraint(finite, -10.0), Constraint(zeros, 0.5))))
    expected = [-10.0 + 10.0 * (1e-6 - PADDING), 0.5 + 1e-6 - PADDING]
    np.testing.assert_allclose(rules.limits, expected, rtol=1e-15)
    assert rules.weights.tolist() == [0.25, 1.0]
    assert rules.zeros.tolist() == [3, -1, 4]  # channels after those of the three functions
    assert rules.gain == LEAST_GAIN * 1000.0
    assert np.isposinf(rules.unlimited().limits).all()
    assert rules.unlimited().zeros is rules.zeros


def test_the_least_gain_grows_with_the_entries():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, -5e6])])
    rules = Rules.of(Problem(h))
    assert rules.gain == pytest.approx(5e-6)
    assert rules.limits.shape == rules.weights.shape == (0,)


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([], 1.0),
        ([[2.0, 2.0]], 1.0),  # no spread at all
        ([[0.0, 3.0], [1.0, 2.0]], 2.0),
        ([[0.0, -np.inf], [1.0, 5.0]], 2.0),  # -inf has no part in it
        ([[-np.inf, -np.inf]], 1.0),
    ],
)
def test_the_mean_spread_of_finite_entries(tables, expected):
    factors = tuple(Factor((0,), np.array(table)) for table in tables)
    assert mean_spread(LogLinearModel((2,), factors)) == expected


def test_where_lists_begin():
    assert starts_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
    assert starts_of([]).tolist() == [0]
