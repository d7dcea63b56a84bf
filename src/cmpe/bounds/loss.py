"""Bounds for alpha_x of the self-supervised loss (paper §4, supplement A).

In the minimisation form f = C - h and g_j = t_j - q_j, with v = sum over j of max(0, g_j),

    p* = min f      subject to every g_j <= 0        p_upper >= p*
    q* = min f + v  subject to some  g_j >  0        q_lower <= q*

`loss_bounds` gives a tight p_upper, the f of a feasible answer. `printed_bounds` gives the
paper's: the greatest f of any assignment, which is far above p* and which training may lower. Both
have the same q_lower where elimination fits. Where it does not, `loss_bounds` refuses, and
`printed_bounds` has both from

    log-linear models           mini-buckets, as the paper does
    variables in [0, 1]         reformulation-linearisation
    functions without tables    spans: linear bounds of networks, layer by layer
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.base import Bounder, Work
from cmpe.bounds.lagrangian import Batch, feasible_losses, lagrangian_dual
from cmpe.bounds.minibucket import MiniBucket
from cmpe.bounds.rlt import Rlt
from cmpe.bounds.spans import spans_of
from cmpe.errors import MethodError
from cmpe.models.conditioning import Gathers
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Constraint, Form, Instances


@dataclass(frozen=True)
class LossBounds:
    """p_upper and q_lower of every row; NaN where the row is infeasible or nothing violates."""

    p_upper: Floats  # (B,)
    q_lower: Floats  # (B,)


def loss_bounds(instances: Instances, *, threads: int = 1) -> LossBounds:
    """p_upper and q_lower of every row of a training set (see LossBounds).

    p_upper is f of the dual's feasible answer; where there is none, the greatest finite f, which
    every feasible f is below. q_lower
    relaxes g > 0: f + g = C - q - (h - t), so it is C - q - max of h - t subject to t >= q, by
    the same dual; f >= 1 and g > 0 make 1 a bound too. Several constraints: f + sum of
    max(0, g_j) is at least the least f + g_j of a violated one.
    """
    dual = lagrangian_dual(instances, threads=threads)
    problem = instances.problem
    p_upper = feasible_losses(problem, dual.feasible)
    unknown = np.isnan(p_upper) & ~dual.infeasible
    if unknown.any():
        p_upper[unknown] = greatest_losses(Instances(problem, instances.evidence[unknown]), threads)
    return LossBounds(p_upper, _least_violating(instances, threads))


def printed_bounds(instances: Instances, *, threads: int = 1, narrow: bool = True) -> LossBounds:
    """p_upper is the greatest f of every row, with no regard to the constraints.

    `narrow`: whether elimination fits. Where it does not, mini-buckets or a linear program
    bound -h for p_upper and, with Lagrange multipliers, h - t subject to t >= q for q_lower.
    """
    problem = instances.problem
    if problem.form is Form.OTHER:
        return _span_bounds(instances)
    if narrow and problem.has_tables:
        greatest = greatest_losses(instances, threads)
        return LossBounds(greatest, _least_violating(instances, threads))
    if problem.form not in _RELAXED:
        raise MethodError("mini-buckets need log-linear functions")
    bounder, shifts = _RELAXED[problem.form]
    h = problem.objective
    assert isinstance(h, LogLinearModel)
    loosest = replace(problem, objective=negated(h), constraints=())
    plain = Work(steps=shifts and 0, threads=threads)
    upper = bounder.upper_bound(loosest.given(instances.evidence), plain).upper
    work, q_lower = Work(steps=shifts, threads=threads), np.full(len(instances), np.nan)
    for j in range(len(problem.constraints)):
        q_lower = np.fmin(q_lower, _wide_least_infeasible(instances, j, bounder, work))
    return LossBounds(problem.shift + upper, q_lower)


# By form of the problem: a relaxation, and how many steps its multipliers get; None: until solved.
_RELAXED: Mapping[Form, tuple[Bounder, int | None]] = {
    Form.TABLES: (MiniBucket(), 30),
    Form.CONTINUOUS: (Rlt(), None),
}


def _span_bounds(instances: Instances) -> LossBounds:
    """f alone bounds f + v: spans bound one function at a time."""
    problem = instances.problem
    objective, *others = spans_of(instances)
    can_violate = np.zeros(len(instances), dtype=bool)
    for span, limit in zip(others, problem.limits, strict=True):
        can_violate |= span.high > limit
    least = np.maximum(problem.shift - objective.high, 1.0)
    return LossBounds(problem.shift - objective.low, np.where(can_violate, least, np.nan))


def negated(model: LogLinearModel) -> LogLinearModel:
    """-model, and -inf again where the model is -inf: what it forbids stays forbidden."""
    tables = (np.where(np.isneginf(f.log_table), -np.inf, -f.log_table) for f in model.factors)
    factors = (Factor(f.scope, t) for f, t in zip(model.factors, tables, strict=True))
    return LogLinearModel(model.cardinalities, tuple(factors))


def _wide_least_infeasible(instances: Instances, j: int, bounder: Bounder, work: Work) -> Floats:
    """`_least_infeasible` by a relaxation: C - q less a bound of h - t subject to t >= q.

    An assignment with t = -inf never violates: it is forbidden in h - t.
    """
    problem, constraint = instances.problem, instances.problem.constraints[j]
    h, t = problem.objective, constraint.function
    assert isinstance(h, LogLinearModel)
    assert isinstance(t, LogLinearModel)
    less_t = negated(t)
    objective = LogLinearModel(h.cardinalities, (*h.factors, *less_t.factors))
    opposite = replace(
        problem,
        objective=objective,
        constraints=(Constraint(less_t, -constraint.at_most),),
    )
    bounds = bounder.upper_bound(opposite.given(instances.evidence), work)
    bound = problem.shift - constraint.at_most - np.where(bounds.infeasible, 0.0, bounds.upper)
    return np.where(bounds.infeasible, np.nan, np.maximum(bound, 1.0))


def _least_violating(instances: Instances, threads: int) -> Floats:
    """q_lower: the least over the constraints, NaN where nothing violates."""
    q_lower = np.full(len(instances), np.nan)
    for j in range(len(instances.problem.constraints)):
        q_lower = np.fmin(q_lower, _least_infeasible(instances, j, threads))
    return q_lower


def _by_branch(
    instances: Instances, losses: Callable[[Instances], Floats], combine: np.ufunc
) -> Floats:
    """`combine` the values of f that `losses` finds in each branch: (B,), NaN where none does.

    A branch has its own C in f = C - h.
    """
    problem, rows = instances.problem, instances.full()
    out = np.full(len(instances), np.nan)
    for branch in problem.branches:
        numbers = np.flatnonzero(branch.agrees(rows))
        if len(numbers):
            bounds = losses(branch.instances(rows[numbers])) - branch.problem.shift + problem.shift
            out[numbers] = combine(out[numbers], bounds)
    return out


def greatest_losses(instances: Instances, threads: int) -> Floats:
    """An upper bound of every finite f: (B,), NaN where h allows nothing."""
    if not instances.problem.is_log_linear:
        return _by_branch(instances, lambda part: greatest_losses(part, threads), np.fmax)
    from cmpe.core import loss as kernels

    batch = Batch(instances)
    least = np.zeros(len(instances))

    def work(rows: slice) -> None:
        unconstrained = batch.rows(rows)._replace(limits=np.zeros(0))
        kernels.least_batch(unconstrained, least[rows])

    batch.run(work, threads)
    return np.where(np.isfinite(least), instances.problem.shift - least, np.nan)


def _least_infeasible(instances: Instances, j: int, threads: int) -> Floats:
    """A lower bound of f + g_j subject to g_j > 0: (B,), NaN where nothing violates."""
    if not instances.problem.is_log_linear:
        return _by_branch(instances, lambda part: _least_infeasible(part, j, threads), np.fmin)
    from cmpe.core import loss as kernels
    from cmpe.core.dual import INFEASIBLE

    batch = Batch(instances)
    upper, kind = np.zeros(len(instances)), np.zeros(len(instances), dtype=np.int64)
    parts = instances.conditioning.gathers
    gathers = Gathers.of([parts[0], parts[1 + j]])
    limit = instances.problem.constraints[j].at_most

    def work(rows: slice) -> None:
        one = batch.rows(rows)._replace(gathers=gathers, limits=np.full(1, limit), finite=True)
        kernels.opposite_batch(one, upper[rows], kind[rows])

    batch.run(work, threads)
    none = kind == INFEASIBLE
    upper[none] = 0.0
    bound = instances.problem.shift - limit - upper
    return np.where(none, np.nan, np.maximum(bound, 1.0))
