"""`toulbar2:priced`: toulbar2 without constraints, which are priced in the objective instead.

Posting a slack constraint costs toulbar2 its proof. So the row is answered without constraints
first; that answer is the optimum if it is feasible. If it violates a constraint, toulbar2 answers

    h - sum_j mu_j (t_j - q_j)      for multipliers mu that follow t_j - q_j of its answers.

The maximum is an upper bound for any mu >= 0, and the best feasible answer counts. Where the two do
not meet (a duality gap), nothing is proved.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.bounds.base import RowTables, loosened_limits, row_tables
from cmpe.errors import MissingExtra
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Instances, Problem
from cmpe.solution import OPTIMALITY_TOLERANCE, Solutions
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.rows import RowAnswer, solve_rows, start_of
from cmpe.solvers.settings import PROGRAMS
from cmpe.solvers.toulbar2 import CostRow
from cmpe.solvers.wide.prices import PriceSteps

CONFIGURATION = "vac"  # without constraints it proves most


@dataclass(frozen=True)
class PricedToulbar2:
    """toulbar2 with the constraints in the objective (extra `toulbar2`)."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """The best feasible answer of every row, and the least bound, within its limit."""
        if find_spec("pytoulbar2") is None:
            raise MissingExtra.named("toulbar2 (pytoulbar2)", "toulbar2")
        stop = threading.Event()
        job = _PricedRow(instances, limits.of_a_row(), limits.start, stop)
        return solve_rows(instances, job, "toulbar2:priced", limits, one_core=True, stop=stop)


@dataclass(frozen=True)
class _PricedRow:
    """Answers one row."""

    instances: Instances
    limits: Limits
    start: Values | None
    stop: threading.Event

    def __call__(self, row: int) -> RowAnswer:
        instances, clock = self.instances.take(slice(row, row + 1)), Deadline(self.limits)
        tables, problem = row_tables(instances, slice(0, 1))[0], instances.problem
        multipliers = np.zeros(len(problem.constraints))
        steps = PriceSteps.of(tables.units, PROGRAMS.first_step)
        best = start_of(self.start, row, instances.conditioning.free)
        value = -np.inf if best is None else self._judged(instances, best)
        best = best if value > -np.inf else None
        bound, interrupted = np.inf, False
        for _ in range(PROGRAMS.prices):
            left = clock.left()
            seconds = None if left.seconds is None else PROGRAMS.share * left.seconds
            job = CostRow(
                _priced(instances, tables, multipliers),
                replace(left, seconds=seconds),
                None,
                CONFIGURATION,
                self.stop,
            )
            answer = job(0)
            bound = min(bound, answer.bound)
            if answer.infeasible:
                return RowAnswer(None, -np.inf, infeasible=True)
            interrupted = answer.interrupted
            if answer.free_values is None:
                break
            if (judged := self._judged(instances, answer.free_values)) > value:
                best, value = answer.free_values, judged
            if bound <= value + OPTIMALITY_TOLERANCE * max(1.0, abs(value)) or interrupted:
                break
            whole = instances.complete(answer.free_values[np.newaxis])
            slopes = np.array([c.at_most - c.function.value(whole)[0] for c in problem.constraints])
            if clock.expired() or steps.is_idle(multipliers, slopes):
                break
            multipliers = steps.moved(multipliers, slopes)
        return RowAnswer(best, bound, interrupted=interrupted)

    @staticmethod
    def _judged(instances: Instances, values: Values) -> float:
        """The objective of a feasible assignment of the free variables, or -inf."""
        whole, problem = instances.complete(values[np.newaxis]), instances.problem
        is_feasible = problem.is_feasible(whole)[0]
        return float(problem.objective.value(whole)[0]) if is_feasible else -np.inf


def _priced(instances: Instances, tables: RowTables, multipliers: Floats) -> Instances:
    """The row without constraints, with h - sum_j mu_j (t_j - q_j) as its objective."""
    structure, problem = instances.conditioning, instances.problem
    entries = tables.h - multipliers @ tables.t
    offsets, cards = structure.layout.offsets.tolist(), structure.cardinalities
    factors = [
        Factor(scope, entries[a:b].reshape([cards[v] for v in scope]))
        for scope, a, b in zip(structure.scopes, offsets, offsets[1:], strict=False)
    ]
    factors.append(Factor((), np.array(multipliers @ loosened_limits(instances))))
    model = LogLinearModel(cards, tuple(factors))
    return Problem(model, (), problem.evidence_variables).given(instances.evidence)
