"""What a problem needs of its objective and of its constraints' functions."""

from __future__ import annotations

from typing import Protocol

from numpy.typing import ArrayLike

from cmpe.models.flat import Floats


class Function(Protocol):
    """A function of assignments, batch-first: a log-linear model, a cutset network, ..."""

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many values each variable has."""
        ...

    @property
    def variables(self) -> int:
        """How many variables there are."""
        ...

    @property
    def is_finite(self) -> bool:
        """Whether no value is -inf."""
        ...

    def value(self, assignments: ArrayLike) -> Floats:
        """The value at each row of `assignments` (B, n): (B,)."""
        ...

    def ceiling(self) -> float:
        """An upper bound of every finite value."""
        ...
