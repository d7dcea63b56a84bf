"""`Layer`: a network's scores as a distribution over the assignments that obey a problem.

    p(y) = exp(u(y) + h(y)) / Z(u)  where y satisfies the rules and limits, else 0
    u(y) = sum over variables of the score of their state

Scores are the network's output. Sums are made by the compiled core, in float64 and on the CPU: a
tensor on another device is copied there and back.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cmpe.arrays import FREE, Assignments, Floats, Values
from cmpe.elimination.circuits import NONE, Circuit
from cmpe.elimination.counts import Count, Counts
from cmpe.elimination.rules import joined
from cmpe.elimination.sums import LogSum, with_top
from cmpe.errors import EvidenceError, MethodError, ModelError, TooLarge
from cmpe.models.constraint import tolerance_of
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.problem import Form, Problem, need_problem
from cmpe.problem.groups import by_observed
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import answer_rows
from cmpe.torch.breaches import breach
from cmpe.tradeoffs.sums import Summation

CHUNK_BYTES = 1 << 26  # tables of so many bytes are summed at once
MOST_WORK = 1 << 24  # entries that elimination may touch for one row: half a second
Scores = Tensor | Mapping[Any, Tensor]


class Layer(nn.Module):
    """Scores (B, n, k) of the states of all variables as distributions under a problem's rules.

    Scores are log-potentials, as `potentials` of `cmpe.solve`: a tensor padded where variables have
    fewer than k states, or {name: (B, states)}, where variables that are left out score 0. -inf
    forbids a state. `limits` are rows' own limits. The structure is prepared once.
    """

    def __init__(self, problem: Problem, *, threads: int | None = None) -> None:
        super().__init__()
        need_problem(problem, "cmpe.torch.Layer")
        problem.need_tables("cmpe.torch.Layer")
        if problem.form not in (Form.TABLES, Form.RULES):
            raise MethodError(
                f"cmpe.torch.Layer needs log-linear models, found {problem.form.value}"
            )
        self.problem = problem.observing(())
        self.threads = torch.get_num_threads() if threads is None else threads
        self.trained_through = False  # whether gradients of log Z have passed

    def forward(self, potentials: Scores, limits: RowLimits | None = None) -> LayerDistribution:
        """The distributions of a batch of scores."""
        return LayerDistribution(self, self._padded(potentials), limits)

    def extra_repr(self) -> str:
        """What torch shows of the layer."""
        return repr(self.problem)

    def _padded(self, potentials: Scores) -> Tensor:
        domain = self.problem.domain
        most = max(domain.cardinalities)
        if not isinstance(potentials, Mapping):
            if not isinstance(potentials, Tensor) or not potentials.is_floating_point():
                raise EvidenceError("scores must be a tensor of float32 or float64, or a mapping")
            shape = (domain.variables, most)
            given = tuple(potentials.shape)
            if potentials.ndim != 3 or given[1] != shape[0] or given[2] < most:
                raise EvidenceError(
                    f"scores must have shape (rows, {shape[0]}, {most}), found {given}"
                )
            return potentials
        by_variable = {domain.variable(name): scores for name, scores in potentials.items()}
        if not by_variable:
            raise EvidenceError("scores must name a variable, found none")
        first = next(iter(by_variable.values()))
        parts = []
        for v, k in enumerate(domain.cardinalities):
            part = by_variable.get(v, first.new_zeros(1, k).expand(len(first), k))
            if tuple(part.shape) != (len(first), k):
                raise EvidenceError(
                    f"scores of {domain.called(v)} must have shape ({len(first)}, {k}), found "
                    f"{tuple(part.shape)}"
                )
            parts.append(nn.functional.pad(part, (0, most - k)))
        return torch.stack(parts, dim=1)

    @cached_property
    def structure(self) -> LayerStructure:
        """The problem as sums, prepared when it is first needed."""
        return LayerStructure(self.problem)


class ThresholdWarning(UserWarning):
    """Scores that were trained through rules were read without the rules."""


class Expected(NamedTuple):
    """Of each row: the log-partition, the marginals, and the expectation of h."""

    log_partition: Floats  # (B,)
    marginals: Floats  # (B, n, k)
    objective: Floats  # (B,)


class LayerStructure:
    """A problem with a table for each variable, ready to add scores to.

    Rows without counts are summed by one circuit; others by elimination with running counts.
    """

    def __init__(self, problem: Problem) -> None:
        domain = problem.domain
        zeros = [Factor((v,), np.zeros(k)) for v, k in enumerate(domain.cardinalities)]
        own = LogLinearModel(domain.cardinalities, tuple(zeros), domain.names, domain.states)
        whole: Any = problem.objective
        if isinstance(whole, RuledModel):
            whole = replace(whole, rules=tuple(map(joined, whole.rules)))
        posed = Problem(whole + own, problem.constraints)
        rows = Rows(posed, np.full((1, domain.variables), FREE, dtype=np.int32))
        question = Summation.of(rows, 1)
        (instances, _), *_ = by_observed(question.problem.observing(()), question.evidence)
        self.problem, inner = problem, instances.problem
        structure = instances.conditioning
        self.layout, self.tables = structure.layout, instances.tables(0)
        self.limited = [instances.tables(1 + j) for j in range(len(inner.constraints))]
        if inner.plan.operations > MOST_WORK:
            raise TooLarge(
                f"a layer needs elimination of at most {MOST_WORK} entries a row, found "
                f"{inner.plan.operations}: only argmax is possible; train with "
                "cmpe.torch.FenchelYoung"
            )
        self.plan = inner.compiled_plan
        cards = np.array(domain.cardinalities)
        first = dict(zip(structure.scopes, structure.layout.offsets.tolist(), strict=False))
        self.alone = cards == 1  # their scores are added to every assignment
        self.states = np.flatnonzero(np.arange(cards.max()) < cards[:, None] * ~self.alone[:, None])
        variable, state = np.divmod(self.states, cards.max())
        self.entries = np.array([first[(v,)] for v in variable.tolist()], dtype=int) + state
        self._counted: tuple[Any, LogSum] | None = None  # of the last counts

    @cached_property
    def circuit(self) -> Circuit:
        """The sum without counts; its leaves are the scores of all states."""
        leaves = np.full(self.tables.shape[1], NONE)
        leaves[self.entries] = self.states
        count = len(self.alone) * max(self.problem.domain.cardinalities)
        return Circuit.of(with_top(self.plan, self.layout), self.tables[0], leaves, count)

    def counts(self, limits: Floats | None) -> tuple[Count, ...]:
        """The constraints with each row's limits (B, m), as in t <= q."""
        most = self.problem.limits[np.newaxis] if limits is None else limits
        most = most + tolerance_of(most)
        pairs = [(tables, most[:, j]) for j, tables in enumerate(self.limited)]
        counts = Counts.of(self.layout, pairs)
        if counts.rest:
            raise MethodError(
                f"constraint {counts.rest[0]} is no rule, count or cost of whole steps: nothing "
                "but argmax is possible; train with cmpe.torch.FenchelYoung"
            )
        return counts.counts

    def expected(self, scores: Floats, limits: Floats | None, threads: int) -> Expected:
        """Sums of rows with scores (B, n, k)."""
        counts = self.counts(limits)
        if counts:
            found = self._with_counts(scores, counts, threads)
        else:
            total, shares, mean = self.circuit.sums(_flat(scores), threads=threads)
            constant = np.where(np.isfinite(total), mean, 0.0)
            found = Expected(total, shares.reshape(scores.shape), constant)
        if self.alone.any():
            found.log_partition[:] += scores[:, self.alone, 0].sum(axis=1)
            possible = np.isfinite(found.log_partition)
            found.marginals[:, self.alone, 0] = 1.0
            found.marginals[~possible] = 0.0
        return found

    def samples(
        self, scores: Floats, limits: Floats | None, count: int, seed: int, threads: int
    ) -> Assignments:
        """`count` exact samples of each row (B, count, n); -1 where no assignment is allowed."""
        out = np.zeros((len(scores), count, scores.shape[1]), dtype=np.int32)
        counts = self.counts(limits)
        for rows in self.chunks(len(scores)):
            generator = np.random.default_rng([seed, rows.start])
            if counts:
                own, tables = self._log_sum(counts, rows, len(scores)), self._tables(scores[rows])
                most = max(scores.shape[1], 1 + int(own.variables.max(initial=0)))
                drawn = own.samples(tables, count, generator, most, threads=threads)
                out[rows] = drawn[:, :, : scores.shape[1]]
            else:
                leaves = self.circuit.samples(_flat(scores[rows]), count, generator)
                shape = (*leaves.shape[:2], *scores.shape[1:])
                out[rows] = leaves.reshape(shape).argmax(axis=3)
                out[rows][(leaves < 0).any(axis=2)] = FREE
        out[np.isneginf(scores[:, self.alone, 0]).any(axis=1)] = FREE
        return out

    def chunks(self, count: int) -> list[slice]:
        """Rows that are worked on at once."""
        size = max(1, CHUNK_BYTES // (8 * self.tables.shape[1]))
        return [slice(a, min(a + size, count)) for a in range(0, count, size)]

    def _with_counts(self, scores: Floats, counts: tuple[Count, ...], threads: int) -> Expected:
        out = Expected(np.zeros(len(scores)), np.zeros(scores.shape), np.zeros(len(scores)))
        fixed = np.where(np.isfinite(self.tables[0]), self.tables[0], 0.0)
        for rows in self.chunks(len(scores)):
            own = self._log_sum(counts, rows, len(scores))
            found = own.marginals(self._tables(scores[rows]), threads=threads)
            out.log_partition[rows] = found.log_partition
            _flat(out.marginals)[rows, self.states] = found.entries[:, self.entries]
            out.objective[rows] = found.entries @ fixed
        return out

    def _log_sum(self, counts: tuple[Count, ...], rows: slice, whole: int) -> LogSum:
        """The sum for some of the rows: counts may have limits of each row."""
        shape = tuple((c.cap, c.saturates, c.added.tobytes()) for c in counts)
        if self._counted is None or self._counted[0] != shape:
            self._counted = shape, LogSum.of(self.plan, self.layout, counts)
        known = self._counted[1]
        chosen = (c.of_rows(rows) if len(c.low) == whole > 1 else c for c in counts)
        return LogSum(known.counted, tuple(chosen), known.boxes)

    def _tables(self, scores: Floats) -> Floats:
        """Tables (B, E) of rows with scores (B, n, k)."""
        tables = np.repeat(self.tables, len(scores), axis=0)
        tables[:, self.entries] += _flat(scores)[:, self.states]
        return tables


def _flat(scores: Floats) -> Floats:
    return scores.reshape(len(scores), scores.shape[1] * scores.shape[2])


class LayerDistribution:
    """One distribution for each row of scores, as (B, ...) tensors of the scores' type and device.

    `log_partition` and `log_prob` can be differentiated once. Rows without an allowed assignment
    have `feasible` False, log_partition -inf, marginals 0 and argmax -1.
    """

    def __init__(self, layer: Layer, potentials: Tensor, limits: RowLimits | None) -> None:
        self.layer, self.potentials = layer, potentials
        self._scores: Floats = potentials.detach().cpu().double().contiguous().numpy()
        self._check()
        self._own = limits
        self._limits = None if limits is None else self._rows.limits

    @cached_property
    def log_partition(self) -> Tensor:
        """log Z of each row: (B,); -inf where no assignment is allowed."""
        return applied(_LogPartition, self.potentials, self)

    @property
    def marginals(self) -> Tensor:
        """The probability of each state of each variable (B, n, k); 0 where there is no state."""
        return self._tensor(self._found.marginals)

    @cached_property
    def entropy(self) -> Tensor:
        """The entropy of each row in nats (B,), without a gradient; NaN in infeasible rows."""
        total, shares, objective = self._found
        inside = np.where(shares > 0.0, self._scores, 0.0) * shares
        mean = objective + inside.sum(axis=(1, 2))
        possible = np.isfinite(total)
        return self._tensor(np.where(possible, np.where(possible, total, 0.0) - mean, np.nan))

    @cached_property
    def solutions(self) -> Solutions:
        """The most probable assignment of each row, with its bound, status and proof."""
        how = Limits(threads=self.layer.threads)
        return answer_rows(self._rows, "auto", how)

    @property
    def argmax(self) -> Tensor:
        """The most probable allowed assignment of each row (B, n); -1 where there is none."""
        found = torch.from_numpy(self.solutions.assignments.astype(np.int64))
        return found.to(self.potentials.device)

    @cached_property
    def feasible(self) -> Tensor:
        """Whether an assignment is allowed, of each row: (B,)."""
        return torch.isfinite(self.log_partition.detach())

    def log_prob(self, y: Tensor) -> Tensor:
        """log p of an assignment (B, n) of each row: (B,); -inf where it breaks a rule.

        A gradient of such a row is an error, which names the row and the rule.
        """
        rows = self._assignments(y)
        scored = self.potentials.gather(2, y.unsqueeze(2).to(self.potentials.device)).squeeze(2)
        fixed, allowed = self._judged(rows, scored)
        self._warn_of_thresholds(rows, allowed)
        possible = torch.from_numpy(allowed).to(self.potentials.device)
        inside = scored.sum(dim=1) + self._tensor(fixed) - self.log_partition
        outside = applied(_Outside, self.log_partition, rows, self)
        return torch.where(possible, inside, outside)

    def sample(self, count: int | None = None) -> Tensor:
        """Exact samples by torch's random numbers: (B, n), or (count, B, n)."""
        seed = int(torch.randint(1 << 62, ()).item())
        drawn = self.layer.structure.samples(
            self._scores, self._limits, 1 if count is None else count, seed, self.layer.threads
        )
        out = torch.from_numpy(drawn.astype(np.int64)).to(self.potentials.device)
        return out[:, 0] if count is None else out.transpose(0, 1)

    @cached_property
    def _found(self) -> Expected:
        layer = self.layer
        return layer.structure.expected(self._scores, self._limits, layer.threads)

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self.potentials)

    @cached_property
    def _rows(self) -> Rows:
        problem = self.layer.problem
        own: Potentials = {
            v: self._scores[:, v, :k] for v, k in enumerate(problem.domain.cardinalities)
        }
        rows = Rows.own(problem, None, own, self._own)
        assert rows is not None
        return rows

    def _check(self) -> None:
        cards = np.array(self.layer.problem.domain.cardinalities)
        wrong = ~(self._scores < np.inf)  # NaN, too
        wrong[:, np.arange(wrong.shape[2]) >= cards[:, np.newaxis]] = False
        if wrong.any():
            row, v, state = (int(i) for i in np.argwhere(wrong)[0])
            raise EvidenceError(
                f"row {row}, {self.layer.problem.domain.called(v)}: scores must be finite, or "
                f"-inf to forbid; found {self._scores[row, v, state]}"
            )

    def _assignments(self, y: Tensor) -> Values:
        shape = self._scores.shape[:2]
        if tuple(y.shape) != shape or y.is_floating_point():
            raise EvidenceError(
                f"y must be whole numbers of shape {shape}, found {y.dtype} {tuple(y.shape)}"
            )
        rows = y.detach().cpu().numpy().astype(np.int32)
        wrong = (rows < 0) | (rows >= np.array(self.layer.problem.domain.cardinalities))
        if wrong.any():
            row, v = (int(i) for i in np.argwhere(wrong)[0])
            raise EvidenceError(
                f"row {row}, {self.layer.problem.domain.called(v)}: a state must be from 0 to "
                f"{self.layer.problem.domain.cardinalities[v] - 1}, found {rows[row, v]}"
            )
        return rows

    def _warn_of_thresholds(self, rows: Values, allowed: NDArray[np.bool_]) -> None:
        """Warn where y is what the scores alone say, of a layer that was trained through."""
        if not self.layer.trained_through or allowed.all():
            return
        cards = np.array(self.layer.problem.domain.cardinalities)
        states = np.arange(self._scores.shape[2])
        real = np.where(states < cards[:, np.newaxis], self._scores, -np.inf)
        if (real.argmax(axis=2) == rows)[~allowed].all():
            warnings.warn(
                f"y is the state of the highest score of each variable, and {(~allowed).sum()} of "
                f"{len(rows)} rows break a rule: scores that were trained through rules mean "
                "nothing on their own; predict by argmax, or by the marginals",
                ThresholdWarning,
                stacklevel=3,
            )

    def _judged(self, rows: Values, scored: Tensor) -> tuple[Floats, NDArray[np.bool_]]:
        """h of each row, and whether it is allowed; `scored` (B, n) are its scores."""
        problem = self.layer.problem
        h, values = problem.objective.value(rows), problem.constraint_values(rows)
        own = scored.detach().sum(dim=1).double().cpu().numpy()
        allowed = problem.are_feasible(h + own, values, self._limits)
        return np.where(allowed, h, 0.0), allowed


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """The value of a function with a derivative of its own."""
    value: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return value


class _LogPartition(torch.autograd.Function):
    """log Z; its derivative is the marginals."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, found: LayerDistribution) -> Tensor:
        ctx.found = found
        return found._tensor(found._found.log_partition)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        ctx.found.layer.trained_through = True
        return gradient[:, None, None] * ctx.found.marginals, None


class _Outside(torch.autograd.Function):
    """-inf, which nothing may be trained on."""

    @staticmethod
    def forward(ctx: Any, log_partition: Tensor, rows: Values, found: LayerDistribution) -> Tensor:
        ctx.rows, ctx.found = rows, found
        return torch.full_like(log_partition, -torch.inf)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        wrong = torch.nonzero(gradient.detach().cpu())
        if len(wrong):
            row = int(wrong[0])
            problem = ctx.found._rows.problem_of(row)
            raise ModelError(
                f"row {row}: log_prob needs a y that the rules allow; found one that breaks "
                f"{breach(ctx.found.layer.problem, problem, ctx.rows[row])}"
            )
        return gradient, None, None
