"""Relaxations by copies on tensors: where their numbers lie, their elimination and decoding.

Buckets that wait for nothing but what is done form a level; those of one cardinality are one
ragged gather-and-add and one maximum, whatever their sizes.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import Tensor

from cmpe.core.copies import (
    AXES,
    AXIS_COUNT,
    CARD,
    COPIES,
    INDEX,
    INPUTS,
    MESSAGE,
    OWN,
    SIZE,
    TABLES,
    VALUES,
    CompiledRelaxation,
)
from cmpe.tensor.layout import Bags, Group
from cmpe.tensor.tables import WideTables


class SplitPlan:
    """Where a relaxation keeps its numbers on one device: tables, copies' tables, messages."""

    def __init__(self, relaxed: CompiledRelaxation, wide: WideTables) -> None:
        self.relaxed, self.wide, buckets = relaxed, wide, relaxed.buckets
        keys = _keys(relaxed)
        order = sorted(range(len(buckets)), key=keys.__getitem__)
        self._choice = np.argsort(np.array(order, dtype=np.int64), kind="stable")
        self._moved, at = np.arange(relaxed.total), relaxed.numbers
        for k in order:
            old, size = int(buckets[k, MESSAGE]), int(buckets[k, SIZE])
            self._moved[old : old + size] = np.arange(at, at + size)
            at += size
        grouped = itertools.groupby(order, key=keys.__getitem__)
        self.groups = [self._group(list(members)) for _, members in grouped]
        roots = np.flatnonzero((buckets[:, AXIS_COUNT] == 0) & (buckets[:, CARD] > 1))
        self._roots = wide.index(self._moved[buckets[roots, MESSAGE]])
        self.widest = max((len(g.inputs.starts) for g in self.groups), default=0)
        self._tables(order)

    def _group(self, members: list[int]) -> Group:
        wide, relaxed, rows = self.wide, self.relaxed, self.relaxed.buckets[members]
        card, first = int(rows[0, CARD]), int(self._moved[rows[0, MESSAGE]])
        places = []
        for row in rows:
            end = row[INDEX] + row[SIZE] * row[CARD] * row[INPUTS]
            own = self._moved[relaxed.places[row[INDEX] : end].astype(np.int64)]
            places.append(own.reshape(row[SIZE], row[CARD], row[INPUTS]))
        counts = np.tile(np.repeat(rows[:, INPUTS], rows[:, SIZE]), card)
        axes = [slice(r[AXES], r[AXES] + r[AXIS_COUNT]) for r in rows]
        parents = [self._choice[relaxed.axes[a].astype(np.int64)] for a in axes]
        strides = np.concatenate([relaxed.steps[a].astype(np.int64) for a in axes])
        choice = int(self._choice[members[0]])
        return Group(
            card,
            slice(first, first + int(rows[:, SIZE].sum())),
            slice(choice, choice + len(members)),
            Bags.of([p[:, a].ravel() for a in range(card) for p in places], counts, wide.device),
            Bags.of(parents, rows[:, AXIS_COUNT], wide.device).weighted(strides),
            wide.index(self._moved[rows[:, MESSAGE]] - relaxed.numbers)[:, None],
        )

    def _tables(self, order: list[int]) -> None:
        """Which numbers of the tables a maximiser takes: by choice, then by input."""
        relaxed, wide = self.relaxed, self.wide
        rows = relaxed.buckets[order]
        bucket = np.repeat(np.arange(len(rows)), rows[:, TABLES])
        start = np.cumsum(rows[:, TABLES]) - rows[:, TABLES]
        own = rows[bucket]
        self._bucket = wide.index(bucket)
        self._card, self._inputs = wide.index(own[:, [CARD]]), wide.index(own[:, [INPUTS]])
        self._index = wide.index(
            own[:, [INDEX]] + (np.arange(len(bucket)) - start[bucket])[:, None]
        )
        self._places = wide.index(relaxed.places)
        decided = self._choice[relaxed.copy_buckets]
        taken = Bags.of([decided], np.diff(relaxed.copy_axes), wide.device)
        self._taken = taken.weighted(relaxed.copy_steps)
        self._entry = wide.index(relaxed.copy_entry - relaxed.entries)[:, None]

    def sweep(self, numbers: Tensor, best: Tensor | None = None) -> Tensor:
        """Fill the messages of `numbers` (total, B) and who won each of them; the maximum (B,)."""
        for group in self.groups:
            numbers[group.rows], who = torch.max(group.sums(numbers), 0)
            if best is not None:
                first = group.rows.start - self.relaxed.numbers
                best[first : first + len(who)] = who.to(best.dtype)
        return numbers[0] + numbers.index_select(0, self._roots).sum(0)

    def decode(self, best: Tensor) -> tuple[Tensor, Tensor]:
        """What a maximiser takes: entries of the tables (N, B), and those of the copies (C, B)."""
        shape = (len(self.relaxed.buckets), best.shape[1])
        choice = torch.zeros(shape, device=best.device, dtype=torch.float64)
        entry = torch.zeros(shape, device=best.device, dtype=torch.int64)
        for group in reversed(self.groups):
            p = group.parents.sum(choice).long()
            entry[group.choices] = p
            choice[group.choices] = best.gather(0, p + group.first).to(choice.dtype)
        pair = entry.index_select(0, self._bucket) * self._card
        pair += choice.index_select(0, self._bucket).long()
        places = self._places.take(pair * self._inputs + self._index)
        return places, self._taken.sum(choice).long() + self._entry


class Copies:
    """Which entries of the copies' tables belong together: their multipliers add up to 0."""

    def __init__(self, relaxed: CompiledRelaxation, wide: WideTables) -> None:
        groups = relaxed.groups
        sizes = np.repeat(groups[:, VALUES], groups[:, COPIES])  # of each copy's table
        group = np.repeat(np.arange(len(groups)), groups[:, COPIES])
        copy = np.repeat(np.arange(len(sizes)), sizes)  # of each entry
        value = np.arange(len(copy)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        first = np.cumsum(groups[:, VALUES]) - groups[:, VALUES]
        shared = first[group[copy]] + value
        lengths = np.repeat(groups[:, COPIES], groups[:, VALUES])
        self.entries = len(copy)
        self._shared = wide.index(shared)
        self._members = Bags.of([np.argsort(shared, kind="stable")], lengths, wide.device)
        self._count = wide.like.new_tensor(lengths)[:, None]
        self._values = Bags.of([np.arange(len(lengths))], groups[:, VALUES], wide.device)
        own = groups[group[copy], OWN]
        self._own = wide.index(np.where(own >= 0, own + value, 0))
        self._other = torch.as_tensor(own < 0, device=wide.device)[:, None]

    def share_out(self, table: Tensor) -> Tensor:
        """Tables (E, B) and what each copy gets of its variable's own table, evenly."""
        part = table.index_select(0, self._own) / self._count.index_select(0, self._shared)
        return torch.cat([table, part.masked_fill(self._other, 0.0)])

    def disagreement(self, taken: Tensor) -> tuple[Tensor, Tensor]:
        """1[copy takes a] less the share of its group that does, and the squared length (B,)."""
        ones = self._count.new_zeros((self.entries, taken.shape[1])).scatter_(0, taken, 1.0)
        share = self._members.sum(ones) / self._count
        norm = (self._count * share * (1.0 - share)).sum(0)
        return ones - share.index_select(0, self._shared), norm

    def drift(self, shift: Tensor) -> Tensor:
        """By how much multipliers, after rounding, may fall short of cancelling: (B,)."""
        return self._values.max(-self._members.sum(shift)).clamp(min=0.0).sum(0)


def _keys(relaxed: CompiledRelaxation) -> list[tuple[int, int]]:
    """The level and the cardinality of every bucket."""
    level: list[int] = []
    for row in relaxed.buckets:
        sources = relaxed.places[row[INDEX] + row[TABLES] : row[INDEX] + row[INPUTS]]
        senders = np.searchsorted(relaxed.buckets[:, MESSAGE], sources, side="right") - 1
        level.append(1 + max((level[k] for k in senders), default=-1))
    return list(zip(level, relaxed.buckets[:, CARD].tolist(), strict=True))
