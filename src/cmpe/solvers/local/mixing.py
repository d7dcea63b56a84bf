"""`mixed`: of several answers to a row the best mixture, which is often better than all of them.

Let a and b be two answers. The variables in which they differ fall into components, with an edge
between two variables that a table holds. No table holds variables of two components, so each
changes h and every t_j on its own, whatever the others do, and taking some of them from b is a
knapsack: components that gain h at no cost are taken; of those that trade h for room under the
limits the steepest come first, and around the first that does not fit all choices are looked at
(the core of a knapsack, Balas and Zemel 1980). The best answer is mixed with the others in turn.
Large models gain most, because answers that are as good as one another are good in different
places. `tradeoffs.wide.relinking` makes whole fronts of two answers by the same law.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cmpe.arrays import Assignments
from cmpe.core.settings import LOCAL
from cmpe.errors import MethodError
from cmpe.execution.threads import over_threads
from cmpe.problem import Instances
from cmpe.problem.starts import checked
from cmpe.solvers.local.graph import Rules, compiled


def mixed(
    instances: Instances,
    answers: Sequence[Assignments],
    *,
    trades: int = 0,
    threads: int = 1,
) -> Assignments:
    """Mixtures (B, n) of answers (B, n) without gaps; none is worse than the best of its row.

    Then there are at most so many rounds of `trades`: each answer is mixed with what it is with
    other values in many variables at once, so that a knapsack tells which single moves are made
    together. Where no answer to a row is feasible, the one nearest to it is taken as it is.
    """
    every: Assignments = np.stack([checked(instances, rows) for rows in answers])
    if (every < 0).any():
        raise MethodError("answers to be mixed need a value for every variable, found -1")
    graph, gather = compiled(instances.conditioning)
    rules = Rules.of(instances.problem)
    out: Assignments = every[0].copy()

    def part(rows: slice) -> slice:
        from cmpe.core.mixtures import blend

        blend(instances.evidence[rows], graph, gather, rules, every[:, rows], trades, out[rows])
        return rows

    chunks = [slice(a, min(a + LOCAL.chunk, len(out))) for a in range(0, len(out), LOCAL.chunk)]
    for _ in over_threads(part, chunks, threads):
        pass
    return out
