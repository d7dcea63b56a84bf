"""Small random problems for kernels: their arrays, and every assignment with its values."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import settings

from cmpe import LogLinearModel, Problem
from cmpe.bounds.base import loosened_limits, row_tables
from cmpe.bounds.descent import RelaxedRow
from cmpe.bounds.minibucket import MiniBucket
from cmpe.core.compiler.fence import IS_COMPILED
from tests.problems import Shape, all_assignments, completions, random_constraint, random_model

# Uncompiled loops are hundreds of times slower.
SMALL = Shape() if IS_COMPILED else Shape(variables=4, values=3, arity=3, factors=5)


def examples(count: int) -> settings:
    """Try so many random cases, and a fifth of them where nothing is compiled."""
    return settings(max_examples=count if IS_COMPILED else max(8, count // 5))


def plain_values(model: LogLinearModel, z: np.ndarray) -> np.ndarray:
    """The sum of the model's tables at each row of z (N, n), by numpy alone."""
    total = np.zeros(len(z))
    for factor in model.factors:
        total = total + factor.log_table[tuple(z[:, v] for v in factor.scope)]
    return total


class Case:
    """A random problem with rows of evidence of at most half the variables."""

    def __init__(self, seed: int, shape: Shape = SMALL, least: int = 1) -> None:
        self.rng = rng = np.random.default_rng(seed)
        count = int(rng.integers(least, shape.variables + 1))
        cards = [int(k) for k in rng.integers(1, shape.values + 1, count)]
        constraints = tuple(
            random_constraint(rng, cards, shape)
            for _ in range(int(rng.integers(0, shape.constraints + 1)))
        )
        observed = rng.choice(count, int(rng.integers(0, count // 2 + 1)), replace=False)
        self.problem = Problem(random_model(rng, cards, shape), constraints, observed.tolist())
        rows = [rng.integers(0, cards[v], 3) for v in observed]
        evidence = np.array(rows, dtype=int).T if rows else np.zeros((1, 0), dtype=int)
        self.instances = self.problem.given(evidence)
        self.structure = self.instances.conditioning

    def tables(self, which: int) -> np.ndarray:
        """The entries of function `which` that evidence leaves: (E, B)."""
        rows = self.structure.tables(which, self.instances.evidence)
        return np.ascontiguousarray(rows.T)

    def every(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All assignments z (N, n) of a row, their h (N,) and their t (N, m)."""
        z = completions(self.instances, row)
        h, *t = (plain_values(model, z) for model in self.problem.models)
        return z, h, np.stack(t, axis=1) if t else np.zeros((len(z), 0))

    def of_choice(self, row: int, choice: np.ndarray) -> np.ndarray:
        """The assignment of a row whose bucket variables have the values of `choice` (K,)."""
        z = self.instances.full()[row].copy()
        z[z < 0] = 0
        z[self.problem.compiled_plan.buckets[:, 0]] = choice
        return z


class Relaxed(Case):
    """A random problem with a relaxation by copies, and every assignment of the copies."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Shape(variables=6, values=3, arity=3, factors=14), least=4)
        for i_bound in (1, 2, 3):
            self.relaxation = MiniBucket(i_bound).relaxation(self.structure)
            buckets = self.relaxation.plan.buckets
            self.cards = self.relaxation.plan.cardinalities
            used = [b.variable for b in buckets]
            if math.prod(self.cards[v] for v in used) <= 3000:
                break
        self.relaxed = self.relaxation.compiled
        variables = iter(used)
        self.eliminated = [next(variables) if v >= 0 else -1 for v in self.relaxation.decided]
        sizes = [self.cards[v] if v in used else 1 for v in range(len(self.cards))]
        self.z = all_assignments(sizes)
        self.row = RelaxedRow(self.relaxation, loosened_limits(self.instances))

    def begin(self, row: int, *, even: bool = True) -> RelaxedRow:
        """The arrays of a row, with its tables loaded."""
        self.row.begin(row_tables(self.instances, slice(row, row + 1))[0], even)
        return self.row

    def plain(self, values: np.ndarray) -> np.ndarray:
        """The sum of all tables at each assignment of the copies."""
        total, at = np.full(len(self.z), values[0]), 0
        for i, scope in enumerate(self.relaxation.plan.scopes):
            shape = [self.cards[v] for v in scope]
            own = self.relaxation.structure_scopes
            size = (
                math.prod(shape)
                if scope or i >= len(own)
                else math.prod(self.structure.cardinalities[v] for v in own[i])
            )
            if scope:
                table = values[at : at + size].reshape(shape)
                total = total + table[tuple(self.z[:, v] for v in scope)]
            at += size
        return total
