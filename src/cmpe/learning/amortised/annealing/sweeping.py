"""What the annealing kernel of a GPU reads of a model, laid out for it, and its launch.

Variables of one colour are cut into blocks of VARIABLES; a place in a block is a *slot*. Each slot
has a copy of the tables of its variable, its own axis last, as differences to its first value.
Tables of fewer variables or values are filled up. One constraint at most: with several the sweeps
of `amortised.annealing` run as they are.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Floats, Integers
from cmpe.learning.amortised.tables import ModelTables

ROWS, VARIABLES = 32, 16  # of a program; a warp has one variable of ROWS rows
UNROLLED = 8  # tables of a variable that are read at once
MOST_NUMBERS = 1 << 26  # of the tables
MOST_VALUES = 32
FIXED = 64  # marks the state of an observed variable, as in the kernel
NEVER = -1e30  # h of a value that a variable does not have
WARP = 32  # threads


class Beginning(NamedTuple):
    """Questions, and where to begin."""

    given: Tensor  # (B, n): -1 where free
    limits: Tensor  # (B, m)
    start: Tensor  # (B, n)
    prices: Tensor | None  # (B, m): the first mu; none: 0


class Incidences(NamedTuple):
    """Every table once for each of its variables."""

    owner: Integers  # (I,)
    others: Integers  # (I, OTHERS): the number of variables where there is none
    tables: Floats  # (I, K ^ OTHERS, K - 1, F): by the others' values, less that of value 0


class Sweeps:
    """The tables of one model on a GPU, ready for annealing."""

    def __init__(self, tables: ModelTables, colour: Integers) -> None:
        self.tables = tables
        n, found = tables.variables, _incidences(tables)
        rank, counts = _ranks(found.owner, n), np.bincount(found.owner, minlength=n)
        self._degree, self._others = max(1, int(counts.max(initial=0))), found.others.shape[1]
        slots, starts = _slots(colour, counts)
        is_variable = slots < n
        place = np.zeros(n, dtype=np.int64)
        place[slots[is_variable]] = np.flatnonzero(is_variable)
        near = np.full((len(slots), self._degree, self._others), n)
        copies = np.zeros((len(slots), self._degree, *found.tables.shape[1:]))
        near[place[found.owner], rank] = found.others
        copies[place[found.owner], rank] = found.tables
        own = tables.unary.cpu().double().numpy().transpose(1, 2, 0)  # (n, K, F)
        own = own[:, 1:] - own[:, :1]
        own[..., 0][~tables.exists[:, 1:].cpu().numpy()] = NEVER
        unary = np.zeros((len(slots), *own.shape[1:]))
        unary[is_variable] = own[slots[is_variable]]
        most = np.append(counts, 0)[slots].reshape(-1, VARIABLES).max(1)
        self._colours = len(starts) - 1
        self._arrays = [
            *map(self._int, (slots, most, starts, near)), self._pair(copies), self._pair(unary)
        ]  # fmt: skip

    def _int(self, values: Integers) -> Tensor:
        return torch.as_tensor(values, dtype=torch.int32, device=self.tables.device).contiguous()

    def _pair(self, values: Floats) -> Tensor:
        """Numbers (..., F) of h and t as the halves of one int64 (...)."""
        both = np.zeros((*values.shape[:-1], 2), dtype=np.float32)
        both[..., : values.shape[-1]] = values
        return torch.as_tensor(both.view(np.int64)[..., 0].copy(), device=self.tables.device)

    def run(
        self,
        asked: Beginning,
        heats: list[float],
        steps: tuple[float, float, float, float],
        seed: int,
    ) -> Tensor:
        """The best feasible assignments met (B, n), -1 where none was; `steps` are the first and
        the longest of mu, their growth and shrinking."""
        from cmpe.learning.amortised.kernels.sweeps import annealed

        tables, count = self.tables, len(asked.given)
        rows = -(-count // ROWS) * ROWS
        states, totals, limits, prices = self._placed(asked, rows)
        best = torch.full_like(states, -1)
        inverse = torch.tensor([1.0 / heat for heat in heats], device=tables.device)
        annealed[(rows // ROWS,)](
            states, best, totals, limits, prices, *self._arrays, inverse, rows, len(heats),
            self._colours, seed, steps[0], steps[1], GROWTH=steps[2], SHRINKING=steps[3],
            ROWS=ROWS, VARIABLES=VARIABLES, D=self._degree, UNROLLED=min(UNROLLED, self._degree),
            OTHERS=self._others, K=tables.width, LIMITED=tables.functions > 1,
            num_warps=VARIABLES * ROWS // WARP,
        )  # fmt: skip
        found = best[:-1, :count].t().long()
        return torch.where(found >= FIXED, found - FIXED, found)

    def _placed(self, asked: Beginning, rows: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """States (n + 1, rows), h and t (2, rows), q and mu (rows,): whole programs of rows."""
        tables, count = self.tables, len(asked.given)
        device = tables.device
        states = torch.full((tables.variables + 1, rows), FIXED, dtype=torch.int8, device=device)
        begin = torch.where(asked.given >= 0, asked.given + FIXED, asked.start)
        states[:-1, :count] = begin.t().to(torch.int8)
        totals = torch.zeros((2, rows), dtype=torch.float64, device=device)
        worth = tables.values(tables.certain(asked.start)).t()
        totals[: tables.functions, :count] = worth.double()
        limits, prices = torch.zeros((2, rows), device=device)
        if tables.functions > 1:
            limits[:count] = asked.limits[:, 0]
            if asked.prices is not None:
                prices[:count] = asked.prices[:, 0]
        return states, totals, limits, prices


def fits(tables: ModelTables) -> bool:
    """Whether the kernel can take a model, and there is what compiles it."""
    k, arity = tables.width, max((len(g.shape) for g in tables.groups), default=1)
    degree = max(1, int(tables.incidence.degrees.max())) if tables.groups else 1
    numbers = 2 * (tables.variables + VARIABLES) * degree * k**arity
    return (
        tables.functions <= 2
        and 2 <= k <= MOST_VALUES
        and numbers <= MOST_NUMBERS
        and find_spec("triton") is not None
    )


def _incidences(tables: ModelTables) -> Incidences:
    n, k = tables.variables, tables.width
    others = max(1, max((len(g.shape) for g in tables.groups), default=1) - 1)
    owner, near, copies = [], [], []
    for group in tables.groups:
        scopes, arity = group.scopes.cpu().numpy(), len(group.shape)
        values = group.tables.cpu().double().numpy()
        values = values.reshape(tables.functions, len(scopes), *group.shape)
        for i in range(arity):
            rest = [j for j in range(arity) if j != i]
            own = values.transpose(1, *(j + 2 for j in rest), i + 2, 0)
            full = np.zeros((len(scopes), *[k] * (others + 1), tables.functions))
            alone = (0,) * (others - len(rest))
            here: tuple[Any, ...] = (slice(None), *alone, *map(slice, own.shape[1:]))
            full[here] = own
            less = full[..., 1:, :] - full[..., :1, :]
            copies.append(less.reshape(len(scopes), k**others, k - 1, tables.functions))
            filled = np.full((len(scopes), others), n)
            filled[:, others - len(rest) :] = scopes[:, rest]
            near.append(filled)
            owner.append(scopes[:, i])
    if not owner:
        none = np.zeros((0, k**others, k - 1, tables.functions))
        return Incidences(np.zeros(0, dtype=np.int64), np.zeros((0, others), dtype=np.int64), none)
    return Incidences(np.concatenate(owner), np.concatenate(near), np.concatenate(copies))


def _ranks(owner: Integers, n: int) -> Integers:
    """The number of each entry among those of its owner."""
    order = np.argsort(owner, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=n))])[:-1]
    rank = np.zeros(len(owner), dtype=np.int64)
    rank[order] = np.arange(len(owner)) - first[owner[order]]
    return rank


def _slots(colour: Integers, degrees: Integers) -> tuple[Integers, Integers]:
    """Variables by colour in whole blocks, their number where there is none; where in blocks the
    colours begin. Those of one block have about as many tables."""
    n, slots, starts = len(colour), [], [0]
    for c in range(int(colour.max(initial=-1)) + 1):
        mine = np.flatnonzero(colour == c)
        mine = mine[np.argsort(-degrees[mine], kind="stable")]
        whole = -(-len(mine) // VARIABLES) * VARIABLES
        slots.append(np.concatenate([mine, np.full(whole - len(mine), n)]))
        starts.append(starts[-1] + whole // VARIABLES)
    return np.concatenate(slots) if slots else np.zeros(0, dtype=np.int64), np.array(starts)
