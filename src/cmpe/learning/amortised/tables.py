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

from cmpe.arrays import Floats, Integers
from cmpe.errors import MethodError
from cmpe.learning.amortised.incidence import Incidence
from cmpe.learning.losses.relaxation import FLOOR, floored
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Problem

OUT = -1e4  # the logit of a value that is not allowed
RANDOM = 64  # assignments that slopes are averaged over
UNIT = 2.0  # slopes of h that a violation counts for a slope of its constraint
MOST_ENTRIES = 1 << 12  # of one table

Scope = tuple[int, ...]


class SameShape(NamedTuple):
    """Tables of one shape, of all functions."""

    shape: tuple[int, ...]
    scopes: Tensor  # (T, a): variables, ascending
    tables: Tensor  # (F, T * entries)
    axes: list[slice]  # where each of the a axes of all tables lies in the incidence


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
        self.groups: list[SameShape] = []
        owner = [np.zeros(0, dtype=np.int64)]
        for shape in sorted(set(map(_shape, joint.values()))):
            self.groups.append(self._group(shape, joint, owner))
        self.incidence = Incidence(np.concatenate(owner), self.variables, self.device)
        self.scopes = list(joint)
        sizes_of = [self._scale(w) for w in range(self.functions)]
        self.scale = sizes_of[0]  # the unit of all features
        units = [UNIT * self.scale / own for own in sizes_of[1:]]
        self.units = torch.tensor(units, device=self.device)  # (m,): of violations

    def _tensor(self, values: Floats) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.device)

    def _group(
        self, shape: tuple[int, ...], joint: dict[Scope, Floats], owner: list[Integers]
    ) -> SameShape:
        """The tables of one shape; the variables of their axes are added to `owner`."""
        here = {scope: tables for scope, tables in joint.items() if _shape(tables) == shape}
        scopes = np.array(list(here), dtype=np.int64)
        stacked = np.stack(list(here.values()), axis=1)  # (F, T, *shape)
        axes = []
        for column in scopes.T:
            first = sum(map(len, owner))
            axes.append(slice(first, first + len(column)))
            owner.append(column)
        tables = self._tensor(stacked.reshape(self.functions, -1))
        return SameShape(shape, torch.as_tensor(scopes, device=self.device), tables, axes)

    def _scale(self, function: int) -> float:
        """The mean size of a function's slopes at random assignments."""
        weights = torch.eye(self.functions, device=self.device)[function : function + 1]
        chance = np.random.default_rng(0).random((RANDOM, self.variables))
        numbers = torch.as_tensor(chance, device=self.device) * self.exists.sum(1)
        slopes = self.fields(self.weighted(weights), self.certain(numbers.long()))
        exists = self.exists.unsqueeze(-1)
        mean = (slopes * exists).sum(1, keepdim=True) / exists.sum(1, keepdim=True)
        size = ((slopes - mean).abs() * exists).sum() / (exists.sum() * RANDOM)
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
        for group, parts in zip(self.groups, self.spread(points), strict=True):
            entries = reduce(torch.mul, parts)
            total = total + group.tables @ entries.flatten(0, -2)
        return total.t()

    def spread(self, numbers: Tensor) -> list[list[Tensor]]:
        """Numbers of every variable's values (n, K, B) along each axis of each group of tables:
        (T, 1, .., k, .., 1, B)."""
        every, out = self.incidence.spread(numbers), []
        for group in self.groups:
            arity = len(group.shape)
            parts = []
            for i, k in enumerate(group.shape):
                shape = (k if j == i else 1 for j in range(arity))
                here = every[group.axes[i], :k]
                parts.append(here.reshape(len(here), *shape, numbers.shape[-1]))
            out.append(parts)
        return out

    def collect(self, numbers: list[list[Tensor]]) -> Tensor:
        """Numbers of all axes (T, k, B), summed over those of each variable: (n, K, B)."""
        flat = [part for parts in numbers for part in parts]
        if not flat:
            return torch.zeros((self.variables, self.width, 1), device=self.device)
        full = [torch.nn.functional.pad(p, (0, 0, 0, self.width - p.shape[1])) for p in flat]
        return self.incidence.collect(torch.cat(full))

    def weighted(self, weights: Tensor) -> Potentials:
        """The sum of weights (B, F) times the functions, without constants."""
        rows, mine = len(weights), weights.t()
        unary = (self.unary.flatten(1).t() @ mine).view(self.variables, self.width, rows)
        tables = [(g.tables.t() @ mine).view(len(g.scopes), *g.shape, rows) for g in self.groups]
        return Potentials(unary, tables)

    def fields(self, potentials: Potentials, points: Tensor) -> Tensor:
        """The slope by every value's probability: (n, K, B)."""
        said = []
        for parts, table in zip(self.spread(points), potentials.tables, strict=True):
            mine = []
            for i in range(len(parts)):
                others = reduce(torch.mul, [p for j, p in enumerate(parts) if j != i], table)
                mine.append(others.sum(_without(i, len(parts))))
            said.append(mine)
        return potentials.unary + self.collect(said)

    def multipliers(self, points: Tensor) -> Tensor:
        """mu (B, m) at which the undecided variables of `points` are in balance.

        Where a variable is undecided the slopes of h and of sum of mu_j t_j are equal. mu is their
        least-squares fit, weighted by how undecided each variable is, and at least 0.
        """
        slopes = []
        for weights in torch.eye(self.functions, device=self.device):
            found = self.fields(self.weighted(weights.unsqueeze(0)), points)
            slopes.append((found - (points * found).sum(1, keepdim=True)).flatten(0, 1))
        by = torch.stack(slopes)  # (F, n K, B)
        square = torch.einsum("fvb,gvb,vb->bfg", by, by, points.flatten(0, 1)).double()
        own = square[:, 1:, 1:]
        size = own.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-30)
        ridge = 1e-6 * size[:, None, None] * torch.eye(own.shape[1], device=self.device)
        fitted: Tensor = torch.linalg.solve(own + ridge, square[:, 1:, 0])
        return fitted.clamp(min=0.0)

    def ceilings(self, allowed: Tensor, weights: Tensor, messages: Messages = None) -> Tensor:
        """Upper bounds of sums of weights (L, F) times the functions given evidence: (B, L).

        The sum over tables of the largest entry that the evidence allows. `messages` move numbers
        from tables to variables first, which changes no assignment's sum.
        """
        possible = [reduce(torch.logical_and, parts) for parts in self.spread(allowed)]
        moved = None if messages is None else self.collect(messages)
        out = []
        for weight in weights:
            parts = self.weighted(weight.unsqueeze(0))
            unary = parts.unary if moved is None else parts.unary + moved
            best = unary.where(allowed, -torch.inf).amax(1).sum(0)
            for g, (table, mask) in enumerate(zip(parts.tables, possible, strict=True)):
                mine = [] if messages is None else _along(messages[g])
                rest = reduce(torch.sub, mine, table)
                best = best + rest.where(mask, -torch.inf).flatten(1, -2).amax(1).sum(0)
            out.append(best + weight @ self.constant)
        return torch.stack(out, 1)

    def diffused(self, allowed: Tensor, weights: Tensor, rounds: int) -> list[list[Tensor]]:
        """Messages (T, k, B) a group and axis that lower the ceiling of weights (1, F).

        Max-sum diffusion: a variable and its tables share their max-marginals evenly. All variables
        move at once, each 1 / (the largest arity) of its way. The ceiling is convex in the messages
        and each of its terms sees at most that many movers, so it never rises.
        """
        potentials, rows = self.weighted(weights), allowed.shape[-1]
        free = self.spread(allowed)
        masks = [reduce(torch.logical_and, parts) for parts in free]
        step = 1.0 / max((len(g.shape) for g in self.groups), default=1)
        tables = [t.where(m, OUT) for t, m in zip(potentials.tables, masks, strict=True)]
        said = [
            [table.new_zeros((len(table), k, rows)) for k in group.shape]
            for group, table in zip(self.groups, tables, strict=True)
        ]
        shares = (self.incidence.degrees + 1).view(-1, 1, 1)
        for _ in range(rounds):
            tops = []
            for table, mine in zip(tables, said, strict=True):
                rest = reduce(torch.sub, _along(mine), table)
                arity = len(mine)
                tops.append([rest.amax(_without(i, arity)) for i in range(arity)])
            sums = self.collect([[m + t for m, t in zip(*p, strict=True)]
                                 for p in zip(said, tops, strict=True)])  # fmt: skip
            even = self.spread((potentials.unary + sums) / shares)
            for mine, top, goal, ok in zip(said, tops, even, free, strict=True):
                for i, m in enumerate(mine):
                    new = m + step * (top[i] - goal[i].reshape(m.shape))
                    mine[i] = new.where(ok[i].reshape(m.shape), 0.0)
        return said


Messages = list[list[Tensor]] | None


def _without(axis: int, arity: int) -> list[int]:
    """The axes of tables (T, *shape, B) but one."""
    return [j + 1 for j in range(arity) if j != axis]


def _along(numbers: list[Tensor]) -> list[Tensor]:
    """Numbers of each axis (T, k, B), shaped to be added to tables (T, *shape, B)."""
    arity, out = len(numbers), []
    for i, part in enumerate(numbers):
        shape = [part.shape[1] if j == i else 1 for j in range(arity)]
        out.append(part.reshape(len(part), *shape, part.shape[-1]))
    return out


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
