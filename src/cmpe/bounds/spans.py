"""Lower and upper bounds of functions of any kind, given evidence.

Nothing relates the functions of a problem to each other here: a span costs one pass over the
tables or layers. A new kind of function registers its own.
"""

from __future__ import annotations

from functools import singledispatch
from typing import NamedTuple

import numpy as np

from cmpe.arrays import FREE, Floats, Values
from cmpe.bounds.base import Bounds, Work
from cmpe.errors import ModelError
from cmpe.models.conditioning import Conditioning
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.neural import NeuralFunction
from cmpe.problem import Instances


class Span(NamedTuple):
    """low <= every finite value <= high of each row: (B,) each."""

    low: Floats
    high: Floats


@singledispatch
def span_of(function: Function, rows: Values) -> Span:
    """The span of a function for rows (B, n), -1 where free, that observe the same variables."""
    raise ModelError(f"there is no bound for a function of kind {type(function).__name__}")


@span_of.register
def _span_of_module(function: NeuralFunction, rows: Values) -> Span:
    return Span(*function.span(rows))


@span_of.register
def _span_of_tables(function: LogLinearModel, rows: Values) -> Span:
    """Of each table alone; a variable with a fraction counts as free."""
    whole = (rows == np.floor(rows)).all(axis=0) & (rows != FREE).all(axis=0)
    fixed = np.flatnonzero(whole)
    structure = Conditioning([function], tuple(fixed.tolist()))
    tables = structure.tables(0, rows[:, fixed].astype(np.int32))
    starts = structure.layout.offsets[:-1]
    none = np.isneginf(tables)
    lows = np.minimum.reduceat(np.where(none, np.inf, tables), starts, axis=1)
    highs = np.maximum.reduceat(tables, starts, axis=1)
    return Span(lows.sum(axis=1), highs.sum(axis=1))


@span_of.register
def _span_of_distance(function: Distance, rows: Values) -> Span:
    first, second = (rows[:, column].astype(np.float64) for column in function.columns)
    one, other = first == FREE, second == FREE
    given = np.where(one, second, first)  # the observed end, if there is one
    most = np.where(one | other, np.maximum(given, 1.0 - given), np.abs(first - second))
    most = np.where(one & other, 1.0, most)
    least = np.where(one | other, 0.0, most)
    weights = np.array(function.weights)
    return Span(-(most @ weights), -(least @ weights))


def spans_of(instances: Instances) -> tuple[Span, ...]:
    """Of every function of a problem."""
    rows = instances.full()
    return tuple(span_of(function, rows) for function in instances.problem.functions)


class Spans:
    """The highest that the objective can be alone; a constraint that cannot be met is noticed."""

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row."""
        objective, *others = spans_of(instances)
        problem, out = instances.problem, Bounds.empty(len(instances), len(others))
        most = problem.limits + problem.tolerances
        for span, limit in zip(others, most, strict=True):
            np.logical_or(out.infeasible, span.low > limit, out=out.infeasible)
        np.logical_or(out.infeasible, np.isneginf(objective.high), out=out.infeasible)
        out.upper[:] = np.where(out.infeasible, -np.inf, objective.high)
        return out
