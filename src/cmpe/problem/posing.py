"""From user input to the input of engines: functions matched by name, every limit `t <= q`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cmpe.domain import Domain, Placement, join
from cmpe.errors import ModelError
from cmpe.models.constraint import Condition, Constraint, need_function
from cmpe.models.function import Function
from cmpe.models.linear import Costs, LinearConstraint
from cmpe.models.logic import BoundRule
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.ruled import SMALL_TABLE, RuledModel, under_rules
from cmpe.models.rules import Rule
from cmpe.models.tractable.branching import simplest

Conditions = Sequence[Condition | Sequence[Condition]]  # `between` gives two at once


class Parts(NamedTuple):
    """What a problem was made of, over one domain, before the objective contains the rest."""

    objective: Function
    constraints: tuple[Constraint, ...]  # with the supports that the objective needs for them
    rules: tuple[BoundRule, ...]

    def joined(self) -> tuple[Function, tuple[Constraint, ...]]:
        """The objective with supports and rules, and the constraints.

        Where the objective has no tables, rules are constraints.
        """
        target, limited = _supported(self.objective, self.constraints)
        if hasattr(target, "to_model"):
            return _ruled(target, self.rules), limited
        return target, (*limited, *(_constraint_of(rule, target) for rule in self.rules))

    def apart(self) -> tuple[Function, tuple[BoundRule, ...]]:
        """The objective with supports, and all rules."""
        target, _ = _supported(self.objective, self.constraints)
        if isinstance(target, RuledModel):
            return target.base, (*target.rules, *self.rules)
        return target, self.rules

    def support(self) -> Parts:
        """The same with an objective of 0 where it is finite, and rules that only forbid.

        A question whose first answer is a best one. Objectives without tables stay as they are.
        """
        objective = self.objective
        if isinstance(objective, RuledModel):
            ruled = tuple(rule.hardened() for rule in objective.rules)
            objective = RuledModel(objective.base.negated()[1], ruled)
        elif isinstance(objective, LogLinearModel):
            objective = objective.negated()[1]
        else:
            return self
        return self._replace(objective=objective, rules=tuple(r.hardened() for r in self.rules))


def posed(objective: Function | Costs, constraints: Conditions) -> tuple[Domain, Parts]:
    """The joint domain, and objective, constraints and rules over it."""
    entries = list(_flattened(constraints))
    asked = [entry for entry in entries if not isinstance(entry, Rule)]
    functions = [] if isinstance(objective, Costs) else [_function(objective, "the objective")]
    who = ["the objective"] * len(functions)
    numbered = [(j, c) for j, c in enumerate(asked) if isinstance(c, Constraint)]
    functions += [_function(c.function, f"constraint {j}") for j, c in numbered]
    who += [f"constraint {j}" for j, _ in numbered]
    if not functions:
        raise ModelError("counts and costs need a model that says which states variables have")
    domain, placements = join([domain_of(f) for f in functions], who)
    lifted = [_placed(f, p) for f, p in zip(functions, placements, strict=True)]
    target = objective.over(domain) if isinstance(objective, Costs) else lifted[0]
    at = len(functions) - len(numbered)
    settled: list[Constraint] = []
    for condition in asked:
        if not isinstance(condition, Constraint):
            settled.append(condition.over(domain))
            continue
        support = condition.support
        support = None if support is None else _placed(support, placements[at])
        settled.append(replace(condition, function=lifted[at], support=support))
        at += 1
    rules = tuple(entry.over(domain) for entry in entries if isinstance(entry, Rule))
    return domain, Parts(target, tuple(settled), rules)


def _ruled(objective: Any, rules: Sequence[BoundRule]) -> Function:
    """The objective, which has tables, under rules."""
    if not rules:
        return objective  # type: ignore[no-any-return]
    if isinstance(objective, RuledModel):
        whole = under_rules(objective.base, rules)
        known = objective.rules
        if isinstance(whole, RuledModel):
            return RuledModel(whole.base, (*known, *whole.rules))
        return RuledModel(whole, known)
    model: LogLinearModel = objective.to_model()
    return under_rules(model, rules)


def _constraint_of(rule: BoundRule, objective: Function) -> Constraint:
    """t <= 0 for a table t that is 1 where the rule is broken."""
    domain, kind = domain_of(objective), type(objective).__name__
    size = math.prod(domain.cardinalities[v] for v in rule.scope)
    if size > SMALL_TABLE:
        raise ModelError(
            f"rule {rule.text!r}: beside an objective of kind {kind} a rule needs a table of at "
            f"most {SMALL_TABLE} entries, found {size}; write cmpe.count({{...}}) == 1 or <= 1"
        )
    worth = rule.table(domain.cardinalities)
    if not np.isneginf(worth).any() and (worth < 0).any():
        raise ModelError(
            f"rule {rule.text!r}: a weight needs an objective made of tables; found one of kind "
            f"{kind}"
        )
    broken = Factor(rule.scope, np.isneginf(worth).astype(np.float64))
    table = LogLinearModel(domain.cardinalities, (broken,), domain.names, domain.states)
    return Constraint(table, 0.0, name=rule.text)


def domain_of(function: Function) -> Domain:
    """A function's domain; one of a user's own kind may know its cardinalities only."""
    domain: Domain = getattr(function, "domain", None) or Domain(function.cardinalities)
    return domain


def _flattened(constraints: Any) -> Iterator[Constraint | LinearConstraint | Rule]:
    if isinstance(constraints, str) or not isinstance(constraints, Iterable):
        found = type(constraints).__name__
        raise ModelError(f"constraints must be a list, found {found}; write Problem(h, [t <= q])")
    for number, entry in enumerate(constraints):
        if isinstance(entry, Constraint | LinearConstraint | Rule):
            yield entry
        elif isinstance(entry, list | tuple):
            yield from _flattened(entry)
        else:
            found = type(entry).__name__
            raise ModelError(
                f"constraint {number} must have a limit, found {found}; write t <= q or t >= q"
            )


def _function(function: Any, who: str) -> Function:
    need_function(function, who, "Problem(h, [t <= q])")
    return simplest(function)


def _placed(function: Function, placement: Placement) -> Function:
    if placement.is_identity:
        return function
    move = getattr(function, "placed", None)
    if move is None:
        raise ModelError(
            f"a function of kind {type(function).__name__} cannot be joined with functions of "
            "other variables: it has no `placed`"
        )
    moved: Function = move(placement)
    return moved


def _supported(
    objective: Function, constraints: Sequence[Constraint]
) -> tuple[Function, tuple[Constraint, ...]]:
    """-inf is put into the objective where a function that must reach a limit is -inf."""
    for constraint in constraints:
        support = constraint.support
        if isinstance(support, LogLinearModel) and support.factors:
            if not hasattr(objective, "to_model"):
                raise ModelError(
                    "t >= q with zero potentials in t needs an objective made of tables; found "
                    f"a function of kind {type(objective).__name__}"
                )
            objective = objective.to_model() + support
    return objective, tuple(replace(c, support=None) for c in constraints)


def numbers_of(domain: Domain, variables: Sequence[int | str], what: str) -> tuple[int, ...]:
    """Variables given by name or number, as numbers; each once."""
    if isinstance(variables, str) or not isinstance(variables, Iterable):
        raise ModelError(f"{what} must be a list of variables, found {variables!r:.60}")
    try:
        found = tuple(domain.variable(v) for v in variables)
    except ModelError as error:
        raise ModelError(f"{what}: {error}") from None
    if len(set(found)) != len(found):
        raise ModelError(f"{what} must be distinct")
    return found
