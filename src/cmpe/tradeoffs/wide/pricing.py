"""Priced problems: one row with a multiplier, with a limit, or with neither.

Each answer gives the band a point and a bound (`band`). The functions are split once into a part
with finite tables and the support of t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Values
from cmpe.domain import Domain
from cmpe.errors import TooLarge
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Constraint, Instances, Problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import answer
from cmpe.tradeoffs.points import below_finite, loosened
from cmpe.tradeoffs.wide.band import ROUNDING, Band
from cmpe.tradeoffs.wide.settings import WIDE_FRONTS
from cmpe.tradeoffs.wide.splits import SharedSplit


@dataclass(frozen=True)
class PricedLayout:
    """h and t of a problem in one layout, so that h - mu t is an array of numbers for any mu."""

    domain: Domain
    scopes: tuple[tuple[int, ...], ...]
    h: Floats  # (E,)
    t: Floats  # (E,)

    @classmethod
    def of(cls, h: LogLinearModel, t: LogLinearModel) -> PricedLayout:
        """Tables over the same variables are one."""
        parts = [_by_scope(model) for model in (h, t)]
        scopes = tuple(sorted({*parts[0], *parts[1]}, key=lambda scope: (len(scope), scope)))
        sizes = [math.prod(h.cardinalities[v] for v in scope) for scope in scopes]
        ends = np.cumsum([0, *sizes]).tolist()
        values = np.zeros((2, ends[-1]))
        for row, part in zip(values, parts, strict=True):
            for scope, low, high in zip(scopes, ends[:-1], ends[1:], strict=True):
                if scope in part:
                    row[low:high] = part[scope].ravel()
        return cls(h.domain, scopes, *values)

    def at(self, mu: float) -> LogLinearModel:
        """h - mu t, -inf where h or t is; h itself for mu = 0."""
        return self._model(self.h - mu * self._finite_t if mu > 0.0 else self.h.copy())

    def negated(self) -> LogLinearModel:
        """-t, -inf where h or t is."""
        return self._model(np.where(np.isneginf(self.h), -np.inf, -self._finite_t))

    @property
    def _finite_t(self) -> Floats:
        """t, inf where it is -inf: less a multiple of it is -inf."""
        return np.where(np.isneginf(self.t), np.inf, self.t)

    def _model(self, values: Floats) -> LogLinearModel:
        return LogLinearModel.from_flat(self.domain, self.scopes, values)

    @property
    def unit(self) -> float:
        """The size of a multiplier: how much h varies against how much t does."""
        spread = [float(np.abs(part[np.isfinite(part)]).sum()) for part in (self.h, self.t)]
        return spread[0] / spread[1] if min(spread) > 0.0 else 1.0


def _by_scope(model: LogLinearModel) -> dict[tuple[int, ...], Floats]:
    """The tables by their variables in rising order, those of the same added up."""
    out: dict[tuple[int, ...], Floats] = {}
    for factor in model.factors:
        scope, table = tuple(sorted(factor.scope)), factor.log_table
        if scope != factor.scope:
            table = table.transpose([factor.scope.index(v) for v in scope])
        out[scope] = out[scope] + table if scope in out else table
    return out


@dataclass(frozen=True)
class Pricing:
    """Asks about one row, and notes in its band what comes out."""

    instances: Instances
    band: Band
    limits: Limits

    @cached_property
    def split(self) -> SharedSplit:
        """The relaxation that serves all multipliers."""
        return SharedSplit(self.limits.memory)

    @property
    def _problem(self) -> Problem:
        return self.instances.problem

    @property
    def _own(self) -> LogLinearModel:
        return self._problem.models[1 + self.band.over]

    @cached_property
    def _others(self) -> list[Constraint]:
        return [c for j, c in enumerate(self._problem.constraints) if j != self.band.over]

    @cached_property
    def _tables(self) -> PricedLayout:
        return PricedLayout.of(self._problem.models[0], self._own)

    @cached_property
    def unit(self) -> float:
        """The size of a multiplier: how much h varies against how much t does."""
        return self._tables.unit

    def price(self, mu: float, seconds: float, *, apart: bool = False) -> Values | None:
        """The best h - mu t: a line for the band, and the answer (1, n) if there is one.

        Bound and answer may come from one solve, or `apart` from the shared split and search.
        """
        finite = np.isfinite(self.band.t)
        start = self._best(self.band.h - mu * np.where(finite, self.band.t, 0.0), finite)
        problem = self._posed(self._tables.at(mu), self._others)
        method = "search" if apart else "auto"
        found = self._solved(
            problem, (1.0 - WIDE_FRONTS.split_share * apart) * seconds, start, method
        )
        bound = float(found.bound[0])
        if apart:
            bound = min(
                bound, self.split.bound(self._given(problem), WIDE_FRONTS.split_share * seconds)
            )
        self.band.add_line(mu, bound)
        if mu == 0.0:  # that speaks of t = -inf too
            self.band.floor = min(self.band.floor, bound)
        return found.assignments if found.feasible[0] else None

    def limit(self, q: float, seconds: float) -> Values | None:
        """The best h with t <= q, which bounds every lower limit; the answer, if there is one."""
        start = self._best(self.band.h, self.band.t <= q)
        found = self._solved(self._limited(q), seconds, start)
        self.band.add_end(loosened(q), float(found.bound[0]))
        return found.assignments if found.feasible[0] else None

    def least(self, seconds: float) -> Values | None:
        """The least finite t: nothing but t = -inf is below it; the answer, if there is one."""
        start = self._best(-self.band.t, np.isfinite(self.band.t))
        problem = self._posed(self._tables.negated(), self._others)
        found = self._solved(problem, seconds, start)
        bound = -float(found.bound[0])
        if math.isfinite(bound):
            bound -= ROUNDING * (1.0 + abs(bound))
        self.band.least = max(self.band.least, bound)
        return found.assignments if found.feasible[0] else None

    def lowest(self, seconds: float) -> None:
        """The best h with t = -inf: the floor of the band."""
        start = self._best(self.band.h, np.isneginf(self.band.t))
        found = self._solved(self._limited(below_finite(self._own)), seconds, start)
        self.band.floor = min(self.band.floor, float(found.bound[0]))

    def enlarge_split(self, spent: float, seconds: float) -> bool:
        """Make a split for all multipliers, or a larger one; whether there is a new one."""
        problem = self._posed(self._tables.at(self.unit), self._others)
        return self.split.enlarge(self._given(problem), spent, seconds)

    def _posed(self, objective: LogLinearModel, constraints: list[Constraint]) -> Problem:
        return Problem(objective, constraints, self._problem.evidence_variables)

    def _given(self, problem: Problem) -> Instances:
        return Instances(problem, self.instances.evidence)

    def _limited(self, q: float) -> Problem:
        own = self._problem.constraints[self.band.over]
        return self._posed(self._problem.models[0], [replace(own, at_most=q), *self._others])

    def _best(self, value: Floats, allowed: NDArray[np.bool_]) -> Values | None:
        """The point (1, n) of the highest value among those that are allowed."""
        if not allowed.any():
            return None
        return self.band.rows[[int(np.argmax(np.where(allowed, value, -np.inf)))]]

    def _solved(
        self, problem: Problem, seconds: float, start: Values | None, method: str = "auto"
    ) -> Solutions:
        told = replace(self.limits, seconds=seconds, progress=None, start=start)
        try:
            found = answer(problem, self.instances.evidence, method, told)
        except TooLarge:
            if method == "auto":
                raise
            found = answer(problem, self.instances.evidence, "auto", told)
        if found.feasible[0]:
            self.band.add(found.assignments)
        return found
