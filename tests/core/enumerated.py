"""Random rows for compiled functions, and all their assignments."""

from __future__ import annotations

import numpy as np

from cmpe import Instances
from cmpe.bounds.base import loosened_limits
from cmpe.bounds.lagrangian import Batch
from tests.problems import Shape, completions, random_problem

SMALL = Shape(variables=5, values=3, factors=6)


class EnumeratedRows:
    """A small random problem as arrays, and h and every t of all completions of each row."""

    def __init__(self, seed: int, shape: Shape = SMALL) -> None:
        self.problem, rows = random_problem(seed, shape)
        self.instances = Instances(self.problem, rows)
        self.batch = Batch(self.instances)
        self.rows, self.limits = self.batch.tables, loosened_limits(self.instances)
        self.count = len(self.instances)

    def values(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All completions of a row (P, n), h (P,) and every t (P, m)."""
        z = completions(self.instances, row)
        t = [c.function.value(z) for c in self.problem.constraints]
        h = self.problem.objective.value(z)
        return z, h, np.stack(t, axis=1) if t else np.zeros((len(z), 0))

    def feasible(self, row: int) -> np.ndarray:
        """h of the completions with every t within its limit."""
        _, h, t = self.values(row)
        return h[(t <= self.limits).all(axis=1) & (h > -np.inf)]

    def best(self, row: int) -> float:
        """The highest of them; -inf where there is none."""
        return float(self.feasible(row).max(initial=-np.inf))
