"""Functions without tables as columns and rows of a mixed-integer linear program.

    ReLU network   of a neuron that can be on either side of 0: an activation a >= 0, a >= z, and
                   where a must not be too large a 0/1 phase s: a <= z - low (1 - s), a <= high s
    distance       z_j - z_i = p - m with p, m >= 0, and |z_j - z_i| = p + m where a smaller sum is
                   better; elsewhere a 0/1 column b lets only one of them rise

`low` and `high` are the bounds of `bounds.networks.neurons` over all values of the free variables;
stable neurons have no columns. Every new column knows its value at a point, so that an assignment
can be handed to a back-end as a start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array, vstack

from cmpe.arrays import Floats
from cmpe.bounds.linearization import LinearProgram
from cmpe.bounds.networks.neurons import LayerBounds, Moves, hidden_layers, loosened
from cmpe.bounds.networks.phases import kinds_of, sides_needed
from cmpe.models.relu import ReluNetwork

Indices = NDArray[np.int64]
SAME = 1e-12  # The constant of a row without columns may miss its limit by this much.


@dataclass(frozen=True)
class Affine:
    """constant + matrix @ columns: R numbers."""

    constant: Floats  # (R,)
    matrix: csr_array  # (R, columns), or fewer columns

    def through(self, weight: Floats, bias: Floats | float = 0.0) -> Affine:
        """weight @ self + bias."""
        return Affine(weight @ self.constant + bias, csr_array(csr_array(weight) @ self.matrix))

    def at(self, columns: Floats) -> Floats:
        """The numbers where the program's columns are known."""
        return np.asarray(self.constant + self.matrix @ columns[: self.matrix.shape[1]])


class Columns:
    """A program while columns and rows are added to it."""

    def __init__(self, base: LinearProgram) -> None:
        self._base = base
        self.count = len(base.cost)
        self._rows: list[tuple[csr_array, Floats, Floats]] = []
        self._new: list[tuple[Floats, Floats, NDArray[np.bool_]]] = []
        self._fills: list[tuple[Indices, Callable[[Floats], Floats]]] = []
        self.impossible = False  # a row without columns that no point satisfies

    def add(
        self,
        lower: Floats,
        upper: Floats,
        value: Callable[[Floats], Floats],
        *,
        integer: bool = False,
    ) -> Indices:
        """New columns; `value` gives theirs from those before them."""
        new = self.count + np.arange(len(lower))
        self.count += len(lower)
        self._new.append((lower, upper, np.full(len(lower), integer)))
        self._fills.append((new, value))
        return new

    def switches(self, count: int, value: Callable[[Floats], Floats]) -> Indices:
        """New 0/1 columns."""
        return self.add(np.zeros(count), np.ones(count), value, integer=True)

    def pick(self, columns: Sequence[int] | Indices) -> csr_array:
        """The matrix (R, count) whose rows are single columns; -1 is an empty row."""
        chosen = np.asarray(columns, dtype=np.int64)
        at = np.flatnonzero(chosen >= 0)
        ones = np.ones(len(at))
        return csr_array((ones, (at, chosen[at])), shape=(len(chosen), self.count))

    def wide(self, matrix: csr_array) -> csr_array:
        """The same rows over all columns."""
        parts = (matrix.data, matrix.indices, matrix.indptr)
        return csr_array(parts, shape=(matrix.shape[0], self.count))

    def require(self, sums: Affine, lower: Floats | float, upper: Floats | float) -> None:
        """lower <= sums <= upper."""
        low, high = (np.asarray(side, dtype=np.float64) - sums.constant for side in (lower, upper))
        matrix = csr_array(sums.matrix)
        matrix.eliminate_zeros()
        empty = np.diff(matrix.indptr) == 0
        self.impossible |= bool((empty & ((low > SAME) | (high < -SAME))).any())
        self._rows.append((matrix[~empty], low[~empty], high[~empty]))

    def program(self, objective: Affine) -> LinearProgram:
        """Everything so far; `objective` is one number, to be maximised."""
        base = self._base
        lower, upper, integer = (np.concatenate(part) for part in zip(
            (base.column_lower, base.column_upper, base.integer), *self._new, strict=True,
        ))  # fmt: skip
        rows = [base.rows, *(matrix for matrix, _, _ in self._rows)]
        return LinearProgram(
            self.wide(objective.matrix).toarray()[0],
            float(objective.constant[0]),
            csr_array(vstack([self.wide(csr_array(r)) for r in rows], format="csr")),
            np.concatenate([base.lower, *(low for _, low, _ in self._rows)]),
            np.concatenate([base.upper, *(high for _, _, high in self._rows)]),
            lower, upper, integer,
        )  # fmt: skip

    def filled(self, known: Floats) -> Floats:
        """All columns, from those that the program began with."""
        out = np.zeros(self.count)
        out[: len(known)] = known
        for new, value in self._fills:
            out[new] = value(out)
        return out


@dataclass(frozen=True)
class InputColumns:
    """What a network reads: each coordinate is a number, or a column in [0, 1]."""

    numbers: Floats  # (D,), 0 where there is a column
    columns: Indices  # (D,), -1 where there is a number
    reach: float  # the sum of the coordinates that are columns is at most this

    @property
    def known(self) -> bool:
        """Whether every coordinate is a number."""
        return not bool((self.columns >= 0).any())

    def moves(self, network: ReluNetwork) -> Moves:
        """The same as the first layer sees it."""
        moving = self.columns >= 0
        weight = network.weights[0]
        return Moves(
            (weight @ self.numbers + network.biases[0])[np.newaxis],
            weight[:, moving],
            np.ones((1, int(moving.sum()))),
            np.array([self.reach]),
        )


def at_least(build: Columns, network: ReluNetwork, inputs: InputColumns, rows: Floats) -> Affine:
    """Sums of logits, `rows` (R, outputs), that can be larger than they are but never smaller."""
    if inputs.known:
        logits = network.logits(inputs.numbers)[0]
        return Affine(rows @ logits, build.pick([-1] * len(rows)))
    layers = tuple(hidden_layers(network, inputs.moves(network)))
    kinds = kinds_of(layers, sides_needed(network, rows, layers))
    values = Affine(inputs.numbers, build.pick(inputs.columns))
    for depth, layer in enumerate(layers):
        z = values.through(network.weights[depth], network.biases[depth])
        values = _activations(build, z, layer, *kinds[depth])
    return values.through(rows @ network.weights[-1], rows @ network.biases[-1])


def _activations(
    build: Columns,
    z: Affine,
    layer: LayerBounds,
    unstable: NDArray[np.bool_],
    phased: NDArray[np.bool_],
) -> Affine:
    """max(0, z) as expressions: z, a column, or 0."""
    low, high = loosened(layer.low[0], layer.high[0])
    column = np.full(len(low), -1, dtype=np.int64)
    switch = np.full(len(low), -1, dtype=np.int64)
    top = high[unstable]
    column[unstable] = build.add(
        np.zeros(len(top)), top, lambda known: np.maximum(z.at(known)[unstable], 0.0)
    )
    switch[phased] = build.switches(
        int(phased.sum()), lambda known: (z.at(known)[phased] > 0.0).astype(np.float64)
    )
    a, s = build.pick(column), build.pick(switch)
    above = Affine(-z.constant, a - build.wide(z.matrix))  # a - z
    build.require(_part(above, unstable), 0.0, np.inf)
    held = Affine(above.constant + low, above.matrix - diags_array(low) @ s)
    build.require(_part(held, phased), -np.inf, 0.0)
    capped = Affine(np.zeros(len(low)), csr_array(a - diags_array(high) @ s))
    build.require(_part(capped, phased), -np.inf, 0.0)
    on = (layer.low[0] >= 0).astype(np.float64)
    return Affine(on * z.constant, csr_array(diags_array(on) @ build.wide(z.matrix) + a))


def _part(sums: Affine, chosen: NDArray[np.bool_]) -> Affine:
    return Affine(sums.constant[chosen], csr_array(sums.matrix)[chosen])


def split_distance(build: Columns, difference: Affine, weights: Floats, *, exact: bool) -> Affine:
    """-weights @ |difference|, where |difference| <= 1.

    It can be smaller than it is; with `exact` it is what it is.
    """
    count = len(weights)
    zeros, ones = np.zeros(count), np.ones(count)
    up = build.add(zeros, ones, lambda known: np.maximum(difference.at(known), 0.0))
    down = build.add(zeros, ones, lambda known: np.maximum(-difference.at(known), 0.0))
    sides = build.pick(up) - build.pick(down)
    build.require(replace(difference, matrix=build.wide(difference.matrix) - sides), 0.0, 0.0)
    if exact:
        rising = build.switches(count, lambda known: (difference.at(known) > 0).astype(float))
        switch = build.pick(rising)
        build.require(Affine(zeros, build.pick(up) - switch), -np.inf, 0.0)
        build.require(Affine(zeros, build.pick(down) + switch), -np.inf, 1.0)
    both = Affine(zeros, csr_array(build.pick(up) + build.pick(down)))
    return both.through(-weights[np.newaxis])
