"""The least change of an input that flips a network's decision, as a problem (paper §5.4)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import ModelError
from cmpe.models.distance import Distance
from cmpe.models.neural import ClassMargin
from cmpe.models.relu import ReluNetwork
from cmpe.problem import FEASIBILITY_TOLERANCE, Constraint, Problem

AT_MOST_ZERO = -FEASIBILITY_TOLERANCE  # Exactly t <= 0: the tolerance brings it back to 0.
FLIP_MARGIN = 1e-3  # Another class must win by this difference of logits.


def adversarial(network: ReluNetwork, margin: float = FLIP_MARGIN) -> Problem:
    """The least change of an input x in [0, 1]^n that flips a network's decision (paper §5.4).

    Variables 0..n-1 are x, given as evidence; n..2n-1 are x'. maximise -sum of |x - x'|  subject
    to  margin(x') <= -`margin`, where margin(x') is of the class that the network gives x. A flip
    that is only just one is undone by rounding, so a little more is asked for.
    """
    if not 0.0 <= margin < np.inf:
        raise ModelError(f"a margin must be at least 0 and finite, found {margin}")
    count = network.inputs
    original, changed = tuple(range(count)), tuple(range(count, 2 * count))
    function = ClassMargin(network, original, changed, (2,) * (2 * count))
    return Problem(
        Distance.between(original, changed, 2 * count),
        (Constraint(function, AT_MOST_ZERO - margin),),
        original,
        "adversarial",
        original + changed,
    )


class Flip(NamedTuple):
    """What an adversarial problem is made of."""

    network: ReluNetwork
    original: NDArray[np.intp]  # place in the evidence of each input of the network
    changed: NDArray[np.intp]  # place among the free variables of each input
    margin: float  # least margin of any feasible answer, tolerance included


def flip_of(problem: Problem) -> Flip | None:
    """The parts of a problem that `adversarial` could have built; None for any other."""
    parts = problem.constraints
    if not isinstance(problem.objective, Distance) or len(parts) != 1:
        return None
    margin, reach = parts[0].function, -(parts[0].at_most + parts[0].tolerance)
    if not isinstance(margin, ClassMargin) or reach < 0.0:
        return None
    first, second = problem.objective.columns
    partner = dict(zip(second.tolist(), first.tolist(), strict=True))
    expected = dict(zip(margin.changed, margin.original, strict=True))
    if partner != expected or len(second) != len(margin.changed):
        return None
    if set(problem.objective.weights) != {1.0}:
        return None
    if not {*margin.original, *margin.changed} <= set(problem.continuous):
        return None
    observed = {v: k for k, v in enumerate(problem.evidence_variables)}
    free = {v: k for k, v in enumerate(problem.free)}
    if set(free) != set(margin.changed) or not set(margin.original) <= set(observed):
        return None
    return Flip(
        margin.network,
        np.array([observed[v] for v in margin.original], dtype=np.intp),
        np.array([free[v] for v in margin.changed], dtype=np.intp),
        reach,
    )
