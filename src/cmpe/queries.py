"""Queries that are special cases of CMPE (paper §1-2), each one line of reduction.

A decision function D decides d where D(z) > 0 and not-d elsewhere. The feasibility test has a
tolerance, so both sides are posed with it taken off: D <= 0, and D > 0 by at least 1e-7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import ModelError
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin
from cmpe.models.relu import ReluNetwork
from cmpe.problem import FEASIBILITY_TOLERANCE, Constraint, Problem

AT_MOST_ZERO = -FEASIBILITY_TOLERANCE  # Exactly D <= 0: the tolerance brings it back to 0.
FLIP_MARGIN = 1e-3  # Another class must win by this difference of logits.
ABOVE_ZERO = FEASIBILITY_TOLERANCE + 1e-7  # D is at least 1e-7 once the tolerance is used up.


def mpe(model: Function, evidence_variables: Sequence[int] = ()) -> Problem:
    """Most probable explanation: maximise h(x, y), no constraint."""
    return Problem(model, (), tuple(evidence_variables), name="mpe")


def nearest_assignment(
    model: LogLinearModel,
    reference: Sequence[int],
    at_least: float,
    evidence_variables: Sequence[int] = (),
) -> Problem:
    """Fewest changes to `reference` such that the log-weight h reaches `at_least`.

    maximise -(number of changed variables)  subject to  -h <= -at_least, where h = -inf is
    forbidden by the objective (Rouhani, Rahman, Gogate 2018).
    """
    distance = minus_hamming(model.cardinalities, reference)
    return _at_least(distance, model, at_least, evidence_variables, "nearest assignment")


def decision_preserving_mpe(
    model: LogLinearModel,
    decision: LogLinearModel,
    positive: bool,
    evidence_variables: Sequence[int] = (),
) -> Problem:
    """Most likely completion of the evidence that keeps the decision: D > 0 iff `positive`.

    maximise h  subject to  D > 0 (keep d)  or  D <= 0 (keep not-d)
    (Choi, Xue, Darwiche 2012).
    """
    return _with_decision(model, decision, positive, evidence_variables, "decision-preserving mpe")


def smallest_flip(
    decision: LogLinearModel,
    reference: Sequence[int],
    evidence_variables: Sequence[int] = (),
) -> Problem:
    """Fewest changes to `reference` that turn the decision D > 0 into D <= 0, or back.

    maximise -(number of changed variables)  subject to  D <= 0  or  D > 0.
    """
    distance = minus_hamming(decision.cardinalities, reference)
    is_positive = bool(decision.value(np.asarray(reference))[0] > 0)
    return _with_decision(distance, decision, not is_positive, evidence_variables, "smallest flip")


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


def minus_hamming(cardinalities: Sequence[int], reference: Sequence[int]) -> LogLinearModel:
    """-(number of variables that differ from `reference`), as a log-linear model."""
    if len(reference) != len(cardinalities):
        raise ModelError(f"a reference needs {len(cardinalities)} values, found {len(reference)}")
    factors = []
    for variable, (size, value) in enumerate(zip(cardinalities, reference, strict=True)):
        if not 0 <= value < size:
            raise ModelError(
                f"reference value of variable {variable} must be below {size}, found {value}"
            )
        table = np.full(size, -1.0)
        table[value] = 0.0
        factors.append(Factor((variable,), table))
    return LogLinearModel(tuple(cardinalities), tuple(factors))


def _with_decision(
    objective: LogLinearModel,
    decision: LogLinearModel,
    positive: bool,
    evidence_variables: Sequence[int],
    name: str,
) -> Problem:
    if positive:
        return _at_least(objective, decision, ABOVE_ZERO, evidence_variables, name)
    constraint = Constraint(decision, AT_MOST_ZERO)
    return Problem(objective, (constraint,), tuple(evidence_variables), name)


def _at_least(
    objective: LogLinearModel,
    function: LogLinearModel,
    threshold: float,
    evidence_variables: Sequence[int],
    name: str,
) -> Problem:
    """Maximise `objective` subject to function >= threshold; -inf never reaches it."""
    minus, support = function.negated()
    constraint = Constraint(minus, -threshold)
    return Problem(objective + support, (constraint,), tuple(evidence_variables), name)
