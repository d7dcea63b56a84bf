"""Messages on tensors, all rows at once: who sends when, and MPLP with its valid dual.

The updates are those of `core.mplp`. Tables send in turn there. Here tables that
share no variable send together, which changes nothing: a *level* holds the tables that wait for
the level before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Integers
from cmpe.bounds.base import Bounds, Work
from cmpe.core.compiler import timing
from cmpe.core.dual import SLACK
from cmpe.core.multipliers import MESSAGE_RULE
from cmpe.core.settings import WIDE
from cmpe.problem import Instances
from cmpe.tensor.device import INF, as_array, batch_steps
from cmpe.tensor.layout import Bags
from cmpe.tensor.settings import TENSOR
from cmpe.tensor.steps import Aim
from cmpe.tensor.tables import BatchTables, Runs, WideTables


class Level(NamedTuple):
    """Tables of which no two share a variable; they send one message to each of their slots."""

    rows: slice  # of their messages
    slots: Tensor  # (R,) the slot of each message
    entries: Tensor  # (N,) of the tables
    heard: Bags  # the messages' rows (counted from 0) that agree with each entry
    sent: Bags  # the entries (counted from 0) that agree with each message's row
    axes: Bags  # the rows of each message
    axis: Tensor  # (R,) the message of each row
    share: Tensor  # (R, 1): 1 / the number of variables

    def look(self, theta: Tensor, beliefs: Tensor, messages: Tensor) -> tuple[Tensor, Tensor]:
        """What each slot is without this level (R, B), and its max-marginal in its table."""
        cavity = beliefs.index_select(0, self.slots) - messages[self.rows]
        reach = theta.index_select(0, self.entries) + self.heard.sum(cavity)
        return cavity, self.sent.max(reach)

    def settle(self, theta: Tensor, beliefs: Tensor, messages: Tensor) -> None:
        """MPLP: each variable gets an equal part of the max-marginal."""
        cavity, marginal = self.look(theta, beliefs, messages)
        torch.sub(self.share * marginal, cavity, out=messages[self.rows])
        beliefs.index_copy_(0, self.slots, cavity + messages[self.rows])

    def send(self, theta: Tensor, beliefs: Tensor, messages: Tensor) -> None:
        """Max-product: m_fv = max over the others, its largest 0, averaged with the old one."""
        cavity, marginal = self.look(theta, beliefs, messages)
        new = marginal - cavity
        new -= self.axes.max(new).index_select(0, self.axis)
        messages[self.rows] += (new - messages[self.rows]) * (1.0 - TENSOR.damping)
        beliefs.index_copy_(0, self.slots, cavity + messages[self.rows])


class FactorGraph:
    """Messages of the tables of at least `arity` variables, level after level.

    `coloured` gives up the tables' order for as few levels as a greedy colouring finds.
    """

    def __init__(self, wide: WideTables, arity: int, *, coloured: bool = False) -> None:
        layout = wide.structure.layout
        self._wide, self._first = wide, layout.starts
        members = [f for f in range(layout.count) if self._arity(f) >= arity]
        self._base = np.zeros(len(wide.axis_table), np.int64)  # the first row of each axis
        self.rows, self.levels = 0, []
        for tables in _levels(wide, members, coloured):
            self.levels.append(self._level(tables))
        first = int(wide.offsets[members[0]]) if members else wide.entries
        self.inner = slice(first, wide.entries)  # entries: scopes are sorted by size
        agrees = [self._agrees(f) for f in members]
        lengths = [np.full(a.shape[1], len(a)) for a in agrees]
        flat = [a.T.ravel() for a in agrees]
        self.heard = Bags.of(flat, np.concatenate([np.zeros(0, np.int64), *lengths]), wide.device)
        starts, sizes = wide.offsets[members] - first, np.diff(wide.offsets)[members]
        self.tables = Runs(starts, sizes, wide.device)
        self.first = wide.index(starts + first)[:, None]  # (tables, 1): their first entries
        self._unary = self._bags([f for f in range(layout.count) if 0 < self._arity(f) < arity])
        slot = np.zeros(self.rows, np.int64)
        for level in self.levels:
            slot[level.rows] = level.slots.cpu().numpy()
        lengths_of = np.bincount(slot, minlength=wide.slots)
        self._to = Bags.of([np.argsort(slot, kind="stable")], lengths_of, wide.device)

    def _arity(self, table: int) -> int:
        return int(self._first[table + 1] - self._first[table])

    def _axes(self, table: int) -> range:
        return range(self._first[table], self._first[table + 1])

    def _bags(self, singles: list[int]) -> Bags:
        """The entries of tables of one variable, by slot."""
        wide, entry = self._wide, np.full(self._wide.slots, -1)
        for f in singles:
            v = wide.axis_variable[self._first[f]]
            own = np.arange(wide.offsets[f], wide.offsets[f + 1])
            entry[wide.first[v] : wide.first[v + 1]] = own
        return Bags.of([entry[entry >= 0]], (entry >= 0).astype(np.int64), wide.device)

    def _agrees(self, table: int) -> Integers:
        """The message row that each axis has at each entry: (arity, entries)."""
        wide, axes = self._wide, self._axes(table)
        e = np.arange(wide.offsets[table + 1] - wide.offsets[table])
        cards = wide.cards[wide.axis_variable[list(axes)]]
        return np.stack(
            [self._base[s] + e // wide.axis_stride[s] % k for s, k in zip(axes, cards, strict=True)]
        )

    def _level(self, tables: list[int]) -> Level:
        """Give the messages of `tables` their rows, and index them."""
        wide, begin, at = self._wide, self.rows, 0
        slots, heard, sent, lengths, entries, widths, shares = ([] for _ in range(7))
        for f in tables:
            size = int(wide.offsets[f + 1] - wide.offsets[f])
            for s in self._axes(f):
                v = wide.axis_variable[s]
                self._base[s] = self.rows
                self.rows += int(wide.cards[v])
                slots.append(np.arange(wide.first[v], wide.first[v + 1]))
                widths.append(int(wide.cards[v]))
                shares += [1.0 / self._arity(f)] * widths[-1]
            rows = self._agrees(f) - begin
            heard.append(rows.T.ravel())
            lengths.append(np.full(size, len(rows)))
            for own in rows:
                sent.append(at + np.argsort(own, kind="stable"))
            entries.append(np.arange(wide.offsets[f], wide.offsets[f + 1]))
            at += size
        per_row = np.bincount(np.concatenate(heard), minlength=self.rows - begin)
        axis, device = np.repeat(np.arange(len(widths)), widths), wide.device
        return Level(
            slice(begin, self.rows),
            wide.index(np.concatenate(slots)),
            wide.index(np.concatenate(entries)),
            Bags.of(heard, np.concatenate(lengths), device),
            Bags.of(sent, per_row, device),
            Bags.of([np.arange(len(axis))], np.array(widths, dtype=np.int64), device),
            wide.index(axis),
            wide.like.new_tensor(shares)[:, None],
        )

    def beliefs(self, theta: Tensor, messages: Tensor) -> Tensor:
        """b_i = theta_i + the messages to i: (S, B)."""
        return self._unary.sum(theta) + self._to.sum(messages)


def _levels(wide: WideTables, tables: list[int], coloured: bool) -> list[list[int]]:
    """Tables that can send together: as late as their predecessors force, or by colour."""
    starts = wide.structure.layout.starts
    taken: list[set[int]] = [set() for _ in wide.cards]
    levels: list[list[int]] = []
    for f in tables:
        variables = wide.axis_variable[starts[f] : starts[f + 1]]
        barred = set().union(*(taken[v] for v in variables))
        level = max(barred, default=-1) + 1
        if coloured:
            level = next(k for k in range(len(barred) + 1) if k not in barred)
        for v in variables:
            taken[v] = taken[v] | {level} if coloured else {level}
        if level == len(levels):
            levels.append([])
        levels[level].append(f)
    return levels


class MessageDual:
    """`core.mplp.pass_messages` of some rows; every tensor's last axis is theirs."""

    def __init__(self, graph: FactorGraph, given: BatchTables, wide: WideTables) -> None:
        self._graph, self._given, self._wide = graph, given, wide
        self._h, lanes = wide.floored(given.h), given.h.shape[1]
        self._limits = wide.limits()
        self.messages = wide.like.new_zeros((graph.rows, lanes))
        self.mu = torch.zeros_like(given.units)
        self.best_mu = self.mu
        self.best = self.upper = wide.like.new_full((lanes,), INF)
        self._aim = Aim(MESSAGE_RULE, wide.like.new_zeros(lanes))

    def step(self) -> None:
        """All messages, D, and a subgradient step of mu."""
        graph, given = self._graph, self._given
        theta = self._h - (self.mu[:, None] * given.t).sum(0)
        beliefs = graph.beliefs(theta, self.messages)
        for level in graph.levels:
            level.settle(theta, beliefs, self.messages)
        beliefs = graph.beliefs(theta, self.messages)
        total, sums = self._dual(theta, beliefs)
        price = self.mu * self._limits
        bound = total + price.sum(0)
        slack = (1.0 + len(theta)) * (1.0 + self._largest(theta, beliefs)) + price.abs().sum(0)
        slope = sums - self._limits
        counts = (self.mu > 0.0) | (slope > 0.0)
        norm = torch.where(counts, (given.units * slope) ** 2, 0.0).sum(0)
        fall = self._aim.fall(bound, self.best)
        better = bound + SLACK * slack < self.upper
        self.best = torch.where(better, torch.minimum(self.best, bound), self.best)
        self.upper = torch.where(better, bound + SLACK * slack, self.upper)
        self.best_mu = torch.where(better, self.mu, self.best_mu)
        length = WIDE.message_step * fall / torch.where(norm > 0.0, norm, 1.0)
        length = torch.where(norm > 0.0, length, 0.0)
        self.mu = (self.mu + length * given.units**2 * slope).clamp(min=0.0)

    def wait(self) -> bool:
        """Wait for the device; more steps may always help."""
        self.upper.sum().item()
        return True

    def _dual(self, theta: Tensor, beliefs: Tensor) -> tuple[Tensor, Tensor]:
        """D less the sum of mu_j q_j, and the t of the local maximisers (m, B)."""
        graph, wide = self._graph, self._wide
        most, z = wide.variables.max(beliefs)
        inner = theta[graph.inner] - graph.heard.sum(self.messages)
        table, winner = graph.tables.max(inner)
        at = wide.positions(z)
        at[len(at) - len(table) :] = graph.first + winner  # the tables of several come last
        t = self._given.t
        sums = t.gather(1, at.expand(len(t), -1, -1)).sum(1)
        return theta[0] + most.sum(0) + table.sum(0), sums

    def _largest(self, theta: Tensor, beliefs: Tensor) -> Tensor:
        return torch.cat([theta[:1], beliefs, self.messages]).abs().amax(0)


def message_bounds(instances: Instances, work: Work, device: str) -> Bounds:
    """The bounds of `bounds.messages` after as many steps: MPLP and subgradient steps of mu.

    All rows move together, so that a time limit is one for the batch: rows times seconds a row.
    """
    wide = WideTables(instances, device)
    graph = FactorGraph(wide, 2)
    out = Bounds.empty(len(instances), len(instances.problem.constraints))
    for rows in wide.chunks(4 * wide.entries + 8 * graph.rows + 6 * wide.slots):
        begin = timing.now()
        given = wide.row_tables(rows)
        dual = MessageDual(graph, given, wide)
        dual.step()  # the compiled code also looks once before it counts
        for number in batch_steps(work, rows.stop - rows.start, dual.wait):
            dual.step()
            out.steps[rows] = number
        infeasible = dual.upper < given.least
        out.upper[rows] = as_array(torch.where(infeasible, -INF, dual.upper))
        out.infeasible[rows] = infeasible.cpu().numpy()
        out.multipliers[rows] = as_array(dual.best_mu.T)
        out.seconds[rows] = (timing.now() - begin) / (rows.stop - rows.start)
    return out
