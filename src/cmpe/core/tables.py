"""Compiled loops over flat tables. Imported only when they run: numba loads in 0.4 s.

Rows are handled in blocks of lanes (the innermost axis), so that the compiler vectorises the
index arithmetic and gathers the table entries of many rows at once.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit

LANES = 64


@njit(cache=True)
def evaluate(rows, values, offsets, starts, variables, strides, cardinalities, out):
    """Add up every table at every row into `out`; return the flat position of a bad value or -1."""
    count, width = rows.shape
    block = np.zeros((width, LANES), dtype=np.int32)
    index = np.zeros(LANES, dtype=np.uint32)
    total = np.zeros(LANES)
    for first in range(0, count, LANES):
        lanes = min(LANES, count - first)
        for lane in range(lanes):
            for v in range(width):
                value = rows[first + lane, v]
                if value < 0 or value >= cardinalities[v]:
                    return (first + lane) * width + v
                block[v, lane] = value
        total[:] = 0.0
        for f in range(len(offsets) - 1):
            base = np.uint32(0)
            for lane in range(LANES):
                index[lane] = base
            for s in range(starts[f], starts[f + 1]):
                stride = np.uint32(strides[s])
                column = block[variables[s]]
                for lane in range(LANES):
                    index[lane] += stride * np.uint32(column[lane])
            table = values[offsets[f] : offsets[f + 1]]
            for lane in range(LANES):
                total[lane] += table[index[lane]]
        for lane in range(lanes):
            out[first + lane] = total[lane]
    return -1


@njit(cache=True, nogil=True)
def condition(evidence, gather, out):
    """Condition every table on each lane of `evidence` (|X|, L), into `out` (E, L).

    `gather` is a `conditioning.Gather`. Table f reads the `columns[starts[f]:starts[f + 1]]` of
    evidence. The entries that remain have the offsets `steps[entries[f]:entries[f + 1]]` within
    the table; each is added to its place in `targets`.
    """
    condition_some(evidence, gather, 0, len(gather.offsets) - 1, out)


@njit(inner=True, nogil=True)
def condition_some(evidence, gather, first, end, out):
    """`condition` for the tables from `first` to before `end`."""
    values, offsets, starts, columns, strides, entries, steps, targets = gather
    lanes = evidence.shape[1]
    out[:] = 0.0
    base = np.zeros(lanes, dtype=np.int64)
    for f in range(first, end):
        base[:] = offsets[f]
        for s in range(starts[f], starts[f + 1]):
            column, stride = columns[s], strides[s]
            for lane in range(lanes):
                base[lane] += stride * evidence[column, lane]
        for e in range(entries[f], entries[f + 1]):
            target, offset = targets[e], steps[e]
            for lane in range(lanes):
                out[target, lane] += values[base[lane] + offset]
