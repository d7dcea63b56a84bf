"""The sum of exp h over the assignments that agree with evidence and satisfy the constraints.

Constraints are carried along as counts where their tables hold whole numbers. Others are left to
the caller, who samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats, Indices, Values
from cmpe.elimination.counts import Counts
from cmpe.elimination.sums import LogSum
from cmpe.errors import TooLarge
from cmpe.problem import Form, Instances, Problem
from cmpe.problem.groups import by_observed
from cmpe.problem.patterns import Twins
from cmpe.problem.rows import Rows
from cmpe.tradeoffs.settings import TRADEOFFS


class PosteriorSums(NamedTuple):
    """Of each row: the log-partition, and the marginals of every variable."""

    log_partition: Floats  # (B,)
    marginals: list[Floats]  # (B, states) each; zeros where the log-partition is -inf


class Drawn(NamedTuple):
    """Samples of some rows, and which of them satisfy the constraints that are no counts."""

    rows: Indices
    samples: Assignments  # (R, N, n)
    feasible: NDArray[np.bool_]  # (R, N)


class NotCounted(Exception):  # noqa: N818 - caught here and by the caller, who samples
    """Constraints that elimination cannot carry along as counts."""

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__(f"constraints {numbers}")
        self.numbers = numbers


class _SumPart(NamedTuple):
    """Rows of one structure with their tables."""

    rows: Indices
    instances: Instances
    total: LogSum
    tables: Floats


@dataclass(frozen=True)
class Summation:
    """Rows of evidence (B, n), -1 where free, of a log-linear problem or of cutset networks.

    Sums are over the first `variables` variables: further ones are functions of these.
    """

    problem: Problem
    evidence: Values
    variables: int
    outside: frozenset[int] = field(default=frozenset())  # constraints that are left out
    threads: int = 1

    @classmethod
    def of(cls, rows: Rows, threads: int) -> Summation:
        """Rows as those of an ordinary problem, whose rules are tables."""
        problem, evidence = rows.problem, rows.evidence
        if rows.has_numbers and len(rows):
            problem, evidence = rows.lifted, rows.numbered(evidence)
        if problem.form is Form.RULES and len(rows):
            ruled = Rows(problem, evidence)
            problem, evidence = ruled.lifted, ruled.numbered(evidence)
        return cls(problem, evidence, rows.problem.variables, threads=threads)

    def without(self, numbers: tuple[int, ...]) -> Summation:
        """The same question with fewer constraints."""
        return replace(self, outside=self.outside | set(numbers))

    def sums(self) -> PosteriorSums:
        """Log-partitions and marginals of every row; NotCounted where a constraint is no count."""
        if not self.problem.is_log_linear:
            return self._by_branch()
        cards = self.problem.domain.cardinalities[: self.variables]
        out = PosteriorSums(
            np.zeros(len(self.evidence)), [np.zeros((len(self.evidence), k)) for k in cards]
        )
        for part in self.parts():
            found = part.total.marginals(part.tables, threads=self.threads)
            out.log_partition[part.rows] = found.log_partition
            possible = np.isfinite(found.log_partition)
            self._fill_observed(out.marginals, part, possible)
            for v, values in zip(part.total.variables, found.values, strict=True):
                if v < self.variables:
                    out.marginals[v][part.rows] = values
        return out

    def log_partitions(self) -> Floats:
        """The log-partitions alone."""
        if not self.problem.is_log_linear:
            return self._by_branch().log_partition
        out = np.zeros(len(self.evidence))
        for part in self.parts():
            out[part.rows] = part.total.log_partitions(part.tables, threads=self.threads)
        return out

    def drawn(self, count: int, seed: np.random.SeedSequence) -> Iterator[Drawn]:
        """`count` exact samples of every row within the counts, judged by the other constraints."""
        generator = np.random.default_rng(seed)
        for part in self.parts():
            width = max(part.total.draws, part.instances.problem.variables)
            size = max(1, TRADEOFFS.sampled // max(1, count * width))
            for begin in range(0, len(part.rows), size):
                own = slice(begin, begin + size)
                yield self._judged(part, own, count, generator)

    def _judged(
        self, part: _SumPart, own: slice, count: int, generator: np.random.Generator
    ) -> Drawn:
        problem = part.instances.problem
        samples = part.total.samples(
            part.tables[own], count, generator, problem.variables, threads=self.threads
        )
        observed = list(problem.evidence_variables)
        samples[:, :, observed] = part.instances.evidence[own, np.newaxis]
        possible = np.asarray((samples >= 0).all(axis=2))
        flat = np.maximum(samples, 0).reshape(-1, problem.variables)
        for j in self.outside:
            constraint = problem.constraints[j]
            inside = constraint.function.value(flat) - constraint.at_most <= constraint.tolerance
            possible = np.asarray(possible & inside.reshape(possible.shape))
        return Drawn(part.rows[own], samples[:, :, : self.variables], possible)

    def _fill_observed(
        self, marginals: list[Floats], part: _SumPart, possible: NDArray[np.bool_]
    ) -> None:
        """The observed state of a variable has probability 1, and the one of a single state."""
        problem = part.instances.problem
        for v in range(self.variables):
            if problem.domain.cardinalities[v] == 1:
                marginals[v][part.rows, 0] = possible
        for column, v in enumerate(problem.evidence_variables):
            if v < self.variables:
                marginals[v][part.rows, part.instances.evidence[:, column]] = possible

    def parts(self) -> Iterator[_SumPart]:
        """Rows by structure, a few at a time; NotCounted where a constraint is no count."""
        for instances, numbers in self._groups():
            each = len(instances.conditioning.layout.values) * (1 + len(self.problem.constraints))
            size = max(1, TRADEOFFS.sum_bytes // (8 * max(1, each)))
            for begin in range(0, len(instances), size):
                own = slice(begin, begin + size)
                yield self._part(instances.take(own), numbers[own])

    def _part(self, instances: Instances, numbers: Indices) -> _SumPart:
        problem, layout = instances.problem, instances.conditioning.layout
        chosen = [j for j in range(len(problem.constraints)) if j not in self.outside]
        most = problem.limits + problem.tolerances
        limited = [(instances.tables(1 + j), np.full(len(numbers), most[j])) for j in chosen]
        counts = Counts.of(layout, limited)
        if counts.rest:
            raise NotCounted(tuple(chosen[j] for j in counts.rest))
        try:
            problem.plan.require()
            total = LogSum.of(problem.compiled_plan, layout, counts.counts)
        except TooLarge:
            if not counts.counts:
                raise
            rest = counts.without_largest().rest
            raise NotCounted(tuple(chosen[j] for j in rest)) from None
        return _SumPart(numbers, instances, total, instances.tables(0))

    def _groups(self) -> list[tuple[Instances, Indices]]:
        """Rows by what they observe; as one structure where there are many sets of variables."""
        batches = by_observed(self.problem.observing(()), self.evidence)
        if len(batches) < TRADEOFFS.many_sets:
            return batches
        twins = Twins.of(batches).instances
        work = (
            TRADEOFFS.seconds_per_weight * len(twins) * min(twins.problem.plan.operations, 1 << 60)
        )
        apart = TRADEOFFS.seconds_per_variable * self.problem.variables * len(batches)
        return [(twins, np.arange(len(twins)))] if work <= apart else batches

    def _by_branch(self) -> PosteriorSums:
        """The leaves of cutset networks are disjoint: their sums add up."""
        total, rows = np.full(len(self.evidence), -np.inf), self.evidence
        cards = self.problem.domain.cardinalities
        marginals = [np.zeros((len(rows), k)) for k in cards]
        for branch in self.problem.branches:
            numbers = np.flatnonzero(branch.agrees(rows))
            if not len(numbers):
                continue
            inside = np.where(branch.leaf.context >= 0, branch.leaf.context, rows[numbers])
            found = replace(self, problem=branch.problem, evidence=inside).sums()
            whole = np.logaddexp(total[numbers], found.log_partition)
            finite = np.where(np.isfinite(whole), whole, 0.0)
            for old, new in zip(marginals, found.marginals, strict=True):
                kept = np.exp(total[numbers] - finite)[:, np.newaxis]
                added = np.exp(found.log_partition - finite)[:, np.newaxis]
                old[numbers] = kept * old[numbers] + added * new
            total[numbers] = whole
        return PosteriorSums(total, marginals)
