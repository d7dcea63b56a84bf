"""The rules and limits that an assignment breaks, in words."""

from __future__ import annotations

import numpy as np

from cmpe.arrays import Values
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Problem
from cmpe.problem.wording import rule_from_text


def breach(problem: Problem, own: Problem, row: Values) -> str:
    """The first rule, limit or table that forbids an assignment (n,).

    `own` is the problem with the row's scores and limits.
    """
    rows, domain = row[np.newaxis], problem.domain
    for text in problem.rules:
        if np.isneginf(rule_from_text(text, domain).over(domain).value(rows.astype(np.int64)))[0]:
            return f"the rule {text!r}"
    over = own.violations(rows)[0] > own.tolerances
    for j in np.flatnonzero(over):
        constraint = own.constraints[j]
        called = getattr(constraint, "name", "") or f"constraint {j}"
        found = constraint.sign * float(constraint.function.value(rows)[0])
        return f"{called}: {found:g} {constraint.relation} {constraint.limit:g} is false"
    whole = own.objective
    base = getattr(whole, "base", whole)
    if isinstance(base, LogLinearModel):
        for factor in base.factors:
            if np.isneginf(factor.log_table[tuple(row[v] for v in factor.scope)]):
                states = [f"{domain.name(v)}={domain.label(v, int(row[v]))}" for v in factor.scope]
                return f"a potential of 0 of {', '.join(states)}"
    return "every assignment: the row has none that is allowed"
