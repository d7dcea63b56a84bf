"""`Layer`: a network's scores as a distribution over the assignments that obey a problem.

    p(y) = exp(u(y) + h(y)) / Z(u)  where y satisfies the rules and limits, else 0
    u(y) = sum over variables of the score of their state

Scores are the network's output. Sums are made by the compiled core, in float64 and on the CPU: a
tensor on another device is copied there and back.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cmpe.arrays import FREE, Floats, Values
from cmpe.elimination.counts import Counts
from cmpe.elimination.sums import LogSum, Marginals
from cmpe.errors import EvidenceError, MethodError, ModelError, TooLarge
from cmpe.models.constraint import tolerance_of
from cmpe.models.loglinear import Factor, LogLinearModel
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


class LayerStructure:
    """A problem with a table for each variable, ready to add scores to."""

    def __init__(self, problem: Problem) -> None:
        domain = problem.domain
        zeros = [Factor((v,), np.zeros(k)) for v, k in enumerate(domain.cardinalities)]
        own = LogLinearModel(domain.cardinalities, tuple(zeros), domain.names, domain.states)
        whole: Any = problem.objective
        posed = Problem(whole + own, problem.constraints)
        rows = Rows(posed, np.full((1, domain.variables), FREE, dtype=np.int32))
        question = Summation.of(rows, 1)
        (instances, _), *_ = by_observed(question.problem.observing(()), question.evidence)
        self.problem, inner = problem, instances.problem
        structure = instances.conditioning
        self.layout, self.tables = structure.layout, instances.tables(0)
        self.limited = [instances.tables(1 + j) for j in range(len(inner.constraints))]
        places = {
            scope: int(structure.layout.offsets[f]) for f, scope in enumerate(structure.scopes)
        }
        self.places = [places[(v,) if k > 1 else ()] for v, k in enumerate(domain.cardinalities)]
        if inner.plan.operations > MOST_WORK:
            raise TooLarge(
                f"a layer needs elimination of at most {MOST_WORK} entries a row, found "
                f"{inner.plan.operations}: nothing but argmax is possible; train with "
                "cmpe.torch.FenchelYoung"
            )
        self.plan = inner.compiled_plan
        self._known: tuple[Any, LogSum] | None = None  # of the last counts

    def sums(self, limits: Floats | None) -> LogSum:
        """The sum with each row's limits (B, m), as in t <= q."""
        most = self.problem.limits[np.newaxis] if limits is None else limits
        most = most + tolerance_of(most)
        pairs = [(tables, most[:, j]) for j, tables in enumerate(self.limited)]
        counts = Counts.of(self.layout, pairs)
        if counts.rest:
            raise MethodError(
                f"constraint {counts.rest[0]} is no rule, count or cost of whole steps: nothing "
                "but argmax is possible; train with cmpe.torch.FenchelYoung"
            )
        shape = tuple((c.cap, c.saturates, c.added.tobytes()) for c in counts.counts)
        if self._known is None or self._known[0] != shape:
            self._known = shape, LogSum.of(self.plan, self.layout, counts.counts)
        known = self._known[1]
        return LogSum(known.counted, counts.counts, known.boxes)

    def with_scores(self, scores: Floats) -> Floats:
        """Tables (B, E) of rows with scores (B, n, k)."""
        tables = np.repeat(self.tables, len(scores), axis=0)
        for v, k in enumerate(self.problem.domain.cardinalities):
            tables[:, self.places[v] : self.places[v] + k] += scores[:, v, :k]
        return tables

    def chunks(self, count: int) -> list[slice]:
        """Rows that are summed at once."""
        size = max(1, CHUNK_BYTES // (8 * self.tables.shape[1]))
        return [slice(a, min(a + size, count)) for a in range(0, count, size)]


class LayerDistribution:
    """One distribution for each row of scores, as (B, ...) tensors of the scores' type and device.

    `log_partition` and `log_prob` can be differentiated once. Rows without an allowed assignment
    have `feasible` False, log_partition -inf, marginals 0 and argmax -1.
    """

    def __init__(self, layer: Layer, potentials: Tensor, limits: RowLimits | None) -> None:
        self.layer, self.potentials = layer, potentials
        scores: Floats = potentials.detach().cpu().double().numpy()
        self._check(scores)
        self._scores = scores
        self._rows = self._read(limits)

    @cached_property
    def log_partition(self) -> Tensor:
        """log Z of each row: (B,); -inf where no assignment is allowed."""
        return applied(_LogPartition, self.potentials, self)

    @property
    def marginals(self) -> Tensor:
        """The probability of each state of each variable (B, n, k); 0 where there is no state."""
        return self._tensor(self._found[1])

    @cached_property
    def entropy(self) -> Tensor:
        """The entropy of each row in nats (B,), without a gradient; NaN in infeasible rows."""
        out = np.full(len(self._scores), np.nan)
        for rows, tables, part in self._summed():
            mean = (np.where(part.entries > 0.0, tables, 0.0) * part.entries).sum(axis=1)
            total = part.log_partition
            out[rows] = np.where(np.isfinite(total), total - mean, np.nan)
        return self._tensor(out)

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
        fixed, allowed = self._judged(rows)
        self._warn_of_thresholds(rows, allowed)
        possible = torch.from_numpy(allowed).to(self.potentials.device)
        inside = scored.sum(dim=1) + self._tensor(fixed) - self.log_partition
        outside = applied(_Outside, self.log_partition, rows, self)
        return torch.where(possible, inside, outside)

    def sample(self, count: int | None = None) -> Tensor:
        """Exact samples by torch's random numbers: (B, n), or (count, B, n)."""
        structure, sums, n = self.layer.structure, self._sums, self._scores.shape[1]
        seed = int(torch.randint(1 << 62, ()).item())
        drawn = [
            _of_rows(sums, rows, len(self._scores)).samples(
                structure.with_scores(self._scores[rows]),
                1 if count is None else count,
                np.random.default_rng([seed, rows.start]),
                max(n, 1 + int(sums.variables.max(initial=0))),
                threads=self.layer.threads,
            )[:, :, :n]
            for rows in structure.chunks(len(self._scores))
        ]
        whole = np.concatenate([np.zeros((0, count or 1, n), dtype=np.int32), *drawn])
        out = torch.from_numpy(whole.astype(np.int64)).to(self.potentials.device)
        return out[:, 0] if count is None else out.transpose(0, 1)

    @cached_property
    def _found(self) -> tuple[Floats, Floats]:
        """Log-partitions and marginals."""
        total, marginals = np.zeros(len(self._scores)), np.zeros(self._scores.shape)
        cards = self.layer.problem.domain.cardinalities
        for rows, _, part in self._summed():
            total[rows] = part.log_partition
            for v, values in zip(self._sums.variables, part.values, strict=True):
                if v < len(cards):
                    marginals[rows, v, : cards[v]] = values
        for v, k in enumerate(cards):
            if k == 1:
                marginals[:, v, 0] = np.isfinite(total)
        return total, marginals

    @cached_property
    def _sums(self) -> LogSum:
        return self.layer.structure.sums(self._rows.limits)

    def _summed(self) -> Iterator[tuple[slice, Floats, Marginals]]:
        """Chunks of rows with their tables and marginals."""
        structure, count = self.layer.structure, len(self._scores)
        for rows in structure.chunks(count):
            tables = structure.with_scores(self._scores[rows])
            part = _of_rows(self._sums, rows, count)
            yield rows, tables, part.marginals(tables, threads=self.layer.threads)

    def _tensor(self, values: NDArray[Any]) -> Tensor:
        return torch.from_numpy(values).to(self.potentials)

    def _read(self, limits: RowLimits | None) -> Rows:
        problem = self.layer.problem
        own: Potentials = {
            v: self._scores[:, v, :k] for v, k in enumerate(problem.domain.cardinalities)
        }
        rows = Rows.own(problem, None, own, limits)
        assert rows is not None
        return rows

    def _check(self, scores: Floats) -> None:
        for v, k in enumerate(self.layer.problem.domain.cardinalities):
            own = scores[:, v, :k]
            wrong = np.isnan(own) | np.isposinf(own)
            if wrong.any():
                row = int(np.argwhere(wrong)[0][0])
                raise EvidenceError(
                    f"row {row}, {self.layer.problem.domain.called(v)}: scores must be finite, or "
                    f"-inf to forbid; found {own[wrong][0]}"
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

    def _judged(self, rows: Values) -> tuple[Floats, NDArray[np.bool_]]:
        """h of each row, and whether it is allowed."""
        problem = self.layer.problem
        h, values = problem.objective.value(rows), problem.constraint_values(rows)
        own = np.take_along_axis(self._scores, rows[:, :, np.newaxis], axis=2).sum(axis=(1, 2))
        allowed = problem.are_feasible(h + own, values, self._rows.limits)
        return np.where(allowed, h, 0.0), allowed


def _of_rows(sums: LogSum, rows: slice, count: int) -> LogSum:
    """The sum for some of the rows: counts may have limits of each row."""
    chosen = [c.of_rows(rows) if len(c.low) == count > 1 else c for c in sums.counts]
    return LogSum(sums.counted, tuple(chosen), sums.boxes)


def applied(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """The value of a function with a derivative of its own."""
    value: Tensor = function.apply(*arguments)  # type: ignore[no-untyped-call]
    return value


class _LogPartition(torch.autograd.Function):
    """log Z; its derivative is the marginals."""

    @staticmethod
    def forward(ctx: Any, potentials: Tensor, found: LayerDistribution) -> Tensor:
        ctx.found = found
        return found._tensor(found._found[0])

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
