"""Multilinear polynomials over binary or [0, 1] variables (paper §2).

p(z) = sum over monomials I of w_I * product of z_i, i in I
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.errors import ModelError
from cmpe.models.loglinear import Factor, LogLinearModel

Monomial = tuple[int, ...]


@dataclass(frozen=True)
class MultilinearPolynomial:
    """Weights by monomial; the empty monomial is the constant. Zero weights are dropped."""

    variables: int
    weights: Mapping[Monomial, float]
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(self.names))
        clean: dict[Monomial, float] = {}
        for monomial, weight in self.weights.items():
            key = tuple(sorted(int(v) for v in monomial))
            if len(set(key)) != len(key):
                raise ModelError(f"a monomial must be multilinear, found {monomial}")
            if key and not (key[0] >= 0 and key[-1] < self.variables):
                raise ModelError(f"variables must be below {self.variables}, found {monomial}")
            if not math.isfinite(weight):
                raise ModelError(f"the weight of {monomial} must be finite, found {weight}")
            clean[key] = clean.get(key, 0.0) + float(weight)
        ordered = sorted(clean.items(), key=lambda item: (len(item[0]), item[0]))
        object.__setattr__(self, "weights", {k: w for k, w in ordered if w != 0.0})

    @cached_property
    def _by_degree(self) -> list[tuple[NDArray[np.int64], Floats]]:
        groups = []
        for degree, items in itertools.groupby(self.weights.items(), key=lambda i: len(i[0])):
            pairs = list(items)
            indices = np.array([k for k, _ in pairs], dtype=np.int64).reshape(len(pairs), degree)
            groups.append((indices, np.array([w for _, w in pairs])))
        return groups

    def value(self, points: ArrayLike) -> Floats:
        """p at each row of `points` (B, n), or at one point (n,); any reals, usually in [0, 1]."""
        rows = np.atleast_2d(np.asarray(points, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != self.variables:
            raise ModelError(f"points must be (B, {self.variables}), found {rows.shape}")
        total = np.zeros(len(rows))
        for indices, weights in self._by_degree:
            total += rows[:, indices].prod(axis=2) @ weights  # (B, M, degree) -> (B,)
        return total

    def __add__(self, other: MultilinearPolynomial) -> MultilinearPolynomial:
        if (self.variables, self.names) != (other.variables, other.names):
            raise ModelError("polynomials to be added must have the same variables")
        total = dict(self.weights)
        for monomial, weight in other.weights.items():
            total[monomial] = total.get(monomial, 0.0) + weight
        return replace(self, weights=total)

    def scale(self, weight: float) -> MultilinearPolynomial:
        """`weight` times the polynomial."""
        return replace(self, weights={k: weight * w for k, w in self.weights.items()})

    @classmethod
    def from_model(cls, model: LogLinearModel) -> MultilinearPolynomial:
        """Expand a model of finite tables over binary variables (cardinality 1 counts as 0).

        The weights of one table are its Moebius transform: w_I = sum over J in I of
        (-1)^|I - J| table[indicator of J].
        """
        if any(k > 2 for k in model.cardinalities):
            raise ModelError(
                f"a polynomial needs binary variables, found {max(model.cardinalities)} values"
            )
        if not model.is_finite:
            raise ModelError("a polynomial needs finite tables, found a potential of 0")
        weights: dict[Monomial, float] = {}
        for factor in model.factors:
            table = factor.log_table.copy()
            for axis, size in enumerate(table.shape):
                if size == 2:
                    ones = (slice(None),) * axis + (1,)
                    table[ones] -= table[(slice(None),) * axis + (0,)]
            for corner, weight in np.ndenumerate(table):
                key = tuple(sorted(v for v, bit in zip(factor.scope, corner, strict=True) if bit))
                weights[key] = weights.get(key, 0.0) + float(weight)
        return cls(model.variables, weights, model.names)

    def to_model(self) -> LogLinearModel:
        """One factor per monomial: its weight where all its variables are 1, else 0."""
        factors = []
        for monomial, weight in self.weights.items():
            table = np.zeros((2,) * len(monomial))
            table[(1,) * len(monomial)] = weight
            factors.append(Factor(monomial, table))
        return LogLinearModel((2,) * self.variables, tuple(factors), self.names)
