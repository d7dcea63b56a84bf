"""A row as a smaller problem, and the way back.

Values that are out are gone, variables with one value are fixed (`restricted`), and variables that
leave no larger tables are maximised out (`eliminated`). `Reduced.lift` maps an assignment of the
smaller problem to one of the whole problem with the same objective and constraint values; `lower`
maps the other way, where nothing that is out is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cmpe.arrays import Assignments, Floats, Integers
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Constraint, Instances, Problem
from cmpe.solvers.wide.elimination import eliminate_small
from cmpe.solvers.wide.network import Messages
from cmpe.solvers.wide.settings import SETTINGS


class ReducingStep(Protocol):
    """From one problem to a smaller one: assignments there and back."""

    def lift(self, values: Assignments) -> Assignments:
        """An assignment of the larger problem."""
        ...

    def lower(self, values: Assignments) -> Assignments | None:
        """An assignment of the smaller problem, if there is one."""
        ...

    def messages(self, messages: Messages) -> Messages:
        """What is left of messages of the larger problem's tables."""
        ...


@dataclass(frozen=True)
class Fixing:
    """Some values are out; a variable with one value left is fixed."""

    variables: Integers  # of the larger problem: those that are kept
    domains: tuple[Integers, ...]  # their values that are kept, sorted
    whole: Assignments  # (n,) with the fixed values in
    stand_ins: tuple[Integers, ...]  # for each of their values one that is no worse, or -1

    def lift(self, values: Assignments) -> Assignments:
        """Put the kept variables' values in."""
        out = self.whole.copy()
        for v, domain, a in zip(self.variables, self.domains, values, strict=True):
            out[v] = domain[a]
        return out

    def lower(self, values: Assignments) -> Assignments | None:
        """The kept variables' values, or those that stand in for them; None where one is out."""
        out = np.zeros(len(self.variables), dtype=np.int32)
        for i, (v, domain) in enumerate(zip(self.variables, self.domains, strict=True)):
            value = values[v]
            while value >= 0:
                at = int(np.searchsorted(domain, value))
                if at < len(domain) and domain[at] == value:
                    break
                value = self.stand_ins[i][value]
            if value < 0:
                return None
            out[i] = at
        return out

    def messages(self, messages: Messages) -> Messages:
        """Messages of the larger problem's tables, of those that keep all their variables."""
        place = {int(v): i for i, v in enumerate(self.variables)}
        out = {}
        for scope, own in messages.items():
            if all(v in place for v in scope):
                kept = [place[v] for v in scope]
                left = [m[self.domains[i]] for m, i in zip(own, kept, strict=True)]
                out[tuple(kept)] = left
        return out


@dataclass(frozen=True)
class Reduced:
    """The smaller problem of one row, and the steps that led to it."""

    instances: Instances  # one row
    steps: tuple[ReducingStep, ...] = ()

    @classmethod
    def of(cls, instances: Instances, row: int) -> Reduced:
        """The row itself: nothing is out."""
        return cls(instances.take(slice(row, row + 1)))

    @property
    def values(self) -> int:
        """Values of all free variables together."""
        cards = self.instances.problem.objective.cardinalities
        return sum(cards[v] for v in self.instances.problem.free)

    def lift(self, values: Assignments) -> Assignments:
        """An assignment of the whole problem from one of the smaller problem."""
        for step in reversed(self.steps):
            values = step.lift(values)
        return values

    def lower(self, values: Assignments) -> Assignments | None:
        """The other way; None where a value is out."""
        found: Assignments | None = values
        for step in self.steps:
            found = None if found is None else step.lower(found)
        return found

    def restricted(
        self, domains: Sequence[Integers], stand_ins: Sequence[Integers] | None = None
    ) -> Reduced:
        """The same with these values left to each free variable, at least one each."""
        if stand_ins is None:
            stand_ins = [np.full(self._card(v), -1) for v in self.instances.problem.free]
        free = np.array(self.instances.problem.free, dtype=np.int64)
        keep = [i for i, d in enumerate(domains) if len(d) > 1]
        first = np.array([d[0] for d in domains], dtype=np.int32)
        whole = self.instances.complete(first[np.newaxis])[0]
        number = {i: k for k, i in enumerate(keep)}
        models = [
            self._model(which, domains, number)
            for which in range(len(self.instances.problem.functions))
        ]
        limits = (c.at_most for c in self.instances.problem.constraints)
        problem = Problem(models[0], tuple(map(Constraint, models[1:], limits)))
        kept, others = (tuple(given[i] for i in keep) for given in (domains, stand_ins))
        step = Fixing(free[keep], kept, whole, others)
        return Reduced(problem.given(), (*self.steps, step))

    def _model(
        self, which: int, domains: Sequence[Integers], number: dict[int, int]
    ) -> LogLinearModel:
        """What is left of one function; `number` gives the kept variables their new ones."""
        structure = self.instances.conditioning
        entries = self.instances.tables(which)[0]
        place = {v: i for i, v in enumerate(structure.free)}
        offsets = structure.layout.offsets.tolist()
        sums: dict[tuple[int, ...], Floats] = {}
        for f, scope in enumerate(structure.scopes):
            axes = [place[v] for v in scope]
            table = entries[offsets[f] : offsets[f + 1]]
            shape = [structure.cardinalities[v] for v in scope]
            table = table.reshape(shape)
            for axis, i in enumerate(axes):
                if len(domains[i]) < shape[axis]:
                    table = table.take(domains[i], axis=axis)
            kept = tuple(number[i] for i in axes if i in number)
            table = table.reshape([len(domains[i]) for i in axes if i in number])
            sums[kept] = sums[kept] + table if kept in sums else table
        cards = tuple(len(domains[i]) for i in number)
        factors = tuple(Factor(scope, table) for scope, table in sums.items())
        return LogLinearModel(cards, factors)

    def eliminated(self, until: float) -> Reduced:
        """The same without the variables that leave no larger tables; itself if they are few.

        Without a few variables nothing is easier, and splits lose the levels of the graph.
        """
        domains = [np.arange(self._card(v)) for v in self.instances.problem.free]
        plain = self.restricted(domains) if self.instances.problem.evidence_variables else self
        found = eliminate_small(plain.instances.problem.models, until)
        if len(found.steps) < SETTINGS.reduced_share * max(1, len(plain.instances.problem.free)):
            return self
        limits = (c.at_most for c in self.instances.problem.constraints)
        problem = Problem(found.models[0], tuple(map(Constraint, found.models[1:], limits)))
        return Reduced(problem.given(), (*plain.steps, found))

    def _card(self, variable: int) -> int:
        return self.instances.problem.objective.cardinalities[variable]
