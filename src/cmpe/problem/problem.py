"""The problem: maximise h(x, y) over y subject to t_j(x, y) <= q_j, for given evidence x.

This module alone decides what feasible means and how a problem becomes the minimisation
min f, g <= 0 of the losses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arguments import whole_number
from cmpe.arrays import FREE, Floats, Values
from cmpe.elimination.plan import Plan, make_plan
from cmpe.errors import EvidenceError, MethodError, ModelError
from cmpe.models.conditioning import Conditioning
from cmpe.models.function import Function, need_function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.branching import JointLeaf, joint_leaves, models_of, simplest
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem.constraint import Constraint
from cmpe.problem.evidence import (
    Evidence,
    as_given,
    check_range,
    from_mapping,
    two_dimensional,
)
from cmpe.problem.instances import Instances

if TYPE_CHECKING:
    from cmpe.elimination.kernels import CompiledPlan

TABLED = (LogLinearModel, CutsetNetwork)  # functions made of tables


class Form(Enum):
    """What a problem's functions are made of; each method says which forms it answers."""

    TABLES = "log-linear models of discrete variables"
    LEAVES = "cutset networks"  # a log-linear model in every leaf
    CONTINUOUS = "log-linear models with variables in [0, 1]"
    OTHER = "functions without tables"


@dataclass(frozen=True)
class Problem:
    """An objective, any number of constraints, and the variables that evidence fixes.

    Variables listed in `continuous` take any number in [0, 1]; they have two values in every
    function's cardinalities, and log-linear functions are their multilinear extensions there.
    """

    objective: Function
    constraints: tuple[Constraint, ...] = ()
    evidence_variables: tuple[int, ...] = ()
    name: str = ""
    continuous: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        need_function(self.objective, "the objective", "Problem(h, [Constraint(t, at_most=q)])")
        object.__setattr__(self, "objective", simplest(self.objective))
        object.__setattr__(self, "constraints", _constraints(self.constraints))
        observed = _numbers("evidence_variables", self.evidence_variables)
        object.__setattr__(self, "evidence_variables", observed)
        for number, constraint in enumerate(self.constraints):
            if constraint.function.cardinalities != self.objective.cardinalities:
                raise ModelError(
                    f"constraint {number} must have the objective's variables and cardinalities"
                )
        continuous = _numbers("continuous", self.continuous)
        object.__setattr__(self, "continuous", continuous)
        for name, which in (("evidence_variables", observed), ("continuous", continuous)):
            if len(set(which)) != len(which):
                raise ModelError(f"{name} must be distinct")
            if which and max(which) >= self.variables:
                raise ModelError(f"{name} must be from 0 to {self.variables - 1}")
        if any(self.objective.cardinalities[v] != 2 for v in continuous):
            raise ModelError("a continuous variable has cardinality 2: the ends of [0, 1]")

    @property
    def variables(self) -> int:
        """How many variables, evidence included."""
        return self.objective.variables

    @property
    def functions(self) -> tuple[Function, ...]:
        """The objective, then the constraints' functions."""
        return (self.objective, *(c.function for c in self.constraints))

    @cached_property
    def form(self) -> Form:
        """What the functions are made of."""
        kinds = {type(f) for f in self.functions}
        if kinds == {LogLinearModel}:
            return Form.CONTINUOUS if self.continuous else Form.TABLES
        return Form.LEAVES if kinds <= set(TABLED) and not self.continuous else Form.OTHER

    @property
    def has_tables(self) -> bool:
        """Whether every function is made of tables and every variable has finitely many values."""
        return self.form in (Form.TABLES, Form.LEAVES)

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

    def observing(self, variables: Sequence[int]) -> Problem:
        """The same problem with another set of evidence variables."""
        chosen = _numbers("evidence_variables", variables)
        return (
            self if chosen == self.evidence_variables else replace(self, evidence_variables=chosen)
        )

    @cached_property
    def conditioning(self) -> Conditioning:
        """What evidence leaves of each function, shared by all rows."""
        return Conditioning(self.models, self.evidence_variables)

    @cached_property
    def plan(self) -> Plan:
        """An elimination order of the free variables, shared by all rows."""
        structure = self.conditioning
        return make_plan(structure.cardinalities, structure.scopes, variables=structure.free)

    @cached_property
    def compiled_plan(self) -> CompiledPlan:
        """The plan as arrays for compiled code."""
        from cmpe.elimination.kernels import compile_plan

        return compile_plan(self.plan, self.conditioning.layout)

    def given(self, evidence: Evidence | None = None) -> Instances:
        """One instance per row of `evidence`.

        Evidence is (B, |X|) or (|X|,) in the order of `evidence_variables`, a mapping from
        variable to value or to B values, a frame whose columns are variables, or (B, n) with -1
        at exactly the free variables.
        """
        observed = self.evidence_variables
        if evidence is None:
            evidence = np.zeros((1, 0), dtype=np.int32)
        fractions = bool(self.continuous)
        evidence = as_given(evidence, self.variables, observed)
        if isinstance(evidence, Mapping):
            rows = from_mapping(evidence, observed, fractions=fractions)
        else:
            rows = two_dimensional(evidence, fractions=fractions)
            if rows.shape[1] == self.variables != len(observed):
                rows = self._from_full(rows)
        if rows.shape[1] != len(observed):
            raise EvidenceError(
                f"evidence must have {len(observed)} columns (the evidence variables) or "
                f"{self.variables} (all variables, -1 where free), found {rows.shape[1]}"
            )
        check_range(rows, observed, self.objective.cardinalities, frozenset(self.continuous))
        return Instances(self, np.ascontiguousarray(rows, dtype=self.dtype))

    def full_rows(self, evidence: ArrayLike) -> Values:
        """Evidence (B, n) with -1 where free, checked; rows may observe different variables."""
        rows = two_dimensional(evidence, fractions=bool(self.continuous))
        if rows.shape[1] != self.variables:
            raise EvidenceError(
                f"evidence must have {self.variables} columns, found {rows.shape[1]}"
            )
        filled, cards = np.where(rows == FREE, 0, rows), self.objective.cardinalities
        check_range(filled, range(self.variables), cards, frozenset(self.continuous))
        return np.ascontiguousarray(rows, dtype=self.dtype)

    def _from_full(self, rows: Values) -> Values:
        wanted = np.zeros(self.variables, dtype=bool)
        wanted[list(self.evidence_variables)] = True
        wrong = (rows != FREE) != wanted
        if wrong.any():
            row, variable = (int(i) for i in np.argwhere(wrong)[0])
            need = "observed" if wanted[variable] else "free (-1)"
            raise EvidenceError(f"row {row}: variable {variable} must be {need} in this problem")
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

    def are_feasible(self, objective: Floats, values: Floats) -> NDArray[np.bool_]:
        """The same from h (B,) and every t_j (B, m), where they are known already."""
        satisfied = np.asarray((values - self.limits <= self.tolerances).all(axis=1))
        return satisfied & np.isfinite(objective)

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


def need_problem(value: object, who: str) -> None:
    """Refuse what is no problem, and say how `who` is called."""
    if not isinstance(value, Problem):
        raise ModelError(
            f"{who} needs a Problem, found {type(value).__name__}; write "
            f"{who}(cmpe.Problem(h, [cmpe.Constraint(t, at_most=q)]), ...), or give the `problem` "
            "of what cmpe.read_directory returns"
        )


def _constraints(given: object) -> tuple[Constraint, ...]:
    if not isinstance(given, Iterable):
        raise ModelError(
            f"constraints must be a list, found {type(given).__name__}; write "
            "Problem(h, [Constraint(t, at_most=q)])"
        )
    constraints = tuple(given)
    for number, constraint in enumerate(constraints):
        if not isinstance(constraint, Constraint):
            raise ModelError(
                f"constraint {number} must be a Constraint, found {type(constraint).__name__}; "
                "write Constraint(t, at_most=q)"
            )
    return constraints


def _numbers(name: str, variables: object) -> tuple[int, ...]:
    if isinstance(variables, str) or not isinstance(variables, Iterable):
        raise ModelError(f"{name} must be a list of variable numbers, found {variables!r:.60}")
    return tuple(whole_number(f"each of {name}", v, 0, ModelError) for v in variables)


@dataclass(frozen=True)
class Branch:
    """The part of a problem where one joint leaf of its functions holds."""

    whole: Problem
    leaf: JointLeaf

    @cached_property
    def problem(self) -> Problem:
        """The same problem with the leaf's tables; it observes what the leaf fixes, too."""
        objective, *functions = models_of(self.whole.functions, self.leaf)
        limits = (c.at_most for c in self.whole.constraints)
        fixed = np.flatnonzero(self.leaf.context >= 0).tolist()
        observed = sorted({*self.whole.evidence_variables, *fixed})
        constraints = tuple(map(Constraint, functions, limits))
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
