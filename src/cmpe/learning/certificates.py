"""Upper bounds beside a network's answers, by the names that `NeuralSolver.with_stages` takes.

    none        no bound
    predicted   D(mu) at the predicted multiplier: one elimination
    optimal     the least D(mu): some ten eliminations

Where elimination is too wide, both bounds come from vertex splitting; adversarial problems are
bounded by a linear relaxation of the classifier, others without tables by `cmpe.bound`. A new
certificate is one more row of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.bounding import bound
from cmpe.bounds import Work
from cmpe.bounds.lagrangian import dual_bound, lagrangian_dual, lane_bytes
from cmpe.bounds.networks.margins import distance_lower_bound
from cmpe.errors import MethodError, ModelError, TooLarge
from cmpe.flip import flip_of
from cmpe.learning.settings import TRAINING
from cmpe.problem import Instances
from cmpe.solvers.flips import images_of


class Certified(NamedTuple):
    """What is proved of every row."""

    bound: Floats  # (B,): no feasible assignment has a higher objective
    infeasible: NDArray[np.bool_]  # (B,): no assignment is feasible


# (instances, predicted multipliers (B, m) or None, cores)
Certificate = Callable[[Instances, Floats | None, int], Certified]


def _nothing(instances: Instances) -> Certified:
    return Certified(np.full(len(instances), np.inf), np.zeros(len(instances), dtype=bool))


def _none(instances: Instances, multipliers: Floats | None, cores: int) -> Certified:
    return _nothing(instances)


def _predicted(instances: Instances, multipliers: Floats | None, cores: int) -> Certified:
    def eliminate() -> Certified:
        assert multipliers is not None
        bounds = dual_bound(instances, multipliers, threads=cores)
        return Certified(bounds, _nothing(instances).infeasible)

    if multipliers is None and instances.problem.has_tables:
        raise MethodError(
            "this network predicts no multiplier; ask for certificate 'optimal' or 'none'"
        )
    return _proved(instances, cores, eliminate)


def _optimal(instances: Instances, multipliers: Floats | None, cores: int) -> Certified:
    def eliminate() -> Certified:
        dual = lagrangian_dual(instances, threads=cores)
        return Certified(dual.bound, dual.infeasible)

    return _proved(instances, cores, eliminate)


def _proved(instances: Instances, cores: int, eliminate: Callable[[], Certified]) -> Certified:
    """By elimination where the problem has tables and is narrow enough for it."""
    problem = instances.problem
    if not problem.has_tables:
        return _without_tables(instances)
    if problem.is_log_linear and lane_bytes(problem) > TRAINING.quick_bytes:
        work = Work(time_limit=TRAINING.bound_seconds, threads=cores)
        split = bound(problem, instances.evidence, method="splitting", work=work)
        return Certified(split.upper, split.infeasible)
    try:
        return eliminate()
    except TooLarge:
        return _nothing(instances)


def _without_tables(instances: Instances) -> Certified:
    """Of adversarial problems: how far at least any flip is, by linear relaxation."""
    flip = flip_of(instances.problem)
    if flip is None:
        try:
            found = bound(instances.problem, instances.full())
        except ModelError:
            return _nothing(instances)
        return Certified(found.upper, found.infeasible)
    distance = distance_lower_bound(flip.network, images_of(instances, flip), margin=flip.margin)
    return Certified(-distance, np.isposinf(distance))


CERTIFICATES: Mapping[str, Certificate] = {
    "none": _none,
    "predicted": _predicted,
    "optimal": _optimal,
}
