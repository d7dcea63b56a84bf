"""Upper bounds for each value of each variable, by which variables are fixed.

At the best multipliers of a relaxation, the best total in which some copy of v takes the value k
is an upper bound on h of every feasible assignment with z_v = k. Where it lies below the value of
a feasible answer, k is out (reduced-cost fixing).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.base import Work, clock, loosened_limits, row_tables
from cmpe.bounds.descent import RelaxedRow
from cmpe.bounds.relaxation import Relaxation
from cmpe.core.copies import CARD
from cmpe.problem import Instances


@dataclass(frozen=True)
class ValueBounds:
    """Of one row: the bound, and one for every value of every free variable."""

    upper: float  # -inf: proved infeasible
    values: tuple[Floats, ...]  # in the order of conditioning.free
    split: tuple[bool, ...]  # whether the variable has several copies


def value_bounds(instances: Instances, relaxation: Relaxation, work: Work) -> ValueBounds:
    """Minimise the bound of one row, then take every value's max-marginal there."""
    structure = instances.conditioning
    row = RelaxedRow(relaxation, loosened_limits(instances))
    row.begin(row_tables(instances, slice(0, 1))[0], even=True)
    upper = -np.inf
    if not row.impossible():
        row.work(work, 0, clock())
        upper = row.certified()
    copies = Counter(relaxation.decided)
    split = tuple(copies[v] > 1 for v in structure.free)
    if upper == -np.inf:
        nothing = (np.full(structure.cardinalities[v], -np.inf) for v in structure.free)
        return ValueBounds(upper, tuple(nothing), split)
    best = _least_of_copies(row, relaxation, upper)
    return ValueBounds(upper, tuple(best[v] for v in structure.free), split)


def _least_of_copies(row: RelaxedRow, relaxation: Relaxation, upper: float) -> dict[int, Floats]:
    """Each variable's max-marginals, the least over its copies, safe against rounding."""
    from cmpe.core import marginals as marginals_kernels
    from cmpe.core import relaxation as relaxation_kernels

    relaxed, numbers, winners = row.relaxed, row.state.values, row.state.winners
    starts = np.concatenate([[0], np.cumsum(relaxed.buckets[:, CARD])]).astype(np.int64)
    outside, marginal = np.zeros(relaxed.total - relaxed.numbers), np.zeros(int(starts[-1]))
    tables = (relaxed.buckets, relaxed.places, relaxed.numbers, numbers, winners)
    total = relaxation_kernels.sweep(*tables)
    marginals_kernels.max_marginals(relaxed, numbers, total, starts, outside, marginal)
    marginal += upper - total + 4.0 * relaxation_kernels.rounding(relaxed, numbers)
    best: dict[int, Floats] = {}
    for k, variable in enumerate(relaxation.decided):
        own = marginal[starts[k] : starts[k + 1]]
        if variable >= 0:
            best[variable] = np.minimum(best[variable], own) if variable in best else own
    return best
