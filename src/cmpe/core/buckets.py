"""The layout of a bucket tree: a plan of elimination as whole numbers; rows to run it on."""

from __future__ import annotations

from typing import Any, NamedTuple

from cmpe.arrays import Floats, Integers

# Columns of CompiledPlan.buckets.
VARIABLE, CARD, SIZE, MESSAGE, PAIRS, AXES, AXIS_COUNT, INPUTS, INPUT_COUNT, COMPONENT = range(10)
# Columns of CompiledPlan.inputs.
OFFSET, STEP, STRIDES, CHILD = range(4)


class CompiledPlan(NamedTuple):
    """A plan as whole numbers (few arrays: numba passes them faster than many).

    Row k of `buckets` eliminates VARIABLE of cardinality CARD; its message of SIZE entries
    starts at MESSAGE, its (entry, value) pairs are numbered from PAIRS. Its axes are those of
    the message: cardinalities from `axis_cards[AXES]`.
    Row i of `inputs` (INPUTS <= i < INPUTS + INPUT_COUNT) is a table or a message that starts at
    OFFSET; axis j of the bucket moves it by `strides[STRIDES + j]`, the variable by STEP. CHILD
    is the bucket whose message it is, or -1.
    """

    buckets: Integers  # (K, 10)
    inputs: Integers  # (I, 4)
    strides: Integers
    axis_cards: Integers
    axis_buckets: Integers  # the bucket of each axis's variable
    axis_strides: Integers  # of each axis within the message
    component_start: Integers  # (C + 1,) into component_buckets
    component_buckets: Integers  # (K,) buckets by component, in the order of elimination
    entries: int  # of all tables
    total: int  # of all tables and messages
    pairs: int  # of all buckets
    widest: int  # axes of the widest message
    most_inputs: int


class BatchRows(NamedTuple):
    """Rows of evidence, and the tables that are conditioned on them."""

    plan: CompiledPlan
    offsets: Integers  # where each conditioned table begins
    gathers: Any  # `conditioning.Gathers`
    evidence: Integers  # (|X|, B)
    limits: Floats  # (m,)
    finite: bool  # no constraint has an entry of -inf
    lanes: int  # rows of a block
