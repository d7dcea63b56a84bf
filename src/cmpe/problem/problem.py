"""The problem: maximise h(x, y) over y subject to t_j(x, y) <= q_j, for given evidence x.

This module alone decides what feasible means and how a problem becomes the minimisation
min f, g <= 0 of the losses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arguments import whole_number
from cmpe.arrays import FREE, Floats, Values
from cmpe.domain import Domain
from cmpe.elimination.plan import Plan, make_plan
from cmpe.errors import EvidenceError, InputError, MethodError, ModelError
from cmpe.models.conditioning import Conditioning
from cmpe.models.constraint import Constraint, tolerance_of
from cmpe.models.function import Function
from cmpe.models.linear import Costs
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.models.tractable.branching import JointLeaf, joint_leaves, models_of
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem.evidence import (
    Evidence,
    FullRows,
    Given,
    Reading,
    check_range,
    from_mapping,
    two_dimensional,
)
from cmpe.problem.instances import Instances
from cmpe.problem.posing import Conditions, Parts, domain_of, numbers_of, posed
from cmpe.problem.showing import table_of, text_of

if TYPE_CHECKING:
    from cmpe.core.buckets import CompiledPlan

TABLED = (LogLinearModel, CutsetNetwork)  # functions made of tables


class Form(Enum):
    """What a problem's functions are made of; each method says which forms it answers."""

    TABLES = "log-linear models of discrete variables"
    LEAVES = "cutset networks"  # a log-linear model in every leaf
    RULES = "a log-linear model under rules of many variables"
    CONTINUOUS = "log-linear models with variables in [0, 1]"
    OTHER = "functions without tables"


LARGEST_SUM = 1e300
MOST_PLANS = 16  # of a problem and its siblings


@dataclass
class Planned:
    """An elimination order, and the same for compiled code once that has asked for it."""

    plan: Plan
    compiled: CompiledPlan | None = None


@dataclass(frozen=True, init=False, repr=False)
class Problem:
    """An objective, any number of constraints, and the variables that evidence fixes.

    Functions with names are joined by name: each may be over some of the variables, in any order;
    the objective's come first. Functions without names are over the same variables.

    Variables listed in `continuous` take any number in [0, 1]; they have two values in every
    function's cardinalities, and log-linear functions are their multilinear extensions there.
    """

    objective: Function
    constraints: tuple[Constraint, ...] = ()
    evidence_variables: tuple[int, ...] = ()
    name: str = ""
    continuous: tuple[int, ...] = ()
    rules: tuple[str, ...] = field(default=(), init=False)  # in words: the objective contains them
    lift: Any = field(default=None, init=False, compare=False)  # the `Rows` that it is lifted of

    def __init__(
        self,
        objective: Function | Costs,
        constraints: Conditions = (),
        evidence_variables: Sequence[int | str] = (),
        name: str = "",
        continuous: Sequence[int | str] = (),
    ) -> None:
        domain, parts = posed(objective, constraints)
        observed = numbers_of(domain, evidence_variables, "evidence_variables")
        ranged = numbers_of(domain, continuous, "continuous")
        self._take(domain, parts, evidence_variables=observed, name=name, continuous=ranged)
        if any(domain.cardinalities[v] != 2 for v in ranged):
            raise ModelError("a continuous variable has cardinality 2: the ends of [0, 1]")

    def _take(self, domain: Domain, parts: Parts, **known: Any) -> None:
        """Be made of these parts."""
        objective, constraints = parts.joined()
        _need_sums(objective, constraints)
        rules = tuple(rule.text for rule in parts.rules)
        self.__dict__.update(
            known,
            objective=objective,
            constraints=constraints,
            rules=rules,
            domain=domain,
            parts=parts,
        )

    @cached_property
    def parts(self) -> Parts:
        """The objective without rules, the constraints and the rules."""
        return Parts(self.objective, self.constraints, ())

    def made_of(self, parts: Parts) -> Problem:
        """The same question about other parts over the same domain."""
        other = object.__new__(Problem)  # joined and checked already
        kept = ("evidence_variables", "name", "continuous")
        other._take(self.domain, parts, **{each: getattr(self, each) for each in kept})
        return other

    @cached_property
    def domain(self) -> Domain:
        """Names, states and cardinalities of all variables."""
        return domain_of(self.objective)

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return table_of(self)

    @property
    def variables(self) -> int:
        """The number of variables, evidence included."""
        return self.objective.variables

    @property
    def functions(self) -> tuple[Function, ...]:
        """The objective, then the constraints' functions."""
        return (self.objective, *(c.function for c in self.constraints))

    @cached_property
    def form(self) -> Form:
        """The kind of the functions."""
        kinds = {type(f) for f in self.functions}
        if kinds == {LogLinearModel}:
            return Form.CONTINUOUS if self.continuous else Form.TABLES
        if kinds <= {RuledModel, LogLinearModel} and not self.continuous:
            return Form.RULES
        return Form.LEAVES if kinds <= set(TABLED) and not self.continuous else Form.OTHER

    @property
    def has_tables(self) -> bool:
        """Whether every function is made of tables and every variable has finitely many values."""
        return self.form in (Form.TABLES, Form.LEAVES, Form.RULES)

    @property
    def is_log_linear(self) -> bool:
        """Whether every function is a sum of tables over variables of finitely many values."""
        return self.form is Form.TABLES

    def need_tables(self, who: str) -> None:
        """Refuse a problem that has none."""
        if self.has_tables:
            return
        odd = [type(f).__name__ for f in self.functions if type(f) not in TABLED]
        found = f"a function of kind {odd[0]}" if odd else "continuous variables"
        raise MethodError(
            f"{who} needs tables: log-linear models, trees or cutset networks of discrete "
            f"variables; found {found}; method local, milp or a trained network answers here"
        )

    @cached_property
    def models(self) -> tuple[LogLinearModel, ...]:
        """The functions as sums of tables, for methods that read them."""
        self.need_tables("this method")
        if self.form is not Form.TABLES:
            raise MethodError(
                "this needs log-linear models; cmpe.solve answers problems with cutset networks, "
                "and CutsetNetwork.to_model expands small ones"
            )
        return cast("tuple[LogLinearModel, ...]", self.functions)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """Log-linear problems that together are this one: one per joint leaf of its functions."""
        self.need_tables("this method")
        return tuple(Branch(self, leaf) for leaf in joint_leaves(self.functions))

    @property
    def dtype(self) -> type[np.generic]:
        """Of assignments and evidence: int32, or float64 with continuous variables."""
        return np.float64 if self.continuous else np.int32

    @cached_property
    def free(self) -> tuple[int, ...]:
        """The variables to be decided: neither observed nor of a single value."""
        known = set(self.evidence_variables)
        cards = self.objective.cardinalities
        return tuple(v for v, k in enumerate(cards) if k > 1 and v not in known)

    def under(self, conditions: Conditions) -> Problem:
        """The same problem under more constraints and rules."""
        known = self.parts
        domain, parts = posed(known.objective, [*known.constraints, *conditions])
        whole = parts._replace(rules=(*known.rules, *parts.rules))  # variables keep their numbers
        other = object.__new__(Problem)
        kept = ("evidence_variables", "name", "continuous")
        other._take(domain, whole, **{each: getattr(self, each) for each in kept})
        return other

    def lifted(
        self, domain: Domain, objective: Function, constraints: Sequence[Constraint]
    ) -> Problem:
        """A problem with one more variable, which is observed, and which shares plans with this."""
        other = object.__new__(Problem)
        last = (domain.variables - 1,)
        parts = Parts(objective, tuple(constraints), ())
        other._take(domain, parts, evidence_variables=last, name="", continuous=())
        return other.planned_as(self)

    def observing(self, variables: Sequence[int | str]) -> Problem:
        """The same problem with another set of evidence variables."""
        chosen = numbers_of(self.domain, variables, "evidence_variables")
        if chosen == self.evidence_variables:
            return self
        other = object.__new__(Problem)  # joined and checked already
        kept = {each.name: getattr(self, each.name) for each in fields(self)}
        other.__dict__.update(kept, evidence_variables=chosen, domain=self.domain, parts=self.parts)
        return other.planned_as(self)

    @cached_property
    def siblings(self) -> dict[tuple[int, ...], Problem]:
        """The last few problems with other evidence variables (`groups` keeps them), with plans."""
        return {}

    @cached_property
    def expansions(self) -> dict[tuple[int, ...], Any]:
        """The last few ways in which rules became tables (`expansion` keeps them)."""
        return {}

    @cached_property
    def structures(self) -> list[Any]:
        """The special structure, or None, once it has been looked for (`solvers.structures`)."""
        return []

    @cached_property
    def conditioning(self) -> Conditioning:
        """The structure of each function given evidence, shared by all rows."""
        scopes = tuple(model.flat.scopes for model in self.models)
        key = (self.evidence_variables, self.domain.cardinalities, scopes)
        found = self.conditionings.get(key)
        if found is None:
            _make_room(self.conditionings)
            found = Conditioning(self.models, self.evidence_variables).with_values()
            self.conditionings[key] = found
        return found.with_values(self.models)

    @cached_property
    def plan(self) -> Plan:
        """An elimination order of the free variables, shared by all rows."""
        return self._planned.plan

    @cached_property
    def compiled_plan(self) -> CompiledPlan:
        """The plan as arrays for compiled code."""
        from cmpe.elimination.compiled import compile_plan

        planned = self._planned
        if planned.compiled is None:
            planned.compiled = compile_plan(self.plan, self.conditioning.layout)
        return planned.compiled

    @cached_property
    def _planned(self) -> Planned:
        """What depends on scopes alone: shared with problems of other numbers."""
        structure = self.conditioning
        sizes = tuple(structure.cardinalities[v] for v in structure.free)
        key = (structure.scopes, structure.free, sizes)
        found = self.plans.get(key)
        if found is None:
            _make_room(self.plans)
            plan = make_plan(structure.cardinalities, structure.scopes, variables=structure.free)
            found = self.plans[key] = Planned(plan)
        return found

    @cached_property
    def plans(self) -> dict[Any, Planned]:
        """The last few plans, by scopes, free variables and their cardinalities."""
        return {}

    @cached_property
    def conditionings(self) -> dict[Any, Conditioning]:
        """What evidence leaves of the last few sets of scopes, without numbers."""
        return {}

    def planned_as(self, other: Problem) -> Problem:
        """This problem, which shares plans with another one of the same first variables."""
        self.__dict__.update(plans=other.plans, conditionings=other.conditionings)
        return self

    def given(self, evidence: Evidence | None = None) -> Instances:
        """One instance per row of `evidence`.

        Evidence is (B, |X|) or (|X|,) in the order of `evidence_variables`, a mapping from
        variable to value or to B values, a list of mappings, a frame whose columns are variables,
        or (B, n) with -1 at exactly the free variables. Where the model has names, variables and
        states are given by name or by number.
        """
        return self.instances(np.zeros((1, 0)) if evidence is None else self.read(evidence))

    def read(self, evidence: Evidence, *, ignore_extra: bool = False) -> Given:
        """Evidence in numbers; columns that are no variables may be ignored."""
        reading = Reading(
            self.domain, self.evidence_variables, frozenset(self.continuous), ignore_extra
        )
        return reading.read(evidence)

    def instances(self, evidence: Given) -> Instances:
        """One instance per row of evidence in numbers, which must observe what the problem does."""
        observed, fractions = self.evidence_variables, bool(self.continuous)
        if isinstance(evidence, Mapping):
            rows = from_mapping(evidence, observed, fractions=fractions)
        elif isinstance(evidence, FullRows):
            rows = self._from_full(evidence.rows)
        else:
            rows = two_dimensional(evidence, fractions=fractions)
            if rows.shape[1] == self.variables != len(observed):
                rows = self._from_full(rows)
        if rows.shape[1] != len(observed):
            raise EvidenceError(
                f"evidence must have {len(observed)} columns (the evidence variables) or "
                f"{self.variables} (all variables, -1 where free), found {rows.shape[1]}"
            )
        check_range(rows, observed, self.domain, frozenset(self.continuous))
        return Instances(self, np.ascontiguousarray(rows, dtype=self.dtype))

    def full_rows(self, evidence: ArrayLike) -> Values:
        """Evidence (B, n) with -1 where free, checked; rows may observe different variables."""
        rows = two_dimensional(evidence, fractions=bool(self.continuous))
        if rows.shape[1] != self.variables:
            raise EvidenceError(
                f"evidence must have {self.variables} columns, found {rows.shape[1]}"
            )
        filled = np.where(rows == FREE, 0, rows)
        check_range(filled, range(self.variables), self.domain, frozenset(self.continuous))
        return np.ascontiguousarray(rows, dtype=self.dtype)

    def _from_full(self, rows: Values) -> Values:
        wanted = np.zeros(self.variables, dtype=bool)
        wanted[list(self.evidence_variables)] = True
        wrong = (rows != FREE) != wanted
        if wrong.any():
            row, variable = (int(i) for i in np.argwhere(wrong)[0])
            need = "observed" if wanted[variable] else "free (-1)"
            called = self.domain.called(variable)
            raise EvidenceError(f"row {row}: {called} must be {need} in this problem")
        return rows[:, list(self.evidence_variables)]

    def constraint_values(self, assignments: ArrayLike) -> Floats:
        """Each t_j of each row of `assignments` (B, n): (B, m)."""
        rows = np.atleast_2d(np.asarray(assignments))
        out = np.empty((len(rows), len(self.constraints)))
        for j, constraint in enumerate(self.constraints):
            out[:, j] = constraint.function.value(rows)
        return out

    @property
    def limits(self) -> Floats:
        """Each q_j: (m,)."""
        return np.array([c.at_most for c in self.constraints])

    @property
    def signs(self) -> Floats:
        """-1 for each constraint that was given as `>=`, 1 for the others: (m,)."""
        return np.array([c.sign for c in self.constraints])

    @property
    def tolerances(self) -> Floats:
        """Each constraint's tolerance: (m,)."""
        return np.array([c.tolerance for c in self.constraints])

    def violations(self, assignments: ArrayLike) -> Floats:
        """t_j - q_j of each row (B, m); -inf where a potential of 0 satisfies the constraint."""
        return self.constraint_values(assignments) - self.limits

    def is_feasible(self, assignments: ArrayLike) -> NDArray[np.bool_]:
        """Whether each row satisfies every constraint within tolerance and h > -inf: (B,)."""
        return self.are_feasible(
            self.objective.value(assignments), self.constraint_values(assignments)
        )

    def are_feasible(
        self, objective: Floats, values: Floats, limits: Floats | None = None
    ) -> NDArray[np.bool_]:
        """The same from h (B,) and every t_j (B, m), where they are known already.

        `limits` (B, m) are those of rows that have their own.
        """
        most = self.limits if limits is None else limits
        satisfied = np.asarray((values - most <= tolerance_of(most)).all(axis=1))
        return satisfied & np.isfinite(objective)

    def constraint_number(
        self, key: int | str, what: str, error: type[InputError] = MethodError
    ) -> int:
        """The number of a constraint that `what` gives by its name or its number."""
        count = len(self.constraints)
        if not isinstance(key, str):
            number = whole_number(what, key, -1, error)
            if not 0 <= number < count:
                only = "limits={0: ...}" if what == "limits" else f"{what}=0"
                only = "--over 0" if what == "--over" else only
                there = (
                    f"there is one constraint: {only}"
                    if count == 1
                    else f"{what}: constraints are numbered 0 to {count - 1}"
                )
                raise error(f"{there}; found number {number}")
            return number
        found = [j for j, c in enumerate(self.constraints) if c.name == key]
        if len(found) == 1:
            return found[0]
        if found:
            raise error(
                f"{what}: {key!r} has {len(found)} limits; give one of the numbers "
                f"{' and '.join(map(str, found))} instead"
            )
        known = [c.name for c in self.constraints if c.name]
        there = f"there is {', '.join(map(repr, known))}" if known else "none has a name"
        raise error(f"{what}: there is no constraint {key!r}; {there}")

    @cached_property
    def shift(self) -> float:
        """C: the sum over h's tables of the largest finite entry, plus 1."""
        ceiling = self.objective.ceiling()
        if not math.isfinite(ceiling):
            raise ModelError("an objective needs an upper bound: set NeuralFunction.largest")
        return ceiling + 1.0

    def minimisation(self, assignments: ArrayLike) -> tuple[Floats, Floats]:
        """(f, g) with f = C - h >= 1 (B,) and g = t - q (B, m): the form of the losses."""
        return self.shift - self.objective.value(assignments), self.violations(assignments)


def _make_room(kept: dict[Any, Any]) -> None:
    """Forget the oldest entries where there are too many."""
    while len(kept) >= MOST_PLANS:
        kept.pop(next(iter(kept)), None)


def _need_sums(objective: Function, constraints: Sequence[Constraint]) -> None:
    """Refuse tables whose sums are no numbers of float64, with room for differences of sums."""
    limited = ((f"constraint {c.name or j!r}", c.function) for j, c in enumerate(constraints))
    for called, function in (("the objective", objective), *limited):
        model = function.base if isinstance(function, RuledModel) else function
        if isinstance(model, LogLinearModel) and not model.flat.largest_sum < LARGEST_SUM:
            raise ModelError(
                f"{called}: sums of entries must stay below {LARGEST_SUM:g}, found up to "
                f"{model.flat.largest_sum:g}"
            )


def need_problem(value: object, who: str) -> None:
    """Refuse what is no problem, and say how `who` is called."""
    if not isinstance(value, Problem):
        raise ModelError(
            f"{who} needs a Problem, found {type(value).__name__}; write "
            f"{who}(cmpe.Problem(h, [cmpe.Constraint(t, at_most=q)]), ...), or give the `problem` "
            "of what cmpe.read_directory returns"
        )


@dataclass(frozen=True)
class Branch:
    """The part of a problem where one joint leaf of its functions holds."""

    whole: Problem
    leaf: JointLeaf

    @cached_property
    def problem(self) -> Problem:
        """The same problem with the leaf's tables; it observes what the leaf fixes, too."""
        objective, *functions = models_of(self.whole.functions, self.leaf)
        fixed = np.flatnonzero(self.leaf.context >= 0).tolist()
        observed = sorted({*self.whole.evidence_variables, *fixed})
        pairs = zip(self.whole.constraints, functions, strict=True)
        constraints = tuple(replace(c, function=function) for c, function in pairs)
        return Problem(objective, constraints, tuple(observed), self.whole.name)

    def agrees(self, rows: Values) -> NDArray[np.bool_]:
        """Which rows (B, n), -1 where free, do not contradict the leaf: (B,)."""
        fixed = np.flatnonzero(self.leaf.context >= 0)
        given = rows[:, fixed]
        return np.asarray(((given == FREE) | (given == self.leaf.context[fixed])).all(axis=1))

    def instances(self, rows: Values) -> Instances:
        """The leaf's problem with evidence (B, n), -1 where free, that agrees with it."""
        inside = np.where(self.leaf.context >= 0, self.leaf.context, rows)
        observed = list(self.problem.evidence_variables)
        return Instances(self.problem, np.ascontiguousarray(inside[:, observed]))
