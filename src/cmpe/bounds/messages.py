"""Message passing with a valid dual (MPLP) for whole batches; see `bounds.kernels.messages`.

Block-coordinate descent never raises the bound, needs no step length for the messages, and costs
one look at every table entry a step, but it can stop above the minimum, and its minimum is that of
the local polytope: looser than what wider relaxations reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cmpe.arrays import Floats, Integers
from cmpe.bounds.base import (
    Bounds,
    RowTables,
    Work,
    clock,
    loosened_limits,
    over_chunks,
    row_tables,
)  # fmt: skip
from cmpe.models.conditioning import Conditioning
from cmpe.problem import Instances

MANY, NONE = -1, -2  # These mark tables of several variables and of none in MessageTables.unary.


class MessageTables(NamedTuple):
    """All tables of a structure for compiled code; table f has axes starts[f]:starts[f + 1]."""

    offsets: Integers  # (F + 1,) of entries
    starts: Integers  # (F + 1,) of axes
    places: Integers  # (S,) where the axis's variable starts among the beliefs
    cards: Integers  # (S,)
    strides: Integers  # (S,)
    unary: Integers  # (F,) where the variable of a table of one starts, else MANY or NONE


def compile_tables(structure: Conditioning) -> tuple[MessageTables, Integers]:
    """The tables, and where each free variable's beliefs start: (n + 1,)."""
    layout, sizes = structure.layout, [structure.cardinalities[v] for v in structure.free]
    variables = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    place = {v: int(variables[i]) for i, v in enumerate(structure.free)}
    axes = [v for scope in structure.scopes for v in scope]
    unary = [
        place[scope[0]] if len(scope) == 1 else (MANY if scope else NONE)
        for scope in structure.scopes
    ]
    found = MessageTables(
        layout.offsets,
        layout.starts,
        np.array([place[v] for v in axes], dtype=np.int64),
        np.array([structure.cardinalities[v] for v in axes], dtype=np.int64),
        layout.strides,
        np.array(unary, dtype=np.int64),
    )
    return found, variables


def floored(h: Floats, offsets: Integers) -> Floats:
    """h (E,) with -inf replaced by a number so low that no feasible assignment can afford it.

    A higher entry can only raise a bound, so this is safe; and messages stay finite.
    """
    zero = np.isneginf(h)
    if not zero.any():
        return h
    least = np.minimum.reduceat(np.where(zero, 0.0, h), offsets[:-1]).sum()
    most = np.maximum(np.maximum.reduceat(h, offsets[:-1]), 0.0).sum()
    return np.where(zero, least - most - 1.0, h)


class MessageRow:
    """The arrays of one row after another."""

    def __init__(self, structure: Conditioning, limits: Floats) -> None:
        self.tables, variables = compile_tables(structure)
        self.limits = limits
        entries = len(structure.layout.values)
        several = [s for s in structure.scopes if len(s) > 1]
        sizes = [sum(structure.cardinalities[v] for v in scope) for scope in several]
        count = sum(sizes)
        self.state = (
            np.zeros(count),
            np.zeros(len(limits)),
            np.zeros(count),
            np.zeros(len(limits)),
        )
        self.level = np.zeros(4)
        self.scratch = (
            np.zeros(entries), np.zeros(int(variables[-1])), np.zeros(max(sizes, default=1)),
            variables,
        )  # fmt: skip

    def begin(self, given: RowTables) -> None:
        """Load a row; all messages and multipliers are 0."""
        self.h, self.t = floored(given.h, self.tables.offsets), np.ascontiguousarray(given.t)
        self.units = given.units
        for array in self.state:
            array[:] = 0.0
        self.level[:] = np.inf, np.inf, 0.0, 0.0

    def pass_messages(self, steps: int) -> None:
        """Some rounds of all messages and a step of the constraints' multipliers."""
        from cmpe.core import mplp as kernels

        kernels.pass_messages(
            self.tables,
            self.h,
            self.t,
            self.limits,
            self.units,
            steps,
            self.level,
            self.state,
            self.scratch,
        )

    def work(self, given: RowTables, work: Work, begin: float) -> int:
        """Load a row and pass messages until the work is done; returns the steps."""
        self.begin(given)
        self.pass_messages(1)
        done = 0
        for size in work.slices(begin):
            self.pass_messages(size)
            done += size
        return done


@dataclass(frozen=True)
class Messages:
    """Bounds by MPLP, with subgradient steps of the constraints' multipliers."""

    def upper_bound(self, instances: Instances, work: Work) -> Bounds:
        """Bound every row."""
        limits = loosened_limits(instances)
        out = Bounds.empty(len(instances), len(limits))

        def chunk(rows: slice) -> None:
            row = MessageRow(instances.conditioning, limits)
            for at, given in enumerate(row_tables(instances, rows), rows.start):
                begin = clock()
                out.steps[at] = row.work(given, work, begin)
                out.infeasible[at] = row.level[1] < given.least
                out.upper[at] = -np.inf if out.infeasible[at] else row.level[1]
                out.multipliers[at] = row.state[3]
                out.seconds[at] = clock() - begin

        over_chunks(instances, chunk, work.threads)
        return out
