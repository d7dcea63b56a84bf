"""A row as a smaller problem: values that are out are gone, variables with one value are fixed.

`Reduced.lift` maps an assignment of the smaller problem back; it has the same objective and the
same constraint values. `lower` maps the other way, where nothing that is out is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments, Floats, Integers
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Constraint, Instances, Problem


@dataclass(frozen=True)
class Reduced:
    """The smaller problem of one row, and the way back."""

    instances: Instances  # one row
    variables: Integers  # of the whole problem: those that are kept
    domains: tuple[Integers, ...]  # their values that are kept
    whole: Assignments  # (n,) with the fixed values in

    @classmethod
    def of(cls, instances: Instances, row: int) -> Reduced:
        """The row itself: nothing is out."""
        one = instances.take(slice(row, row + 1))
        cards, free = instances.problem.objective.cardinalities, instances.problem.free
        domains = tuple(np.arange(cards[v]) for v in free)
        whole = one.complete(np.zeros((1, len(free)), dtype=np.int32))[0]
        return cls(one, np.array(free, dtype=np.int64), domains, whole)

    def lift(self, values: Assignments) -> Assignments:
        """An assignment (n,) of the whole problem from one of the smaller problem's variables."""
        out = self.whole.copy()
        kept = values[list(self.instances.problem.free)]
        for v, domain, a in zip(self.variables, self.domains, kept, strict=True):
            out[v] = domain[a]
        return out

    def lower(self, whole: Assignments) -> Assignments | None:
        """The other way; None where a value is out."""
        problem = self.instances.problem
        values = np.zeros(len(problem.free), dtype=np.int32)
        for i, (v, domain) in enumerate(zip(self.variables, self.domains, strict=True)):
            at = int(np.searchsorted(domain, whole[v]))
            if at == len(domain) or domain[at] != whole[v]:
                return None
            values[i] = at
        lowered: Assignments = self.instances.complete(values[np.newaxis])[0]
        return lowered

    def restricted(self, domains: Sequence[Integers]) -> Reduced:
        """The same with these values left to each free variable, at least one each."""
        left = [own[list(d)] for own, d in zip(self.domains, domains, strict=True)]
        keep = [i for i, d in enumerate(left) if len(d) > 1]
        whole = self.whole.copy()
        for v, d in zip(self.variables, left, strict=True):
            whole[v] = d[0]
        number = {i: k for k, i in enumerate(keep)}
        models = [
            self._model(which, domains, number)
            for which in range(len(self.instances.problem.functions))
        ]
        limits = (c.at_most for c in self.instances.problem.constraints)
        problem = Problem(models[0], tuple(map(Constraint, models[1:], limits)))
        return Reduced(
            problem.given(), self.variables[keep], tuple(left[i] for i in keep), whole
        )

    def _model(
        self, which: int, domains: Sequence[Integers], number: dict[int, int]
    ) -> LogLinearModel:
        """What is left of one function; `number` gives the kept variables their new ones."""
        structure = self.instances.conditioning
        entries = self.instances.tables(which)[0]
        place = {v: i for i, v in enumerate(structure.free)}
        offsets = structure.layout.offsets
        sums: dict[tuple[int, ...], Floats] = {}
        for f, scope in enumerate(structure.scopes):
            axes = [place[v] for v in scope]
            table = entries[offsets[f] : offsets[f + 1]]
            if not table.any() and len(scope):
                continue
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
