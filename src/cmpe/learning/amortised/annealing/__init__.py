"""Annealed answers to questions of any masks and limits, all rows of a batch at once on a device.

Variables of one colour share no table. A sweep draws the variables of each colour in turn from

    P(y_i = a) ~ exp((h - sum of mu_j t_j) / T)     given all others,

T falling from sweep to sweep (Kirkpatrick, Gelatt, Vecchi 1983). mu_j follows the sign of t_j - q_j
as in `search`: a step up where it is broken, down where not, steps growing on the same sign, up to
a longest one, and shrinking on a change. The best feasible assignment that was met is kept, row by
row.

On a GPU all sweeps are one kernel where the problem has at most one constraint and Triton is there
(`annealing.sweeping`): the same but for its random numbers.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.learning.amortised.annealing.sweeping import Beginning, Sweeps, fits
from cmpe.learning.amortised.tables import ModelTables

HOTTEST, COLDEST = 0.3, 0.004  # temperatures, in mean slopes of h
WARM = 0.05  # the hottest one from an answer that is good already
FIRST_STEP, LONGEST_STEP = 0.25, 1.0  # of mu, in units of violations
GROWTH, SHRINKING = 1.1, 0.7


class Annealer:
    """Answers questions about one model."""

    def __init__(self, tables: ModelTables, sweeps: int, hottest: float = HOTTEST) -> None:
        self.tables = tables
        self._heats = np.geomspace(hottest, COLDEST, sweeps).tolist()
        number = coloured(tables)
        colour = torch.as_tensor(number, device=tables.device)
        self._classes = [(colour == c).view(-1, 1) for c in range(int(number.max(initial=-1)) + 1)]
        can = tables.device.type == "cuda" and fits(tables)
        self._kernel = Sweeps(tables, number) if can else None

    @torch.no_grad()
    def answers(
        self,
        given: Tensor,
        limits: Tensor,
        start: Tensor,
        random: torch.Generator,
        prices: Tensor | None = None,
    ) -> Tensor:
        """The best feasible assignments (B, n) met from `start` and `prices` (B, m); -1: none."""
        tables = self.tables
        if self._kernel is not None:
            seed = int(torch.randint(1 << 30, (1,), generator=random, device=random.device))
            heats = [heat * tables.scale for heat in self._heats]
            asked = Beginning(given, limits, start, prices)
            return self._kernel.run(asked, heats, _steps(tables), seed)
        allowed, rows = tables.allowed(given), start.t()
        best, known = torch.full_like(start, -1), torch.full_like(limits[:, :1].sum(1), -torch.inf)
        price = torch.zeros_like(limits) if prices is None else prices
        step = FIRST_STEP * tables.units.expand_as(limits)
        last = torch.zeros_like(limits, dtype=torch.bool)
        for heat in self._heats:
            rows = self._swept(rows, allowed, price, heat * tables.scale, random)
            found = tables.values(tables.certain(rows.t()))
            broken = found[:, 1:] > limits
            better = ~broken.any(1) & (found[:, 0] > known)
            known = torch.where(better, found[:, 0], known)
            best = torch.where(better[:, None], rows.t(), best)
            step = step * torch.where(broken == last, GROWTH, SHRINKING)
            step = torch.minimum(step, LONGEST_STEP * tables.units)
            price = torch.where(broken, price + step, price - step).clamp(min=0.0)
            last = broken
        return best

    def _swept(
        self,
        rows: Tensor,
        allowed: Tensor,
        price: Tensor,
        temperature: float,
        random: torch.Generator,
    ) -> Tensor:
        """Values (n, B) after every colour was drawn once."""
        tables = self.tables
        weights = torch.nn.functional.pad(-price, (1, 0), value=1.0)
        potentials = tables.weighted(weights)
        for mine in self._classes:
            slopes = tables.fields(potentials, tables.certain(rows.t()))
            chance = torch.rand(slopes.shape, generator=random, device=random.device)
            noise = -torch.log(-torch.log(chance.to(slopes.device).clamp(1e-7, 1.0 - 1e-7)))
            drawn = (slopes / temperature + noise).masked_fill(~allowed, -torch.inf).argmax(1)
            rows = torch.where(mine, drawn, rows)
        return rows


def _steps(tables: ModelTables) -> tuple[float, float, float, float]:
    """Of mu: the first, the longest, growth and shrinking."""
    unit = float(tables.units[0]) if len(tables.units) else 0.0
    return FIRST_STEP * unit, LONGEST_STEP * unit, GROWTH, SHRINKING


def coloured(tables: ModelTables) -> NDArray[np.int64]:
    """A colour for every variable; variables of one table differ. Greedy, most neighbours first."""
    near: list[set[int]] = [set() for _ in range(tables.variables)]
    for scope in tables.scopes:
        for v in scope:
            near[v].update(scope)
    colour = np.full(tables.variables, -1, dtype=np.int64)
    for v in sorted(range(tables.variables), key=lambda u: -len(near[u])):
        taken = {int(colour[u]) for u in near[v] if u != v}
        colour[v] = next(c for c in range(len(taken) + 1) if c not in taken)
    return colour
