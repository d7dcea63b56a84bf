import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given

from cmpe import Problem
from cmpe.models.conditioning import Conditioning
from cmpe.models.flat import FlatTables
from tests.problems import random_problem, seeds


@given(seeds)
def test_conditioned_tables_add_up_to_the_function(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    structure = instances.conditioning
    assert structure.scopes[0] == ()
    assert len(set(structure.scopes)) == len(structure.scopes)
    cards = problem.objective.cardinalities
    free_values = np.array(list(itertools.product(*(range(cards[v]) for v in structure.free))))
    for which, function in enumerate(problem.functions):
        tables = instances.tables(which)
        for row in range(len(instances)):
            one = problem.given(evidence[row : row + 1].repeat(len(free_values), axis=0))
            full = one.complete(free_values)
            layout = structure.layout
            flat = FlatTables(
                layout.cardinalities,
                tables[row],
                layout.offsets,
                layout.starts,
                layout.variables,
                layout.strides,
            )
            np.testing.assert_allclose(flat.evaluate(full), function.value(full), atol=1e-12)


def test_a_structure_serves_models_of_equal_scopes():
    one, rows = random_problem(3)
    shifted = [replace(f, log_table=f.log_table + 1.0) for f in one.objective.factors]
    other = Problem(
        replace(one.objective, factors=tuple(shifted)), one.constraints, one.evidence_variables
    )
    structure = one.given(rows).conditioning.with_values()
    for problem in (one, other):
        fresh = Conditioning(problem.models, problem.evidence_variables)
        found = structure.with_values(problem.models)
        for which in range(len(problem.models)):
            given = problem.given(rows).evidence
            np.testing.assert_array_equal(found.tables(which, given), fresh.tables(which, given))
        np.testing.assert_array_equal(found.every.gather.values, fresh.every.gather.values)
