"""Queries that are special cases of CMPE (paper §1-2), each one line of reduction.

A decision function D decides d where D(z) > 0 and not-d elsewhere. The feasibility test has a
tolerance, so both sides are posed with it taken off: D <= 0, and D > 0 by at least 1e-7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.constraint import Bounded, limit_of
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.linear import State, count, linear
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin
from cmpe.models.relu import ReluNetwork
from cmpe.problem import FEASIBILITY_TOLERANCE, Constraint, Problem

AT_MOST_ZERO = -FEASIBILITY_TOLERANCE  # Exactly D <= 0: the tolerance brings it back to 0.
FLIP_MARGIN = 1e-3  # Another class must win by this difference of logits.
ABOVE_ZERO = FEASIBILITY_TOLERANCE + 1e-7  # D is at least 1e-7 once the tolerance is used up.


def mpe(model: Function, evidence_variables: Sequence[int | str] = ()) -> Problem:
    """Most probable explanation: maximise h(x, y), no constraint."""
    return Problem(model, (), evidence_variables, name="mpe")


class Query(NamedTuple):
    """A problem with the evidence that belongs to it: `cmpe.solve(*query)`."""

    problem: Problem
    evidence: Mapping[str | int, State]


def explanation_with_few(
    model: Function, findings: Mapping[Any, State | Collection[State]], at_most: float
) -> Problem:
    """Most likely explanation in which at most so many variables have the states given for them.

    maximise h  subject to  count(findings) <= at_most.
    """
    return Problem(model, [count(findings) <= at_most], name="few findings")


def explanation_within_budget(
    model: Function, costs: Mapping[Any, Mapping[Any, float]], budget: float
) -> Problem:
    """Most likely explanation whose states cost no more than the budget.

    maximise h  subject to  sum of the costs of the states <= budget.
    """
    return Problem(model, [linear(costs) <= budget], name="within a budget")


def agreeable_explanation(model: Function, other: Bounded, surprise: float) -> Problem:
    """Most likely under one model, while another finds it at most this surprising.

    maximise h  subject to  -log p(x, y) <= surprise, where log p is the other model.
    """
    return Problem(model, [other >= -surprise], name="agreeable explanation")


def counterfactual(
    model: LogLinearModel,
    case: Mapping[Any, State],
    target: Mapping[Any, State],
    at_least: float,
    costs: Mapping[Any, float] | None = None,
    immutable: Collection[str | int] = (),
) -> Query:
    """Nearest plausible counterfactual: the cheapest changes to a case that lead to the target.

    maximise -(cost of the changed variables)  subject to  h >= at_least, where the target's
    variables have their new states and immutable ones keep theirs. Only variables with a cost may
    be changed; without `costs` each of the case costs 1. Variables outside the case are free.
    """
    domain = model.domain
    known = {domain.variable(v): domain.state(domain.variable(v), s) for v, s in case.items()}
    wanted = {domain.variable(v): domain.state(domain.variable(v), s) for v, s in target.items()}
    fixed = {domain.variable(v) for v in immutable}
    if not wanted or fixed & set(wanted):
        raise ModelError("a target names variables and their new states, none of them immutable")
    prices = dict.fromkeys(known, 1.0) if costs is None else {
        domain.variable(v): limit_of(c, f"the cost of changing {v!r}") for v, c in costs.items()
    }  # fmt: skip
    kept = {v: s for v, s in known.items() if v in fixed or v not in prices}
    unknown = sorted(fixed - set(known))
    if unknown:
        raise ModelError(f"the case must have a state of {domain.called(unknown[0])}")
    evidence = {**kept, **wanted}
    factors = [
        Factor((v,), np.where(np.arange(domain.cardinalities[v]) == known[v], 0.0, -prices[v]))
        for v in prices
        if v in known and v not in evidence
    ]
    distance = LogLinearModel(domain.cardinalities, tuple(factors), domain.names, domain.states)
    problem = Problem(distance, [model >= at_least], sorted(evidence), "counterfactual")
    said = {
        domain.names[v] if domain.names else v: domain.states_of(v)[s] if domain.names else s
        for v, s in evidence.items()
    }
    return Query(problem, said)


def nearest_assignment(
    model: LogLinearModel,
    reference: Sequence[int] | Mapping[Any, State],
    at_least: float,
    evidence_variables: Sequence[int | str] = (),
) -> Problem:
    """Fewest changes to `reference` such that the log-weight h reaches `at_least`.

    maximise -(number of changed variables)  subject to  -h <= -at_least, where h = -inf is
    forbidden by the objective (Rouhani, Rahman, Gogate 2018).
    """
    distance = minus_hamming(model.domain, reference)
    return Problem(distance, [model >= at_least], evidence_variables, "nearest assignment")


def decision_preserving_mpe(
    model: LogLinearModel,
    decision: LogLinearModel,
    positive: bool,
    evidence_variables: Sequence[int | str] = (),
) -> Problem:
    """Most likely completion of the evidence that keeps the decision: D > 0 iff `positive`.

    maximise h  subject to  D > 0 (keep d)  or  D <= 0 (keep not-d)
    (Choi, Xue, Darwiche 2012).
    """
    return _with_decision(model, decision, positive, evidence_variables, "decision-preserving mpe")


def smallest_flip(
    decision: LogLinearModel,
    reference: Sequence[int] | Mapping[Any, State],
    evidence_variables: Sequence[int | str] = (),
) -> Problem:
    """Fewest changes to `reference` that turn the decision D > 0 into D <= 0, or back.

    maximise -(number of changed variables)  subject to  D <= 0  or  D > 0.
    """
    distance = minus_hamming(decision.domain, reference)
    values = reference_values(decision.domain, reference)
    is_positive = bool(decision.value(np.asarray(values))[0] > 0)
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


def reference_values(domain: Domain, reference: Sequence[int] | Mapping[Any, State]) -> list[int]:
    """A whole assignment as numbers, given by names and states or as numbers in order."""
    if isinstance(reference, Mapping):
        numbers = {domain.variable(v): s for v, s in reference.items()}
        if len(numbers) != domain.variables:
            missing = next(v for v in range(domain.variables) if v not in numbers)
            raise ModelError(f"a reference needs a state of {domain.called(missing)}")
        return [domain.state(v, numbers[v]) for v in range(domain.variables)]
    if len(reference) != domain.variables:
        raise ModelError(f"a reference needs {domain.variables} values, found {len(reference)}")
    for v, (size, value) in enumerate(zip(domain.cardinalities, reference, strict=True)):
        if not 0 <= value < size:
            raise ModelError(
                f"reference value of {domain.called(v)} must be below {size}, found {value}"
            )
    return [int(value) for value in reference]


def minus_hamming(domain: Domain, reference: Sequence[int] | Mapping[Any, State]) -> LogLinearModel:
    """-(number of variables that differ from `reference`), as a log-linear model."""
    values = reference_values(domain, reference)
    factors = tuple(
        Factor((v,), np.where(np.arange(size) == values[v], 0.0, -1.0))
        for v, size in enumerate(domain.cardinalities)
    )
    return LogLinearModel(domain.cardinalities, factors, domain.names, domain.states)


def _with_decision(
    objective: LogLinearModel,
    decision: LogLinearModel,
    positive: bool,
    evidence_variables: Sequence[int | str],
    name: str,
) -> Problem:
    condition = decision >= ABOVE_ZERO if positive else decision <= AT_MOST_ZERO
    return Problem(objective, [condition], evidence_variables, name)
