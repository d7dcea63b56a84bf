"""Evidence in any form, grouped into instances that observe the same variables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cmpe.arrays import FREE, Indices, Values
from cmpe.problem.evidence import Evidence, FullRows, observed_groups
from cmpe.problem.instances import Instances
from cmpe.problem.problem import Problem

MOST_KEPT = 8  # sets of evidence variables


def by_observed(
    problem: Problem, evidence: Evidence | None = None, *, ignore_extra: bool = False
) -> list[tuple[Instances, Indices]]:
    """Instances by the set of variables that their rows observe, with the rows' numbers.

    A mapping, a list of them or a frame observes what it has values for; an array of all variables
    observes what is not -1 in each row; an array of the problem's evidence variables, or nothing,
    observes those.
    """
    if evidence is None:
        return _whole(problem.given())
    given = problem.read(evidence, ignore_extra=ignore_extra)
    if isinstance(given, Mapping):
        return _whole(_observing(problem, tuple(sorted(given))).instances(given))
    rows = given.rows if isinstance(given, FullRows) else given
    width = rows.shape[-1] if rows.ndim else 0
    is_full = width == problem.variables != len(problem.evidence_variables)
    if not (is_full or isinstance(given, FullRows)):
        return _whole(problem.instances(given))
    rows = problem.full_rows(rows)
    if not len(rows):
        return _whole(problem.instances(rows[:, : len(problem.evidence_variables)]))
    return [
        (_observing(problem, observed).instances(rows[numbers][:, list(observed)]), numbers)
        for observed, numbers in observed_groups(rows)
    ]


def full_rows(problem: Problem, evidence: Evidence | None, *, ignore_extra: bool = False) -> Values:
    """Evidence in any form as rows over all variables (B, n), -1 where free."""
    batches = by_observed(problem, evidence, ignore_extra=ignore_extra)
    total = sum(len(numbers) for _, numbers in batches)
    rows = np.full((total, problem.variables), FREE, dtype=problem.dtype)
    for instances, numbers in batches:
        rows[numbers] = instances.full()
    return rows


def _observing(problem: Problem, observed: tuple[int, ...]) -> Problem:
    """The problem with that evidence; the last ones are kept, with the plans made for them."""
    known = problem.siblings
    found = known.get(observed)
    if found is None:
        while len(known) >= MOST_KEPT:
            known.pop(next(iter(known)), None)
        found = known[observed] = problem.observing(observed)
    return found


def _whole(instances: Instances) -> list[tuple[Instances, Indices]]:
    return [(instances, np.arange(len(instances)))]


def distinct_rows(rows: Values) -> tuple[Indices, Indices, Indices]:
    """Where each distinct row first appears, in that order; each row's place among the distinct
    ones; and how often each appears. Rows are compared as bytes: sorting numbers is slow."""
    if not rows.shape[1]:  # all rows are equal
        first = np.arange(min(1, len(rows)))
        return first, np.zeros(len(rows), dtype=np.intp), np.full(len(first), len(rows))
    keys = (
        np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    )
    _, first, where, counts = np.unique(
        keys, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[where.ravel()], counts[order]


def each_once(instances: Instances) -> tuple[Instances, Indices]:
    """The distinct rows of a batch, and each row's place among them."""
    first, where, _ = distinct_rows(instances.evidence)
    return instances.take(first), where
