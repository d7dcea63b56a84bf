"""Assignments to begin from: one per row, checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import FREE, Assignments, Indices, Values
from cmpe.errors import MethodError
from cmpe.problem.instances import Instances
from cmpe.problem.problem import Problem


def checked(instances: Instances, assignments: ArrayLike) -> Assignments:
    """A copy of full assignments (B, n) with the evidence in; -1 in a row means no start.

    Discrete variables only; `check_start` judges starts of any problem.
    """
    problem, free = instances.problem, list(instances.problem.free)
    given = np.asarray(assignments, dtype=np.int32)
    shape = (len(instances), problem.variables)
    if given.ndim == 0:
        given = np.broadcast_to(given, shape)
    check_start(instances, given)
    rows = np.zeros(shape, dtype=np.int32)  # a variable of one value is never free
    rows[:, free] = given[:, free]
    rows[:, list(problem.evidence_variables)] = instances.evidence
    return rows


def check_start(instances: Instances, start: Values) -> None:
    """Refuse a start that is not one assignment per row; what it says of evidence is not read."""
    problem, shape = instances.problem, (len(instances), instances.problem.variables)
    if start.shape != shape:
        raise MethodError(f"a start must have shape {shape}, found {start.shape}")
    free = list(problem.free)
    values, most = start[:, free], np.asarray(problem.objective.cardinalities)[free] - 1
    whole = (values == np.floor(values)) | np.isin(free, problem.continuous)
    if not (whole & ((values == FREE) | (values >= 0)) & (values <= most)).all():
        raise MethodError("a start must hold values of its variables, or -1 where there is none")


def not_worse(problem: Problem, found: Assignments, start: Assignments) -> Assignments:
    """Each row's `found`, or its `start` where that is feasible and worth more: (B, n)."""
    given = (start >= 0).all(axis=1)
    keep = np.zeros(len(found), dtype=bool)
    if given.any():
        worth = [problem.objective.value(rows[given]) for rows in (start, found)]
        sound = [
            problem.are_feasible(h, problem.constraint_values(rows[given]))
            for h, rows in zip(worth, (start, found), strict=True)
        ]
        keep[given] = sound[0] & ~(sound[1] & (worth[1] >= worth[0]))
    return np.where(keep[:, np.newaxis], start, found)


def by_leaf(
    instances: Instances, rows: Assignments
) -> Iterator[tuple[Indices, Instances, Assignments]]:
    """Rows (B, n) by the leaf where they start: numbers, instances of the leaf, starts in it.

    A row without a start takes the first leaf that its evidence allows.
    """
    evidence, left = instances.full(), np.ones(len(rows), dtype=bool)
    for branch in instances.problem.branches:
        numbers = np.flatnonzero(left & branch.agrees(rows) & branch.agrees(evidence))
        left[numbers] = False
        if len(numbers):
            part = branch.instances(evidence[numbers])
            yield numbers, part, checked(part, rows[numbers])
