"""Damped max-product on tensors, all rows at once: where rows without a start begin.

A table f sends variable v

    m_fv(x) = max over the other variables of  f + sum over u != v of (b_u - m_fu),

where b_u is the sum of all messages to u; new messages are averaged with old ones (Pearl 1988).
Tables send one after the other in as few levels as a greedy colouring finds: fewer, larger
operations. On a core `search` has softer ones (`core.search.starts`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from cmpe.arrays import Assignments
from cmpe.problem import Instances
from cmpe.tensor.device import INF
from cmpe.tensor.messages import FactorGraph
from cmpe.tensor.settings import TENSOR
from cmpe.tensor.tables import BatchTables, WideTables


class Propagation:
    """Damped max-product of some rows on h - sum_j mu_j t_j."""

    def __init__(self, graph: FactorGraph, given: BatchTables, wide: WideTables) -> None:
        self._graph, self._given, self._wide = graph, given, wide
        self._h, lanes = wide.floored(given.h), given.h.shape[1]
        self.beliefs = wide.like.new_zeros((wide.slots, lanes))
        self.messages = wide.like.new_zeros((graph.rows, lanes))

    def sweep(self, mu: Tensor, sweeps: int) -> None:
        """Every table sends to all its variables, `sweeps` times, for multipliers (m, B)."""
        theta = self._h - (mu[:, None] * self._given.t).sum(0)
        for _ in range(sweeps):
            for level in self._graph.levels:
                level.send(theta, self.beliefs, self.messages)

    def adapted(self, rounds: int) -> Tensor:
        """The best decoding, z (F, B), while multipliers follow the signs of the violations."""
        given, limits = self._given, self._wide.limits()
        mu, step = torch.zeros_like(given.units), TENSOR.first_step * given.units
        before, doubling = torch.zeros_like(mu), torch.ones_like(mu, dtype=torch.bool)
        best = given.h.new_full((given.h.shape[1],), -INF)
        kept = self._wide.variables.max(self.beliefs)[1]
        for _ in range(rounds):
            self.sweep(mu, TENSOR.sweeps)
            z = self._wide.variables.max(self.beliefs)[1]
            at = self._wide.positions(z)
            over = given.t.gather(1, at.expand(len(mu), -1, -1)).sum(1) - limits
            h = self._h.gather(0, at).sum(0)
            better = (over <= 0.0).all(0) & (h > best)
            kept = torch.where(better | (best == -INF), z, kept)
            best = torch.where(better, h, best)
            sign = torch.where(over > 0.0, 1.0, -1.0)
            doubling &= before * sign >= 0.0
            same = torch.where(doubling, TENSOR.doubled, TENSOR.longer)
            step = step * torch.where(before * sign < 0.0, TENSOR.shorter, same)
            step = torch.minimum(step, TENSOR.longest_step * given.units)
            mu, before = (mu + sign * step).clamp(min=0.0), sign
        return kept


def max_product(instances: Instances, device: str) -> Assignments:
    """The best feasible decoding of every row, else the last one, while mu is adapted: (B, n)."""
    wide = WideTables(instances, device)
    graph, out = FactorGraph(wide, 1, coloured=True), instances.complete(0)
    for rows in wide.chunks(3 * wide.entries + 8 * graph.rows + 4 * wide.slots):
        work = Propagation(graph, wide.row_tables(rows), wide)
        out[rows] = wide.complete(work.adapted(TENSOR.rounds), rows)
    return out
