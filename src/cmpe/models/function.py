"""What a problem needs of its objective and of its constraints' functions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.errors import ModelError


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


class FiniteFunction:
    """What functions without tables share: no value of theirs is -inf."""

    cardinalities: tuple[int, ...]

    @property
    def variables(self) -> int:
        """How many variables there are, whether or not a value depends on them."""
        return len(self.cardinalities)

    @property
    def is_finite(self) -> bool:
        """Always."""
        return True


def as_rows(assignments: ArrayLike, variables: int) -> NDArray[Any]:
    """`assignments` (B, n), or one assignment (n,), as rows; other shapes are refused."""
    rows = np.asarray(assignments)
    rows = rows[np.newaxis, :] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != variables:
        raise ModelError(f"assignments must be (B, {variables}), found {rows.shape}")
    return rows
