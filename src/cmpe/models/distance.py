"""The separable distance: how far some variables are from others (paper §5.4, the objective F).

    h(z) = - sum over pairs (i, j) of w_ij |z_i - z_j|

It is concave in z. With z_i given, each term is linear in what z_j moves up and down:
z_j = z_i + p - m, p in [0, 1 - z_i], m in [0, z_i], and the term is -w (p + m).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.domain import Placement, States
from cmpe.errors import ModelError
from cmpe.models.function import Assigned, FiniteFunction, as_rows


@dataclass(frozen=True, eq=False, repr=False)
class Distance(FiniteFunction):
    """Minus the weighted sum of |z_i - z_j| over `pairs` of variables of two values each."""

    cardinalities: tuple[int, ...]
    pairs: tuple[tuple[int, int], ...]
    weights: tuple[float, ...] = ()  # none: all 1
    names: tuple[str, ...] = ()
    states: States = ()

    def __post_init__(self) -> None:
        self._settle()
        cards = self.cardinalities
        pairs = tuple((int(i), int(j)) for i, j in self.pairs)
        weights = tuple(float(w) for w in self.weights) or (1.0,) * len(pairs)
        for name, value in (("pairs", pairs), ("weights", weights)):
            object.__setattr__(self, name, value)
        mentioned = {v for pair in pairs for v in pair}
        if mentioned and not (min(mentioned) >= 0 and max(mentioned) < len(cards)):
            raise ModelError(f"pairs must be of variables from 0 to {len(cards) - 1}")
        if any(cards[v] != 2 for v in mentioned):
            raise ModelError("a distance is between variables of two values, or in [0, 1]")
        if len(weights) != len(pairs) or not all(0.0 <= w < np.inf for w in weights):
            raise ModelError("every pair needs one finite weight of at least 0")

    @classmethod
    def between(cls, first: Sequence[int], second: Sequence[int], variables: int) -> Distance:
        """Variables of `first` and of `second` in turn, all of two values or in [0, 1]."""
        if len(first) != len(second):
            raise ModelError(f"{len(first)} variables cannot be paired with {len(second)}")
        return cls((2,) * variables, tuple(zip(first, second, strict=True)))

    def placed(self, placement: Placement) -> Distance:
        """The same function over a wider domain."""
        placement.need_order(self.domain, {v for pair in self.pairs for v in pair})
        move = placement.variables
        domain = placement.domain
        pairs = tuple((move[i], move[j]) for i, j in self.pairs)
        return Distance(domain.cardinalities, pairs, self.weights, domain.names, domain.states)

    @property
    def columns(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The first and the second variable of every pair."""
        both = np.array(self.pairs, dtype=np.intp).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def value(self, assignments: Assigned) -> Floats:
        """The value at each row of `assignments` (B, n): (B,)."""
        rows = as_rows(assignments, self.domain).astype(np.float64)
        first, second = self.columns
        return np.asarray(-np.abs(rows[:, first] - rows[:, second]) @ np.array(self.weights))

    def ceiling(self) -> float:
        """0: no distance is negative."""
        return 0.0
