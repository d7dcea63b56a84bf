"""The program of one row: what evidence leaves of it, and points of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Constraint, Problem
from cmpe.solvers.base import Limits
from cmpe.solvers.milp import backend
from cmpe.solvers.milp.mixed.kinds import readable_functions
from cmpe.solvers.milp.mixed.program import SNAPPED, MixedProgram
from tests.problems import Shape, seeds
from tests.solvers.milp.mixed.test_mixed import mixed_problem


def row_of(problem: Problem, evidence) -> MixedProgram:
    instances = problem.given(evidence)
    return MixedProgram(problem, readable_functions(problem), instances.evidence[0])


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_every_feasible_assignment_is_a_point_of_the_loose_program(seed):
    problem, evidence = mixed_problem(seed, [2, 3, 2, 1, 2], [], Shape(zeros=False))
    row = row_of(problem, evidence[:1])
    if row.is_forbidden or not row.polytope.columns:
        return
    build, program = row.columns(1e-7)
    cards = np.array(problem.objective.cardinalities)[list(problem.free)]
    rng = np.random.default_rng(seed)
    instances = problem.given(evidence[:1])
    for values in rng.integers(0, cards, (20, len(cards))):
        full = instances.complete(values[np.newaxis])
        if not problem.is_feasible(full)[0]:
            continue
        assert program is not None
        point = build.filled(row.polytope.encode(values.tolist()))
        seen = [row.polytope.has(v) for v in problem.free]  # others are in no function
        np.testing.assert_array_equal(row.decode(point)[seen], values[seen])
        sums = program.rows @ point
        assert (sums >= program.lower - 1e-7).all()
        assert (sums <= program.upper + 1e-7).all()
        value = program.cost @ point + program.offset
        np.testing.assert_allclose(value, problem.objective.value(full)[0], atol=1e-7)


def test_values_near_an_end_are_moved_there():
    h = LogLinearModel((2, 2), (Factor((0, 1), np.eye(2)),))
    row = row_of(Problem(h, (), (1,), "", (0,)), [[1]])
    assert row.has_continuous
    (column,) = [column for _, column in row.free_continuous]
    point = np.zeros(row.polytope.columns)
    for z, expected in ((SNAPPED / 2, 0.0), (1 - SNAPPED / 2, 1.0), (0.25, 0.25)):
        point[column] = z
        assert row.decode(point).tolist() == [expected]


def test_evidence_alone_can_forbid_or_make_impossible():
    h = LogLinearModel((2, 2), (Factor((0,), np.array([-np.inf, 0.0])),))
    assert row_of(Problem(h, (), (0,)), [[0]]).is_forbidden
    assert not row_of(Problem(h, (), (0,)), [[1]]).is_forbidden
    t = LogLinearModel((2, 2), (Factor((0,), np.array([0.0, 3.0])),))
    limited = Problem(LogLinearModel((2, 2)), (Constraint(t, 1.0),), (0,))
    assert row_of(limited, [[1]]).columns(1e-7)[1] is None
    assert row_of(limited, [[0]]).columns(1e-7)[1] is not None


def test_a_known_optimum():
    h = LogLinearModel((2, 2), (Factor((0, 1), np.array([[0.0, 1.0], [5.0, 2.0]])),))
    t = LogLinearModel((2, 2), (Factor((0,), np.array([0.0, 3.0])),))
    row = row_of(Problem(h, (Constraint(t, 1.0),)), None)
    _, program = row.columns(1e-7)
    answer = backend("highs")(program, Limits(), None)
    assert row.decode(answer.columns).tolist() == [0, 1]
    np.testing.assert_allclose(answer.bound, 1.0, atol=1e-6)


def pair(*continuous: int) -> Problem:
    h = LogLinearModel((2, 2, 1), (Factor((0, 1), np.array([[0.0, 1.0], [2.0, 3.0]])),))
    return Problem(h, (), (), "", continuous)


def test_evidence_enters_as_numbers():
    """z0 = 0.25 weighs the two rows of the table; a variable of one value is known too."""
    row = row_of(pair(0).observing((0,)), [[0.25]])
    assert row.known == {0: 0.25, 2: 0.0}
    assert not row.has_continuous
    build, program = row.columns(0.0)
    assert program is not None
    assert build.count == 1  # of z1
    np.testing.assert_allclose(program.offset + program.cost, [1.5])
    np.testing.assert_allclose(program.offset, 0.5)


def test_entries_and_their_twins():
    """The twin of an entry has the other value of the variable in [0, 1]."""
    row = row_of(pair(0), None)
    start = len(row.tables[0]) - 4
    found = {(entry - start, twin - start) for entry, twin in row.weighed_entries()}
    assert found == {(0, 2), (1, 3), (2, 0), (3, 1)}
    assert not list(row_of(pair(), None).weighed_entries())


def test_indicators_select_what_an_assignment_has():
    row = row_of(pair(), None)
    start = len(row.tables[0]) - 4
    each = row.indicators([(start + k,) for k in range(4)])
    either = row.indicators([(start, start + 3)])
    for number, values in enumerate(np.ndindex(2, 2)):
        columns = row.polytope.encode(values)
        np.testing.assert_allclose(each.at(columns), np.eye(4)[number])
        np.testing.assert_allclose(either.at(columns), [float(number in (0, 3))])
        np.testing.assert_allclose(row.weighted(row.tables[0]).at(columns), [number])


def test_the_largest_finite_entries_add_up():
    tables = (Factor((0,), [-np.inf, -2.0]), Factor((0, 1), [[1.0, 5.0], [-np.inf, 0.0]]))
    row = row_of(Problem(LogLinearModel((2, 2), tables)), None)
    assert row.highest(row.tables[0]) == 0.0 + 5.0  # 0 in place of -inf


def test_what_a_network_reads():
    """z0 is known, z1 has three values and so two indicators, z2 is one number."""
    tables = (Factor((1,), np.zeros(3)), Factor((2,), np.zeros(2)))
    row = row_of(Problem(LogLinearModel((2, 3, 2), tables), (), (0,)), [[1]])
    inputs = row.inputs((0, 1, 2))
    assert inputs.numbers.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert inputs.columns[0] == -1
    assert inputs.reach == 2.0
    for values in np.ndindex(3, 2):
        columns = row.polytope.encode(values)
        expected = [values[0] == 1, values[0] == 2, values[1]]
        np.testing.assert_allclose(columns[inputs.columns[1:]], expected)
