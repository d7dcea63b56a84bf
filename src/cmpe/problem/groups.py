"""Evidence in every form that people give it, as instances that observe the same variables."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cmpe.arrays import Indices
from cmpe.problem.evidence import Evidence, as_given, observed_groups
from cmpe.problem.instances import Instances
from cmpe.problem.problem import Problem


def by_observed(
    problem: Problem, evidence: Evidence | None = None
) -> list[tuple[Instances, Indices]]:
    """Instances by the set of variables that their rows observe, with the rows' numbers.

    A mapping or frame observes its keys or columns; an array of all variables observes what is
    not -1 in each row; an array of the problem's evidence variables, or nothing, observes those.
    """
    if evidence is not None:
        evidence = as_given(evidence, problem.variables, problem.evidence_variables)
    if isinstance(evidence, Mapping):
        problem = problem.observing(sorted(evidence))
    elif evidence is not None and np.ndim(evidence):
        width = np.shape(evidence)[-1]
        if width == problem.variables != len(problem.evidence_variables):
            rows = problem.full_rows(evidence)
            if not len(rows):
                return [(problem.given(rows[:, : len(problem.evidence_variables)]), np.arange(0))]
            return [
                (problem.observing(observed).given(rows[numbers][:, list(observed)]), numbers)
                for observed, numbers in observed_groups(rows)
            ]
    instances = problem.given(evidence)
    return [(instances, np.arange(len(instances)))]
