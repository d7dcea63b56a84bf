"""Message passing with a valid dual (MPLP) for whole batches; see `core.mplp`.

Block-coordinate descent never raises the bound, needs no step length for the messages, and costs
one pass over the table entries a step. But it can stop above the minimum, and its minimum is that
of the local polytope: looser than the bounds of wider relaxations.
"""

from __future__ import annotations

from dataclasses import dataclass

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
from cmpe.core.mplp import MANY, NONE, MessageRow, MessageState, MessageTables, pass_messages
from cmpe.core.multipliers import BEST
from cmpe.models.conditioning import Conditioning
from cmpe.problem import Instances


def compile_tables(structure: Conditioning) -> MessageTables:
    """The tables of a structure."""
    layout, sizes = structure.layout, [structure.cardinalities[v] for v in structure.free]
    variables = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).astype(np.int64)
    place = {v: int(variables[i]) for i, v in enumerate(structure.free)}
    axes = [v for scope in structure.scopes for v in scope]
    unary = [
        place[scope[0]] if len(scope) == 1 else (MANY if scope else NONE)
        for scope in structure.scopes
    ]
    return MessageTables(
        layout.offsets,
        layout.starts,
        np.array([place[v] for v in axes], dtype=np.int64),
        np.array([structure.cardinalities[v] for v in axes], dtype=np.int64),
        layout.strides,
        np.array(unary, dtype=np.int64),
        variables,
    )


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


class PassedRow:
    """The arrays of one row after another."""

    def __init__(self, structure: Conditioning, limits: Floats) -> None:
        self.tables = compile_tables(structure)
        self.limits, count = limits, len(limits)
        several = [s for s in structure.scopes if len(s) > 1]
        sizes = [sum(structure.cardinalities[v] for v in scope) for scope in several]
        self.state = MessageState(
            np.zeros(sum(sizes)),
            np.zeros(count),
            np.zeros(sum(sizes)),
            np.zeros(count),
            np.zeros(1),
            np.zeros(3),
            np.zeros(len(structure.layout.values)),
            np.zeros(int(self.tables.variables[-1])),
            np.zeros(max(sizes, default=1)),
            np.zeros(count),
        )

    def begin(self, given: RowTables) -> None:
        """Load a row; all messages and multipliers are 0."""
        h, t = floored(given.h, self.tables.offsets), np.ascontiguousarray(given.t)
        self.row = MessageRow(h, t, self.limits, given.units)
        for array in self.state:
            array[:] = 0.0
        self.state.bound[0] = self.state.level[BEST] = np.inf

    def pass_messages(self, steps: int) -> None:
        """Some rounds of all messages and a step of the constraints' multipliers."""
        pass_messages(self.tables, self.row, steps, self.state)

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
            row = PassedRow(instances.conditioning, limits)
            for at, given in enumerate(row_tables(instances, rows), rows.start):
                begin = clock()
                out.steps[at] = row.work(given, work, begin)
                out.infeasible[at] = row.state.bound[0] < given.least
                out.upper[at] = -np.inf if out.infeasible[at] else row.state.bound[0]
                out.multipliers[at] = row.state.best_mu
                out.seconds[at] = clock() - begin

        over_chunks(instances, chunk, work.threads)
        return out
