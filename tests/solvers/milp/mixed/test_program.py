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
    (column,) = [column for _, column in row._free_continuous]
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
