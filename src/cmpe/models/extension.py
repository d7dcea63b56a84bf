"""Functions where variables of two values take any number in [0, 1] (paper §2, end).

The multilinear extension of a table: a variable z in [0, 1] weighs value 1 with z and value 0
with 1 - z,

    T(z) = sum over a of T[a] * product over i of (z_i if a_i = 1 else 1 - z_i).

An entry of -inf counts as soon as it has weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cmpe.arrays import Floats
from cmpe.errors import ModelError


def is_fractional(rows: NDArray[np.generic]) -> bool:
    """Whether an assignment holds anything but whole numbers."""
    return rows.dtype.kind == "f" and not bool(np.equal(rows, np.floor(rows)).all())


def extended_value(
    tables: Iterable[tuple[Sequence[int], Floats]], cardinalities: Sequence[int], rows: ArrayLike
) -> Floats:
    """The sum of all tables (scope, table) at rows (B, n) of numbers in [0, 1]: (B,)."""
    points = np.asarray(rows, dtype=np.float64)
    weights = [_weights(points[:, v], v, k) for v, k in enumerate(cardinalities)]
    total = np.zeros(len(points))
    for scope, table in tables:
        entries = np.broadcast_to(table, (len(points), *table.shape))
        for v in scope:  # the first axis left is the next variable's
            share = weights[v].reshape(len(points), -1, *[1] * (entries.ndim - 2))
            entries = np.where(share > 0.0, entries, 0.0) * share
            entries = entries.sum(axis=1)
        total += entries
    return total


def fixed(scope: Sequence[int], table: Floats, values: Mapping[int, float]) -> Floats:
    """What a table is over the variables that `values` does not give a number."""
    entries = table
    for axis in range(len(scope) - 1, -1, -1):
        if scope[axis] in values:
            z = np.array([values[scope[axis]]])
            share = _weights(z, scope[axis], table.shape[axis])[0]
            parts = (w * entries.take(k, axis=axis) for k, w in enumerate(share) if w > 0.0)
            entries = np.asarray(sum(parts))
    return entries


def _weights(values: Floats, variable: int, size: int) -> Floats:
    """What each value of a variable weighs: (B, size)."""
    if size == 2:
        if values.size and not (values.min() >= 0.0 and values.max() <= 1.0):
            raise ModelError(f"variable {variable}: a value must be from 0 to 1")
        return np.stack([1.0 - values, values], axis=1)
    weights: Floats = (values[:, np.newaxis] == np.arange(size)).astype(np.float64)
    if not weights.any(axis=1).all():
        raise ModelError(f"variable {variable}: a value must be a whole number below {size}")
    return weights
