"""Where tensors keep the numbers of a plan: all indices of a pass, made once per problem.

Numbers are (entries, B): a row of evidence is a column, so that gathering entries moves long
contiguous runs. Buckets at one depth of the bucket forest do not depend on each other; those of
one cardinality form a `Group`, whose messages lie side by side, and one ragged gather-and-add
(`Bags`, torch's embedding_bag) makes their sums s(e, a): what a bucket's inputs add up to at entry
e of its message and value a of its variable.
"""

from __future__ import annotations

import itertools
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from cmpe.arrays import Integers
from cmpe.core.buckets import (
    AXES,
    AXIS_COUNT,
    CARD,
    CHILD,
    INPUT_COUNT,
    INPUTS,
    OFFSET,
    SIZE,
    STEP,
    STRIDES,
    CompiledPlan,
)
from cmpe.models.conditioning import Gather


class Bags(NamedTuple):
    """Ragged selections of rows: result r takes the rows indices[starts[r]:starts[r + 1]]."""

    indices: Tensor
    starts: Tensor
    weights: Tensor | None = None

    @classmethod
    def of(cls, parts: list[Integers], lengths: Integers, device: torch.device) -> Bags:
        """Selections of `lengths` rows each, listed end to end in `parts`."""
        indices = np.concatenate([np.zeros(0, np.int64), *parts])
        starts = np.cumsum(lengths) - lengths
        return cls(torch.as_tensor(indices, device=device), torch.as_tensor(starts, device=device))

    def weighted(self, weights: Integers) -> Bags:
        """The same rows, each times a whole number (exact: far below 2^53)."""
        as_floats = torch.as_tensor(weights, dtype=torch.float64, device=self.indices.device)
        return self._replace(weights=as_floats)

    def sum(self, rows: Tensor) -> Tensor:
        """Their sums: (bags, B)."""
        if not len(self.indices):
            return rows.new_zeros((len(self.starts), rows.shape[1]))
        return embedding_bag(self.indices, rows, self.starts, mode="sum",
                             per_sample_weights=self.weights)  # fmt: skip

    def max(self, rows: Tensor) -> Tensor:
        """Their maxima: (bags, B). No bag may be empty."""
        if not len(self.indices):
            return rows.new_zeros((0, rows.shape[1]))
        return embedding_bag(self.indices, rows, self.starts, mode="max")


def satisfied(tables: Bags, t: Tensor, limit: float) -> Tensor:
    """-inf in t (E, B) becomes a number that satisfies t <= limit whatever else is chosen."""
    zero = t == -torch.inf
    highest = tables.max(t.masked_fill(zero, 0.0)).sum(0)
    return torch.where(zero, (limit - highest).clamp(max=0.0) - 1.0, t)


class EvidenceTables:
    """What evidence leaves of one function (`core.tables.condition`), as three gathers."""

    def __init__(self, gather: Gather, entries: int, like: Tensor) -> None:
        device, factors = like.device, len(gather.offsets) - 1
        order = np.argsort(gather.targets, kind="stable")
        factor = np.repeat(np.arange(factors), np.diff(gather.entries))[order]
        base = gather.offsets[factor] + gather.steps[order]
        observed = Bags.of([gather.columns], np.diff(gather.starts), device)
        self._observed = observed.weighted(gather.strides)
        self._values = torch.as_tensor(gather.values, device=device, dtype=like.dtype)
        self._factor = torch.as_tensor(factor, device=device)
        self._base = torch.as_tensor(base, device=device, dtype=torch.float64)[:, None]
        lengths = np.bincount(gather.targets, minlength=entries)
        self._targets = Bags.of([np.arange(len(order))], lengths, device)

    def given(self, evidence: Tensor) -> Tensor:
        """The entries (E, B) for evidence (|X|, B), which is float64 so that bags can weigh it."""
        place = self._observed.sum(evidence).index_select(0, self._factor).add_(self._base)
        return self._targets.sum(self._values.take(place.long()))


class Group(NamedTuple):
    """Buckets of one cardinality that do not depend on each other."""

    card: int
    rows: slice  # of their messages
    choices: slice
    inputs: Bags  # what each (value, entry) pair adds up, value first
    parents: Bags  # the choices that decide the entry of each bucket, weighted by their strides
    first: Tensor  # (buckets, 1): the first row of each message

    def sums(self, numbers: Tensor) -> Tensor:
        """s(e, a) for all (value, entry) pairs: (card, entries, B)."""
        return self.inputs.sum(numbers).view(self.card, -1, numbers.shape[1])


class Layout:
    """Where the numbers of each bucket lie once the buckets are grouped, deepest first."""

    def __init__(self, plan: CompiledPlan) -> None:
        self.plan = plan
        buckets, count = plan.buckets, len(plan.buckets)
        depth = [0] * count
        for k in range(count - 1, -1, -1):
            if buckets[k, AXIS_COUNT]:
                depth[k] = depth[plan.axis_buckets[buckets[k, AXES]]] + 1
        keys = [(-depth[k], int(buckets[k, CARD])) for k in range(count)]
        order = sorted(range(count), key=keys.__getitem__)
        self.groups = [list(g) for _, g in itertools.groupby(order, key=keys.__getitem__)]
        self.order = order
        self.message, self.choice = np.zeros(count, np.int64), np.argsort(order)
        row = plan.entries
        for group in self.groups:
            sizes = buckets[group, SIZE]
            self.message[group] = row + np.cumsum(sizes) - sizes
            row += int(sizes.sum())
        self.roots = min((int(self.message[k]) for k in range(count) if not depth[k]), default=row)

    def input_rows(self, k: int) -> Integers:
        """The rows that each pair of bucket k adds up: (card, size, inputs)."""
        plan, bucket = self.plan, self.plan.buckets[k]
        axes = slice(bucket[AXES], bucket[AXES] + bucket[AXIS_COUNT])
        cards = [int(bucket[CARD]), *plan.axis_cards[axes].tolist()]
        columns = []
        for row in plan.inputs[bucket[INPUTS] : bucket[INPUTS] + bucket[INPUT_COUNT]]:
            start = row[OFFSET] if row[CHILD] < 0 else self.message[row[CHILD]]
            own = plan.strides[row[STRIDES] : row[STRIDES] + bucket[AXIS_COUNT]]
            moves = [s * np.arange(n) for s, n in zip([row[STEP], *own], cards, strict=True)]
            columns.append(reduce(np.add.outer, moves, start).reshape(cards[0], -1))
        empty = np.zeros((bucket[CARD], bucket[SIZE], 0), np.int64)
        return np.stack(columns, axis=-1) if columns else empty

    def group(self, members: list[int], device: torch.device) -> Group:
        """The indices of one group."""
        plan, buckets = self.plan, self.plan.buckets
        card, first = int(buckets[members[0], CARD]), int(self.message[members[0]])
        choice = int(self.choice[members[0]])
        taken = [self.input_rows(k) for k in members]
        counts = np.tile(np.repeat(buckets[members, INPUT_COUNT], buckets[members, SIZE]), card)
        axes = [slice(b[AXES], b[AXES] + b[AXIS_COUNT]) for b in buckets[members]]
        parents = [self.choice[plan.axis_buckets[a]] for a in axes]
        strides = np.concatenate([plan.axis_strides[a] for a in axes])
        return Group(
            card,
            slice(first, first + int(buckets[members, SIZE].sum())),
            slice(choice, choice + len(members)),
            Bags.of([rows[a].ravel() for a in range(card) for rows in taken], counts, device),
            Bags.of(parents, buckets[members, AXIS_COUNT], device).weighted(strides),
            torch.as_tensor(self.message[members], device=device)[:, None],
        )
