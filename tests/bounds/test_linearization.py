import itertools

import numpy as np
import pytest
from hypothesis import given

from cmpe.bounds.linearization import LocalPolytope
from tests.problems import random_problem, seeds


@given(seeds)
def test_every_assignment_is_a_point_with_its_own_value(seed):
    """encode -> inside the polytope; cost -> h; constraint rows -> t; decode -> the assignment."""
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence[:1])
    structure = instances.conditioning
    polytope = LocalPolytope(structure)
    objective = instances.tables(0)[0]
    if not np.isfinite(objective[0]):
        return
    tables = [instances.tables(1 + j)[0] for j in range(len(problem.constraints))]
    program = polytope.program(objective, tables, problem.limits.tolist())
    cards = problem.objective.cardinalities
    for values in itertools.product(*(range(cards[v]) for v in structure.free)):
        point = polytope.encode(values)
        mentioned = [i for i, v in enumerate(structure.free) if polytope.has(v)]
        assert [polytope.decode(point)[i] for i in mentioned] == [values[i] for i in mentioned]
        full = instances.complete([values])
        inside = _inside(program, point, len(problem.constraints))
        h = problem.objective.value(full)[0]
        assert inside == np.isfinite(h)
        if inside:
            assert program.cost @ point + program.offset == pytest.approx(h)
            satisfied = program.rows @ point <= program.upper + 1e-9
            expected = problem.violations(full)[0] <= 1e-9
            count = len(problem.constraints)
            np.testing.assert_array_equal(satisfied[len(satisfied) - count :], expected)
        coefficients, at_most = polytope.no_good(values)
        for others in itertools.islice(
            itertools.product(*(range(cards[v]) for v in structure.free)), 30
        ):
            same = [others[i] for i in mentioned] == [values[i] for i in mentioned]
            assert (coefficients @ polytope.encode(others) > at_most + 1e-9) == same


def _inside(program, point, constraints):
    rows = len(program.lower) - constraints
    values = program.rows @ point
    return bool(
        (values[:rows] >= program.lower[:rows] - 1e-9).all()
        and (values[:rows] <= program.upper[:rows] + 1e-9).all()
        and (point >= program.column_lower - 1e-9).all()
        and (point <= program.column_upper + 1e-9).all()
    )
