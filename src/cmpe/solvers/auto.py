"""`auto`: the cheapest method that proves the gap asked for, row by row.

The rule:
1. Under several constraints, rows with few completions are enumerated by `exhaustive`.
2. Without a gap, every other row goes to `exact`, whatever its width.
3. If a gap above 0 is asked for and elimination is cheap, `lagrangian` answers first. Rows whose
   certified gap is small enough are done; the others go to `exact`.
4. If a gap above 0 is asked for and elimination is not cheap (`exact.too_wide`), `search` answers
   and the splitting bound certifies it. Rows whose gap is small enough are done; the others go
   through what `exact` does with wide rows: `reduction`, which stops at the gap, then MILP.
Of every row the best answer and the lowest bound of all methods are kept. `Solutions.method` says
which of them ran.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cmpe.bounds.base import Work
from cmpe.bounds.splitting import Splitting, by_size
from cmpe.core.settings import EXACT
from cmpe.errors import Interrupted, TooLarge
from cmpe.problem import Instances
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.exact import too_wide
from cmpe.solvers.exact.complete import Exact, answer_wide, prove_wide
from cmpe.solvers.exhaustive import enumerate_rows, is_cheap
from cmpe.solvers.lagrangian import DualAnswers
from cmpe.solvers.reduction import first_answers
from cmpe.solvers.stages import certified, incumbents, merged


@dataclass(frozen=True)
class Auto:
    """Chooses by the rule above."""

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """One answer per row, each by the cheapest method that is good enough."""
        if is_cheap(instances.problem):
            return enumerate_rows(instances, limits)
        if limits.gap == 0.0:
            return Exact().answer(instances, limits)
        if too_wide(instances.problem, limits):
            if limits.seconds is not None:
                return answer_wide(instances, limits)
            known = _with_splitting_bound(instances, first_answers(instances, limits), limits)
            return prove_wide(instances, known, limits)
        quick = DualAnswers().answer(instances, replace(limits, seconds=None))
        rest = np.flatnonzero(~certified(quick, limits.gap))
        return _finish(instances, quick, rest, limits) if len(rest) else quick


def _finish(instances: Instances, quick: Solutions, rest: np.ndarray, limits: Limits) -> Solutions:
    """Let `exact` answer the rows `rest`; of both answers and bounds the better is kept."""
    part = quick.take(rest)
    told = replace(limits, gap=0.0, start=incumbents(part), progress=None)

    def joined(more: Solutions) -> Solutions:
        names = np.where(more.seconds > 0, more.method, part.method).tolist()
        return quick.replaced(rest, merged(instances.problem, part, more, names))

    try:
        return joined(Exact().answer(instances.take(rest), told))
    except Interrupted as stop:
        finished = len(quick) - len(rest) + stop.finished
        raise Interrupted(joined(stop.solutions), finished) from None


def _with_splitting_bound(instances: Instances, known: Solutions, limits: Limits) -> Solutions:
    """What is known of wide rows, with the splitting bound."""
    seconds = None if limits.seconds is None else EXACT.bound_share * limits.seconds
    try:
        split = by_size(instances.conditioning, Work(EXACT.split_seconds, seed=limits.seed))
        work = Work(seconds, EXACT.split_steps, limits.cores, limits.seed)
        found = Splitting(split).upper_bound(instances, work)
    except TooLarge:  # no split is small enough
        return known
    except KeyboardInterrupt:
        raise Interrupted(known, 0) from None
    bound = Solutions.of(
        instances.problem,
        np.full_like(known.assignments, -1),
        bound=found.upper,
        infeasible=found.infeasible,
        seconds=found.seconds,
    )
    return merged(instances.problem, known, bound, "search+splitting")
