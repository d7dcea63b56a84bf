"""Rows that observe different variables, as rows of one problem that observe the same.

A variable v that only some rows observe gets a twin e_v, of one value more than v:

    h'(x, y, e) = h(x, y) + sum over v of 0 where e_v = v or e_v is that last value, else -inf

Every row observes every twin, with the last value where v is free. So all rows share a structure,
an elimination plan and its compiled calls, whatever their patterns of missing values. Constraints
are as they were. (Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 2.2.2, hangs
evidence on a variable as a child of its own in the same way.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Indices
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem.instances import Instances
from cmpe.problem.problem import Problem


@dataclass(frozen=True)
class Twins:
    """Rows of any patterns as instances of one problem; its last variables are the twins."""

    problem: Problem  # without twins
    instances: Instances
    seen: NDArray[np.bool_]  # (B, n): what each row observes

    @classmethod
    def of(cls, batches: Sequence[tuple[Instances, Indices]]) -> Twins:
        """From instances by what they observe, with their rows' numbers, which count from 0."""
        problem = batches[0][0].problem
        order = np.argsort(np.concatenate([numbers for _, numbers in batches]))
        rows = np.concatenate([instances.full() for instances, _ in batches])[order]
        seen = rows != FREE
        always = np.flatnonzero(seen.all(axis=0))
        doubled = np.flatnonzero(seen.any(axis=0) & ~seen.all(axis=0))
        cards = problem.objective.cardinalities
        sizes = np.array(cards, dtype=rows.dtype)[doubled]
        values = np.where(seen[:, doubled], rows[:, doubled], sizes)
        whole = _with_twins(problem, always.tolist(), doubled.tolist())
        evidence = np.concatenate([rows[:, always], values], axis=1)
        return cls(problem, Instances(whole, evidence), seen)


def _with_twins(problem: Problem, always: list[int], doubled: list[int]) -> Problem:
    cards = problem.objective.cardinalities
    n, models = len(cards), problem.models
    every = (*cards, *(cards[v] + 1 for v in doubled))
    equal = []
    for twin, v in enumerate(doubled, n):
        table = np.full((cards[v], cards[v] + 1), -np.inf)
        table[np.arange(cards[v]), np.arange(cards[v])] = 0.0
        table[:, -1] = 0.0
        equal.append(Factor((v, twin), table))
    objective = LogLinearModel(every, (*models[0].factors, *equal))
    limits = [
        replace(c, function=LogLinearModel(every, t.factors))
        for c, t in zip(problem.constraints, models[1:], strict=True)
    ]
    return Problem(objective, limits, [*always, *range(n, len(every))])
