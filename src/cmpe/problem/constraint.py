"""A constraint t(x, y) <= q, and the one tolerance by which it is judged."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cmpe.arguments import real_number
from cmpe.errors import ModelError
from cmpe.models.function import Function, need_function
from cmpe.models.tractable.branching import simplest

FEASIBILITY_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Constraint:
    """function(x, y) <= at_most. A function value of -inf always satisfies it."""

    function: Function
    at_most: float

    def __post_init__(self) -> None:
        need_function(self.function, "a constraint", "Constraint(t, at_most=q)")
        object.__setattr__(self, "function", simplest(self.function))
        limit = real_number("at_most", self.at_most, ModelError, example="12.5")
        object.__setattr__(self, "at_most", limit)
        if not math.isfinite(self.at_most):
            raise ModelError(f"at_most must be a finite number, found {self.at_most}")

    @property
    def tolerance(self) -> float:
        """How far above `at_most` still counts as satisfied: 1e-6 * max(1, |q|)."""
        return FEASIBILITY_TOLERANCE * max(1.0, abs(self.at_most))

    def loosened(self, padding: float) -> float:
        """q + tolerance + `padding` * max(1, |q|): for solvers that round otherwise."""
        return self.at_most + self.tolerance + padding * max(1.0, abs(self.at_most))
