"""The functions of a problem as tensors over all its variables, for rows of any mask.

Nothing is conditioned. A row of evidence only says which values are *allowed*: the observed one of
an observed variable, all of a free one. Distributions (n, K, B) put no weight on other values, so
one program evaluates every function for every mask:

    T(y) = sum over entries a of T[a] * product over i of P(y_i = a_i)

Tables of one shape are one tensor, and those of the objective and of the constraints over the same
variables lie side by side, so that h - sum of mu_j t_j is one product. The rows of a batch come
last: sums over a table's few entries then run over whole rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.errors import MethodError
from cmpe.learning.losses.relaxation import FLOOR, floored
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Problem

OUT = -1e4  # the logit of a value that is not allowed
MOST_ENTRIES = 1 << 12  # of one table

Scope = tuple[int, ...]


class SameShape(NamedTuple):
    """Tables of one shape, of all functions."""

    shape: tuple[int, ...]
    scopes: Tensor  # (T, a): variables, ascending
    tables: Tensor  # (F, T * entries)


class Potentials(NamedTuple):
    """A weighted sum of the functions, its weights by row."""

    unary: Tensor  # (n, K, B)
    tables: list[Tensor]  # (T, *shape, B) of every shape


class ModelTables:
    """h and every t_j of a problem on a device. A potential of 0 counts as in `RelaxedProblem`."""

    def __init__(self, problem: Problem, *, floor: float = FLOOR, device: str = "cpu") -> None:
        self.problem, self.device = problem, torch.device(device)
        cards = problem.objective.cardinalities
        self.variables, self.width = len(cards), max(cards, default=1)
        self.functions = len(problem.functions)
        sizes = torch.tensor(cards, device=self.device)
        self.exists = torch.arange(self.width, device=self.device) < sizes[:, None]  # (n, K)
        models = [f if f.is_finite else floored(f, floor) for f in problem.models]
        constant, unary, joint = _by_scope(models, cards)
        self.constant = self._tensor(constant)  # (F,)
        self.unary = self._tensor(unary)  # (F, n, K)
        self.groups = [
            self._group(shape, joint) for shape in sorted(set(map(_shape, joint.values())))
        ]
        self.scopes = list(joint)
        self.scale = self._scale()

    def _tensor(self, values: Floats) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.device)

    def _group(self, shape: tuple[int, ...], joint: dict[Scope, Floats]) -> SameShape:
        here = {scope: tables for scope, tables in joint.items() if _shape(tables) == shape}
        scopes = torch.tensor(list(here), device=self.device)
        stacked = np.stack(list(here.values()), axis=1)  # (F, T, *shape)
        return SameShape(shape, scopes, self._tensor(stacked.reshape(self.functions, -1)))

    def _scale(self) -> float:
        """The mean size of h's slopes at the uniform point: the unit of all features."""
        weights = torch.zeros((1, self.functions), device=self.device)
        weights[:, 0] = 1.0
        allowed = self.exists.unsqueeze(-1)
        uniform = self.points(torch.zeros_like(allowed, dtype=torch.float32), allowed)
        slopes = self.fields(self.weighted(weights), uniform)
        away = slopes - (uniform * slopes).sum(1, keepdim=True)
        size = away.abs().masked_fill(~allowed, 0.0).sum() / allowed.sum()
        return max(float(size), 1e-6)

    def allowed(self, given: Tensor) -> Tensor:
        """Which values evidence (B, n), -1 where free, leaves: (n, K, B)."""
        number = torch.arange(self.width, device=self.device).view(-1, 1)
        chosen = given.t().unsqueeze(1)
        return self.exists.unsqueeze(-1) & ((chosen < 0) | (chosen == number))

    def points(self, logits: Tensor, allowed: Tensor) -> Tensor:
        """Distributions (n, K, B) over the allowed values."""
        return torch.softmax(logits.masked_fill(~allowed, OUT), 1)

    def rounded(self, points: Tensor) -> Tensor:
        """The most probable value of each variable (B, n); a tie takes the lower."""
        return points.argmax(1).t()

    def certain(self, values: Tensor) -> Tensor:
        """Values (B, n) as distributions."""
        number = torch.arange(self.width, device=self.device).view(-1, 1)
        return (values.t().unsqueeze(1) == number).to(torch.float32)

    def values(self, points: Tensor) -> Tensor:
        """Every function at `points`: (B, F)."""
        total = self.constant.unsqueeze(-1) + self.unary.flatten(1) @ points.flatten(0, 1)
        for group in self.groups:
            entries = reduce(torch.mul, self.spread(group, points))
            total = total + group.tables @ entries.flatten(0, -2)
        return total.t()

    def spread(self, group: SameShape, numbers: Tensor) -> list[Tensor]:
        """Numbers of every variable's values (n, K, B) along each axis: (T, 1, .., k, .., 1, B)."""
        arity, out = len(group.shape), []
        for i, k in enumerate(group.shape):
            here = numbers.index_select(0, group.scopes[:, i])[:, :k]
            shape = (k if j == i else 1 for j in range(arity))
            out.append(here.reshape(len(here), *shape, numbers.shape[-1]))
        return out

    def weighted(self, weights: Tensor) -> Potentials:
        """The sum of weights (B, F) times the functions, without constants."""
        rows, mine = len(weights), weights.t()
        unary = (self.unary.flatten(1).t() @ mine).view(self.variables, self.width, rows)
        tables = [(g.tables.t() @ mine).view(len(g.scopes), *g.shape, rows) for g in self.groups]
        return Potentials(unary, tables)

    def fields(self, potentials: Potentials, points: Tensor) -> Tensor:
        """The slope by every value's probability: (n, K, B)."""
        total = potentials.unary.expand(points.shape).clone()
        for group, table in zip(self.groups, potentials.tables, strict=True):
            parts = self.spread(group, points)
            for i in range(len(parts)):
                others = reduce(torch.mul, [p for j, p in enumerate(parts) if j != i], table)
                away = [j + 1 for j in range(len(parts)) if j != i]
                self.collect(total, group, i, others.sum(away))
        return total

    def collect(self, total: Tensor, group: SameShape, axis: int, numbers: Tensor) -> None:
        """Add numbers of every table's axis (T, k, B) to its variable's values, in place."""
        total[:, : group.shape[axis]].index_add_(0, group.scopes[:, axis], numbers)

    def ceilings(self, allowed: Tensor, weights: Tensor) -> Tensor:
        """Upper bounds of sums of weights (L, F) times the functions given evidence: (B, L).

        The sum over tables of the largest entry that the evidence allows.
        """
        possible = [reduce(torch.logical_and, self.spread(g, allowed)) for g in self.groups]
        out = []
        for weight in weights:
            parts = self.weighted(weight.unsqueeze(0))
            best = parts.unary.where(allowed, -torch.inf).amax(1).sum(0)
            for table, mask in zip(parts.tables, possible, strict=True):
                entries = table.where(mask, -torch.inf).flatten(1, -2)
                best = best + entries.amax(1).sum(0)
            out.append(best + weight @ self.constant)
        return torch.stack(out, 1)


def _shape(tables: Floats) -> tuple[int, ...]:
    return tables.shape[1:]


def _by_scope(
    models: Iterable[LogLinearModel], cards: tuple[int, ...]
) -> tuple[Floats, Floats, dict[Scope, Floats]]:
    """Constants (F,), tables of one variable (F, n, K) and the others (F, *shape) by scope."""
    every = list(models)
    constant = np.zeros(len(every))
    unary = np.zeros((len(every), len(cards), max(cards, default=1)))
    joint: dict[Scope, Floats] = {}
    for w, model in enumerate(every):
        for factor in model.factors:
            order = np.argsort(factor.scope)
            scope = tuple(int(factor.scope[i]) for i in order)
            table = np.transpose(factor.log_table, order)
            if len(scope) == 0:
                constant[w] += float(table)
            elif len(scope) == 1:
                unary[w, scope[0], : table.shape[0]] += table
            else:
                if prod(table.shape) > MOST_ENTRIES:
                    raise MethodError(
                        f"a network for any evidence takes tables of at most {MOST_ENTRIES} "
                        f"entries, found {prod(table.shape)}"
                    )
                joint.setdefault(scope, np.zeros((len(every), *table.shape)))[w] += table
    return constant, unary, joint
