"""A log-linear model under rules, hard or soft.

    h(z) = base(z) + sum over rules of what they are worth at z

A rule whose table is small is one more table of the model. The others stay rules here, because
their tables would be too large: `problem.expansion` makes small tables of them with more variables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Floats
from cmpe.display import html_table
from cmpe.domain import Domain, Placement
from cmpe.models.function import Assigned, as_rows
from cmpe.models.logic import BoundRule
from cmpe.models.loglinear import Factor, LogLinearModel

SMALL_TABLE = 256  # entries: a rule of so many is a table


@dataclass(frozen=True, repr=False)
class RuledModel:
    """A log-linear model and rules over its variables."""

    base: LogLinearModel
    rules: tuple[BoundRule, ...]

    @property
    def domain(self) -> Domain:
        """Names, states and cardinalities of the variables."""
        return self.base.domain

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many values each variable has."""
        return self.base.cardinalities

    @property
    def variables(self) -> int:
        """How many variables there are."""
        return self.base.variables

    @property
    def is_finite(self) -> bool:
        """Whether no value is known to be -inf."""
        return False

    def value(self, assignments: Assigned) -> Floats:
        """h of each row of `assignments` (B, n), or of one assignment (n,), in float64."""
        rows = as_rows(assignments, self.domain)
        total = self.base.value(rows)
        whole = rows.astype(np.int64)
        for rule in self.rules:
            total = total + rule.value(whole)
        return total

    def ceiling(self) -> float:
        """An upper bound of every finite value: breaking a rule gains nothing."""
        return self.base.ceiling()

    def placed(self, placement: Placement) -> RuledModel:
        """The same function over a wider domain."""
        return RuledModel(
            self.base.placed(placement), tuple(rule.placed(placement) for rule in self.rules)
        )

    def to_model(self) -> RuledModel:
        """Itself: tables may be added to it."""
        return self

    def __add__(self, other: LogLinearModel) -> RuledModel:
        return replace(self, base=self.base + other)

    def __repr__(self) -> str:
        return f"{self.base!r} under {len(self.rules)} rules of many variables"

    def _repr_html_(self) -> str:
        return html_table(repr(self), ("rule",), [(rule.text,) for rule in self.rules])


def under_rules(model: LogLinearModel, rules: Sequence[BoundRule]) -> LogLinearModel | RuledModel:
    """The model with the tables of small rules, under the rules that have large ones."""
    cards = model.cardinalities
    is_small = [math.prod(cards[v] for v in rule.scope) <= SMALL_TABLE for rule in rules]
    tables = [
        Factor(rule.scope, rule.table(cards))
        for rule, small in zip(rules, is_small, strict=True)
        if small
    ]
    if tables:
        model = model + replace(model, factors=tuple(tables))
    large = tuple(rule for rule, small in zip(rules, is_small, strict=True) if not small)
    return RuledModel(model, large) if large else model
