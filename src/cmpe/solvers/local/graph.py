"""A problem as arrays for compiled moves: which there are, what they touch, what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from cmpe.arrays import Floats, Integers, Unsigned
from cmpe.models.conditioning import Conditioning, Gather, Gathers
from cmpe.models.flat import FlatTables
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Problem

PADDING = 1e-9  # of max(1, |q|): the search adds up tables in another order than the problem
LEAST_GAIN = 1e-12  # of h's largest entry, or of 1000: what rounding could feign
_COMPILED: WeakKeyDictionary[Conditioning, tuple[Graph, Gather]] = WeakKeyDictionary()


class Rules(NamedTuple):
    """What feasible means to compiled code, and how constraints are weighed in repair."""

    limits: Floats  # (m,)
    weights: Floats  # (m,): 1 / the mean spread of the constraint's tables
    zeros: Integers  # (m + 1,): the channel that counts a function's -inf entries, or -1
    gain: float  # the least rise of h that counts as one

    @classmethod
    def of(cls, problem: Problem) -> Rules:
        """The rules of a problem; limits a hair inside the tolerance, so that sums may differ."""
        padding = PADDING * np.maximum(1.0, np.abs(problem.limits))
        counted = np.array([not f.is_finite for f in problem.functions])
        channel = len(counted) - 1 + np.cumsum(counted)
        values = problem.models[0].flat.values
        largest = np.abs(values[np.isfinite(values)]).max(initial=1000.0)
        return cls(
            problem.limits + problem.tolerances - padding,
            np.array([1.0 / mean_spread(model) for model in problem.models[1:]]),
            np.where(counted, channel, -1).astype(np.int64),
            float(LEAST_GAIN * largest),
        )

    def unlimited(self) -> Rules:
        """The same without constraints: h alone."""
        return self._replace(limits=np.full(len(self.limits), np.inf))


def mean_spread(function: LogLinearModel) -> float:
    """How far apart a table's largest and smallest finite entries are, on average."""
    flat = function.flat
    if not flat.count:
        return 1.0
    zero = np.isneginf(flat.values)
    high = np.maximum.reduceat(np.where(zero, -np.inf, flat.values), flat.offsets[:-1])
    low = np.minimum.reduceat(np.where(zero, np.inf, flat.values), flat.offsets[:-1])
    spread = float(np.where(high >= low, high - low, 0.0).mean())
    return spread if spread > 0.0 else 1.0


class Graph(NamedTuple):
    """Which moves there are and which tables they touch, as arrays for compiled code.

    Variables are numbered as in `Conditioning.free`, tables as its scopes; a slot is one value
    of one variable. Two variables of one table are neighbours, joined by an arc each way.
    """

    offsets: Unsigned  # (T + 1,): where each table starts
    free: Unsigned  # (F,): the variables' numbers in the problem
    owner: Unsigned  # (S,): the variable of each slot
    variables: Unsigned  # (F, 7): first and end of slots, arcs, places; where others share
    places: Unsigned  # (., 2): table and stride, by variable, its own tables first
    arcs: Unsigned  # (., 6): table, own stride; the other's stride, number, first slot, end
    is_simple: bool  # no two variables share two tables

    @classmethod
    def of(cls, structure: Conditioning) -> Graph:
        """Index the tables that evidence leaves by variable."""
        free, layout = structure.free, structure.layout
        slots = starts_of([structure.cardinalities[v] for v in free])
        number = np.full(len(structure.cardinalities), -1, dtype=np.int64)
        number[list(free)] = np.arange(len(free))
        variable, arity = number[layout.variables], np.diff(layout.starts)
        table = np.repeat(np.arange(layout.count), arity)
        order = np.argsort(variable, kind="stable")  # by variable; scopes come by size
        arcs = _arcs(layout, variable, table, order, slots)
        place = starts_of(np.bincount(variable, minlength=len(free)))
        arc = starts_of(np.bincount(variable, weights=arity[table] - 1, minlength=len(free)))
        alone = np.bincount(variable[arity[table] == 1], minlength=len(free))
        columns = (slots[:-1], slots[1:], arc[:-1], arc[1:], place[:-1], place[:-1] + alone)
        owner = np.repeat(np.arange(len(free)), np.diff(arc))
        return cls(
            layout.offsets.astype(np.uint64),
            np.asarray(free, dtype=np.uint64),
            np.repeat(np.arange(len(free)), np.diff(slots)).astype(np.uint64),
            np.stack([*columns, place[1:]], axis=1).astype(np.uint64),
            np.stack([table[order], layout.strides[order]], axis=1).astype(np.uint64),
            arcs.astype(np.uint64),
            len(np.unique(owner * max(1, len(free)) + arcs[:, 3])) == len(arcs),
        )


def _arcs(
    layout: FlatTables, variable: Integers, table: Integers, order: Integers, slots: Integers
) -> Integers:
    """The arcs of each variable, by table: rows as in `Graph.arcs`."""
    others = np.diff(layout.starts)[table[order]] - 1
    axis = np.repeat(order, others)  # of the variable itself
    number = np.arange(len(axis)) - np.repeat(np.cumsum(others) - others, others)
    first = layout.starts[table[axis]]
    other = first + number + (number >= axis - first)
    u = variable[other]
    strides = layout.strides[axis], layout.strides[other]
    return np.stack([table[axis], *strides, u, slots[u], slots[u + 1]], axis=1).astype(np.int64)


def compiled(structure: Conditioning) -> tuple[Graph, Gather]:
    """The graph and the gather of what evidence leaves, made once."""
    if structure not in _COMPILED:
        _COMPILED[structure] = Graph.of(structure), joined(structure)
    return _COMPILED[structure]


def joined(structure: Conditioning) -> Gather:
    """One gather for all functions, whose entries follow one another."""
    parts, size = structure.gathers, len(structure.layout.values)
    targets = np.concatenate([g.targets + k * size for k, g in enumerate(parts)])
    return Gathers.of(parts).gather._replace(targets=targets)


def starts_of(sizes: Sequence[int] | Integers) -> Integers:
    """Where each of several lists begins when they are laid end to end, and the end."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
