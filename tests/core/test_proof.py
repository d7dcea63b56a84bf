"""Proofs against enumeration: statuses, optima, bounds; and losses against their definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmpe.core import proof
from cmpe.core.compiler.functions import njit
from cmpe.core.dual import INFEASIBLE
from cmpe.core.elimination import eliminate_max
from cmpe.solvers.exact import make_results
from tests.core.cases import examples
from tests.core.enumerated import EnumeratedRows
from tests.problems import Shape, completions

seeds = st.integers(0, 2**32 - 1)


@given(seeds, st.sampled_from([1, 2, 3]))
@examples(200)
def test_rows_are_proved(seed, constraints):
    case = EnumeratedRows(seed, Shape(variables=6, values=3, constraints=constraints))
    found = make_results(case.instances)
    proof.prove_rows(case.rows, 1 << 12, 40, found)
    for row in range(case.count):
        best = case.best(row)
        if found.kind[row] == INFEASIBLE:
            assert best == -np.inf
            continue
        assert found.bound[row] >= best - 1e-9
        if np.isfinite(found.gap[row]):
            z, values, t = case.values(row)
            place = int(np.flatnonzero((z == found.assignments[row]).all(axis=1))[0])
            h = values[place]
            assert (t[place] <= case.limits + 1e-9).all()
            assert abs(h - best) <= 1e-9 * (1 + abs(best))
            assert found.bound[row] <= best + 1e-6 * (1 + abs(best))


@given(seeds)
@examples(60)
def test_a_small_space_still_gives_bounds(seed):
    case = EnumeratedRows(seed)
    found = make_results(case.instances)
    proof.prove_rows(case.rows, 8, 3, found)
    for row in range(case.count):
        assert found.kind[row] != INFEASIBLE or case.best(row) == -np.inf
        if found.kind[row] != INFEASIBLE:
            assert found.bound[row] >= case.best(row) - 1e-9


@njit(cache=False)
def losses_of(plan, values, total, losses, reach, second):
    eliminate_max(plan, values, np.zeros_like(values), total, np.zeros_like(total))
    proof.find_losses(plan, values, losses, reach, second)


@given(seeds)
@examples(80)
def test_losses_add_up_to_what_an_assignment_lacks(seed):
    """The losses of an assignment's pairs are the maximum less its value."""
    case = EnumeratedRows(seed)
    plan = case.rows.plan
    values = np.zeros((plan.total, 1))
    values[: plan.entries, 0] = case.instances.tables(0, slice(0, 1))[0]
    total, losses = np.zeros(1), np.zeros((plan.pairs, 1))
    reach = np.zeros((plan.total - plan.entries, 1))
    second = np.zeros((len(plan.component_start) - 1, 1))
    losses_of(plan, values, total, losses, reach, second)
    assert (losses >= 0).all()
    assert (reach >= 0).all()
    h = case.problem.objective.value(completions(case.instances, 0))
    assert total[0] == h.max() or abs(total[0] - h.max()) <= 1e-9
    if len(h) > 1 and total[0] > -np.inf:
        least = total[0] - np.sort(h)[-2]
        assert second.min() == least or abs(second.min() - least) <= 1e-9
