"""Moves, tables and limits as compiled code sees them, against the problem itself."""

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import Constraint, LogLinearModel, Problem
from cmpe.solvers.local.graph import Graph, Rules, joined, mean_spread, starts_of
from tests.problems import Shape, random_problem, seeds

SHAPE = Shape(variables=6, values=3, arity=3, factors=8, constraints=2)


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


@settings(max_examples=50)
@given(seeds)
def test_one_gather_holds_what_evidence_leaves_of_all_functions(seed):
    from cmpe.models.kernels import condition

    problem, evidence = random_problem(seed, SHAPE)
    instances = problem.given(evidence)
    gather = joined(problem.conditioning)
    entries = len(problem.conditioning.layout.values)
    out = np.empty((len(problem.functions) * entries, len(evidence)))
    rows = np.ascontiguousarray(instances.evidence.T, dtype=np.int64)
    condition(rows, gather, out)
    each = [instances.tables(k).T for k in range(len(problem.functions))]
    np.testing.assert_array_equal(out, np.concatenate(each))


def test_rules_are_a_hair_inside_the_tolerance():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    t = LogLinearModel.from_tables([2], [((0,), [-np.inf, 4.0])])
    rules = Rules.of(Problem(h, (Constraint(t, 10.0), Constraint(h, 0.5))))
    assert rules.limits == pytest.approx([10.0 + 1e-5, 0.5 + 1e-6], rel=1e-8)
    assert (rules.limits < [10.0 + 1e-5, 0.5 + 1e-6]).all()
    assert rules.zeros.tolist() == [-1, 3, -1]  # only the first constraint has an entry of -inf
    assert rules.weights.tolist() == [1.0, 1.0]
    assert np.isposinf(rules.unlimited().limits).all()


def test_spread_is_of_finite_entries():
    model = LogLinearModel.from_tables(
        [2, 2], [((0,), [-np.inf, 3.0]), ((0, 1), [[0.0, 2.0], [4.0, -np.inf]])]
    )
    assert mean_spread(model) == 2.0  # 0 and 4
    assert mean_spread(LogLinearModel((2, 2))) == 1.0
    assert starts_of([2, 0, 3]).tolist() == [0, 2, 2, 5]
