"""Queries that are special cases of CMPE (paper §1-2).

A decision function D decides d where D(z) > 0 and not-d elsewhere. The feasibility test has a
tolerance, so both sides are posed with it taken off: D <= 0, and D > 0 by at least 1e-7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.flip import AT_MOST_ZERO, adversarial
from cmpe.models.constraint import Bounded
from cmpe.models.function import Function, as_rows
from cmpe.models.linear import State, count, linear
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import FEASIBILITY_TOLERANCE, Problem
from cmpe.tradeoffs.counterfactual import Case, Costs, Counterfactual, cheapest

__all__ = [
    "Query",
    "adversarial",
    "agreeable_explanation",
    "counterfactual",
    "decision_preserving_mpe",
    "explanation_with_few",
    "explanation_within_budget",
    "mpe",
    "nearest_assignment",
    "smallest_flip",
]

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


@overload
def counterfactual(
    model: LogLinearModel,
    case: Mapping[Any, State],
    target: Mapping[Any, State],
    at_least: float,
    costs: Costs | None = None,
    immutable: Collection[str | int] = (),
) -> Query: ...
@overload
def counterfactual(
    model: Function,
    case: Mapping[Any, State],
    target: Mapping[Any, State],
    *,
    probability: float,
    costs: Costs | None = None,
    immutable: Collection[str | int] = (),
    time_limit: float | None = None,
) -> Counterfactual: ...
def counterfactual(  # noqa: PLR0913
    model: Any,
    case: Mapping[Any, State],
    target: Mapping[Any, State],
    at_least: float | None = None,
    costs: Costs | None = None,
    immutable: Collection[str | int] = (),
    *,
    probability: float | None = None,
    time_limit: float | None = None,
) -> Query | Counterfactual:
    """The cheapest change to a case that leads to the target: likely, or jointly plausible.

    `probability` = p asks that P(target | the case after the change) >= p; whatever is neither in
    the case nor in the target is summed out. The change itself is returned, proved to be the
    cheapest unless `time_limit` (seconds) ends the search.

    `at_least` asks for a problem instead: maximise -(cost of the changed variables)  subject to
    h >= at_least, where the target's variables have their new states, and variables outside the
    case are free. It may assume that the target comes true by luck.

    `costs` has a price for each variable that may change, or one for each state that it may change
    to; without it each of the case costs 1. `immutable` ones keep their states.
    """
    known = Case.of(model.domain, case, target, costs, immutable)
    if probability is not None and at_least is None:
        return cheapest(model, known, probability, time_limit)
    if at_least is None or probability is not None or time_limit is not None:
        raise ModelError(
            "a counterfactual needs probability=0.5, say, or at_least=-20.0, and one of them; a "
            "time_limit goes with probability"
        )
    problem = Problem(
        known.minus_cost(), [model >= at_least], sorted(known.kept | known.target), "counterfactual"
    )
    return Query(problem, known.named(known.kept | known.target))


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


def reference_values(domain: Domain, reference: Sequence[int] | Mapping[Any, State]) -> list[int]:
    """A whole assignment as numbers, given by names and states or as numbers in order."""
    if not isinstance(reference, Mapping) and len(reference) != domain.variables:
        raise ModelError(f"a reference needs {domain.variables} values, found {len(reference)}")
    values = as_rows(reference, domain)[0].tolist()
    for v, (size, value) in enumerate(zip(domain.cardinalities, values, strict=True)):
        if not 0 <= value < size:
            raise ModelError(
                f"reference value of {domain.called(v)} must be below {size}, found {value}"
            )
    return [int(value) for value in values]


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
