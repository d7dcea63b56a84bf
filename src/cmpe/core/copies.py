"""The layout of a relaxation by copies: its bucket tree and multipliers as whole numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Integers

Narrow = NDArray[np.uint32]


class CompiledRelaxation(NamedTuple):
    """A relaxation as arrays for compiled code.

    The numbers of a row are the entries of the original tables, then one table per copy, then
    the messages. Row k of `buckets` (see the columns below) eliminates one relaxed variable;
    `places[INDEX + (p * CARD + a) * INPUTS + i]` is the number that input i adds to value a of
    message entry p. Axis j of the message is decided by bucket `axes[AXES + j]` and moves p by
    `steps[AXES + j]`.
    """

    buckets: Integers  # (K, 8)
    places: Narrow
    axes: Narrow
    steps: Narrow
    groups: Integers  # (G, 4): FIRST table, COPIES, VALUES, OWN entry of the variable or -1
    copy_entry: Integers  # (C,) where each copy's table starts
    copy_axes: Integers  # (C + 1,) into copy_buckets: the variables of each copy's table
    copy_buckets: Integers
    copy_steps: Integers
    entries: int  # of the original tables
    numbers: int  # entries and copies' tables
    total: int  # with messages


# Columns of CompiledRelaxation.buckets and .groups.
CARD, SIZE, MESSAGE, INDEX, INPUTS, TABLES, AXES, AXIS_COUNT = range(8)
FIRST, COPIES, VALUES, OWN = range(4)
