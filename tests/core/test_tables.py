"""Values of tables, and what evidence leaves of them, against numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe import Instances
from cmpe.core import tables
from cmpe.core.compiler.functions import njit
from cmpe.core.elimination import complete, eliminate_max, totals
from tests.core.enumerated import EnumeratedRows
from tests.problems import all_assignments, completions, random_problem

seeds = st.integers(0, 2**32 - 1)


def plain_value(model, z):
    return sum(float(f.log_table[tuple(z[v] for v in f.scope)]) for f in model.factors)


@given(seeds)
@settings(max_examples=80, deadline=None)
def test_values_are_sums_of_entries(seed):
    problem, _ = random_problem(seed)
    model = problem.objective
    z, flat = all_assignments(model.cardinalities).astype(np.int64), model.flat
    out = np.zeros(len(z))
    cards = np.array(model.cardinalities, dtype=np.int64)
    bad = tables.evaluate(
        z, flat.values, flat.offsets, flat.starts, flat.variables, flat.strides, cards, out
    )
    assert bad == -1
    assert np.allclose(out, [plain_value(model, row) for row in z], atol=1e-12)
    z[-1, 0] = cards[0]
    bad = tables.evaluate(
        z, flat.values, flat.offsets, flat.starts, flat.variables, flat.strides, cards, out
    )
    assert bad == (len(z) - 1) * len(cards)


@given(seeds)
@settings(max_examples=80, deadline=None)
def test_conditioned_tables_add_up_to_the_model(seed):
    problem, rows = random_problem(seed)
    instances = Instances(problem, rows)
    structure = instances.conditioning
    out = np.zeros((len(structure.layout.values), len(instances)))
    evidence = np.ascontiguousarray(instances.evidence.T, dtype=np.int64)
    tables.condition(evidence, structure.gathers[0], out)
    for row in range(len(instances)):
        for z in completions(instances, row):
            total = 0.0
            for f, scope in enumerate(structure.scopes):
                shape = [problem.objective.cardinalities[v] for v in scope]
                first, end = structure.layout.offsets[f : f + 2]
                entry = out[first:end, row].reshape(shape)[tuple(z[v] for v in scope)]
                total += float(entry)
            value = plain_value(problem.objective, z)
            assert total == value or abs(total - value) <= 1e-9


@njit(cache=False)
def maximise(plan, values, carried, total, carry, choice, sums):
    h = values[: plan.entries].copy()
    eliminate_max(plan, values, carried, total, carry)
    complete(plan, values, choice)
    totals(plan, h, choice, sums)


@given(seeds)
@settings(max_examples=80, deadline=None)
def test_elimination_finds_a_maximiser_and_carries_its_sum(seed):
    case = EnumeratedRows(seed)
    plan, count = case.rows.plan, case.count
    values, carried = np.zeros((2, plan.total, count))
    every = slice(0, count)
    values[: plan.entries] = case.instances.tables(0, every).T
    finite = case.problem.constraints and case.problem.constraints[0].function.is_finite
    if finite:
        carried[: plan.entries] = case.instances.tables(1, every).T
    total, carry, sums = np.zeros((3, count))
    choice = np.full((len(plan.buckets), count), -1)
    maximise(plan, values, carried, total, carry, choice, sums)
    for row in range(count):
        _, h, t = case.values(row)
        assert total[row] == h.max() or abs(total[row] - h.max()) <= 1e-9
        if total[row] > -np.inf:
            assert abs(sums[row] - total[row]) <= 1e-9
            if finite:
                ties = t[h >= total[row] - 1e-9, 0]
                assert abs(ties - carry[row]).min() <= 1e-9
