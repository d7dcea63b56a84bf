"""A problem with rows of evidence that observe the same variables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import FREE, Floats, Indices, Values
from cmpe.models.conditioning import Conditioning

if TYPE_CHECKING:
    from cmpe.problem.problem import Problem


@dataclass(frozen=True)
class Instances:
    """A problem with evidence: one instance per row, all observing the same variables."""

    problem: Problem
    evidence: Values  # (B, |X|)

    def __len__(self) -> int:
        return len(self.evidence)

    def take(self, rows: slice | Indices) -> Instances:
        """The instances of some rows."""
        return replace(self, evidence=self.evidence[rows])

    @property
    def conditioning(self) -> Conditioning:
        """The structure that the rows share."""
        return self.problem.conditioning

    def tables(self, which: int, rows: slice = slice(None)) -> Floats:
        """The tables of function `which` (0 is the objective) given evidence: (B, E)."""
        return self.conditioning.tables(which, self.evidence[rows])

    def complete(self, free_values: ArrayLike, rows: slice = slice(None)) -> Values:
        """Full assignments (B, n) from values of `conditioning.free` (B, |free|)."""
        evidence = self.evidence[rows]
        out = np.zeros((len(evidence), self.problem.variables), dtype=self.problem.dtype)
        out[:, list(self.problem.evidence_variables)] = evidence
        out[:, list(self.problem.free)] = free_values
        return out

    def full(self) -> Values:
        """The evidence over all variables, -1 where free: (B, n)."""
        out = np.full((len(self), self.problem.variables), FREE, dtype=self.problem.dtype)
        out[:, list(self.problem.evidence_variables)] = self.evidence
        return out
