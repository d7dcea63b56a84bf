"""The k best of rows against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmpe.core.buckets import VARIABLE
from cmpe.core.fronts import ranks
from cmpe.tradeoffs.points import EvaluatedTables
from tests.core.cases import examples
from tests.core.enumerated import EnumeratedRows
from tests.problems import Shape

seeds = st.integers(0, 2**32 - 1)


def ranked(case, wanted, rank):
    """The answers of all rows: a record, and the h of each row's."""
    problem, plan, count = case.problem, case.rows.plan, case.count
    free, functions = len(problem.free), 1 + len(case.limits)
    kinds = np.zeros((2, count), dtype=np.int64)
    begun = case.instances.complete(np.zeros((count, free)))
    results = ranks.RankedRows(
        begun, np.zeros((count, rank, functions)), *kinds, np.zeros(count),
        np.empty(count * free, dtype=np.int64),
        np.empty((count * free + 1) * (rank + 8), dtype=np.uint16),
        np.zeros((count + 1, 4), dtype=np.int64),
    )  # fmt: skip
    space = ranks.make_rank_space(1 << 12, max(1, len(case.limits)), plan, rank)
    tables = EvaluatedTables.of([problem.objective, *(c.function for c in problem.constraints)])
    order = np.argsort(plan.buckets[:, VARIABLE], kind="stable").astype(np.int64)
    ranks.rank_rows(
        case.rows, wanted, np.zeros((2, 4)), tables, order,
        ranks.for_rank(space, rank, 1 << 30), results,
    )  # fmt: skip
    return results


@given(seeds, st.integers(1, 6), st.sampled_from([1, 2, 3]))
@examples(200)
def test_the_best_answers_are_those_of_enumeration(seed, wanted, constraints):
    case = EnumeratedRows(seed, Shape(variables=6, values=3, constraints=constraints))
    found = ranked(case, wanted, wanted + 20)
    for row in range(case.count):
        h = np.sort(case.feasible(row))[::-1]
        count = int(found.counts[row])
        if found.kinds[row] in (ranks.ALL, ranks.IMPOSSIBLE):
            assert count >= min(wanted, len(h))
        values = np.sort(found.values[row, :count, 0])[::-1]
        assert np.allclose(values, h[:count], atol=1e-8)
        if found.kinds[row] == ranks.COMPLETE:
            assert count >= min(wanted, len(h))
            last = max(found.bounds[row], values[-1])
            assert (h > last + 1e-7).sum() < count


@given(seeds)
@examples(60)
def test_answers_are_distinct_and_have_their_values(seed):
    case = EnumeratedRows(seed, Shape(variables=6, values=3, constraints=1))
    found = ranked(case, 5, 30)
    for row in range(case.count):
        count = int(found.counts[row])
        first, differ, low, width = found.places[row].tolist()
        answers = np.repeat(found.begun[row : row + 1], count, axis=0)
        stored = found.stored[low : low + differ * width].reshape(differ, width)
        answers[:, found.which[first : first + differ]] = stored[:, :count].T
        assert len(np.unique(answers, axis=0)) == count
        h = case.problem.objective.value(answers)
        assert np.allclose(h, found.values[row, :count, 0], atol=1e-10)
