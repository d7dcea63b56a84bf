"""A classifier's decision as columns and rows: F_c - max of F_k, k != c, c the original's class.

The class is known where the original is; elsewhere a 0/1 column v_c for each class is 1 where the
original has it, and its rows F_c >= F_k hold where v_c = 1:

    at most q   0/1 columns u_ck, sum over k of u_ck >= v_c: F_c - F_k <= q where u_ck = 1
    maximised   one column that is at most F_c - F_k for every k where v_c = 1

Rows are switched off by the largest value that their left side can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from cmpe.arrays import Floats
from cmpe.bounds.networks.neurons import contrasts, loosened, margin_bounds
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.milp.mixed.columns import Affine, Columns, InputColumns, at_least


@dataclass(frozen=True)
class Margin:
    """Of the inputs `changed`, against the class of `original`.

    A class that wins by less than `strict`, where a tie is another class's, does not count.
    """

    network: ReluNetwork
    original: InputColumns
    changed: InputColumns
    strict: float = 0.0

    def require_at_most(self, build: Columns, limit: float) -> None:
        """Some F_c - F_k is at most `limit`."""
        gaps = at_least(build, self.network, self.changed, self._rows)
        owner, high = self._owner(build), self._bounds(self.changed)[1]

        def overtakes(known: Floats) -> Floats:
            most = np.where(owner.at(known) > 0.5, -gaps.at(known), -np.inf)
            return np.asarray(np.arange(len(most)) == np.argmax(most), dtype=np.float64)

        target = build.pick(build.switches(len(high), overtakes))
        room = np.maximum(high - limit, 0.0)
        released = build.wide(gaps.matrix) + diags_array(room) @ target
        build.require(Affine(gaps.constant - limit - room, csr_array(released)), -np.inf, 0.0)
        each = self._per_class(np.ones(len(high)))
        chosen = csr_array(each @ target - each @ build.wide(owner.matrix) / self._others)
        build.require(Affine(-(each @ owner.constant) / self._others, chosen), 0.0, np.inf)

    def as_objective(self, build: Columns) -> Affine:
        """The smallest F_c - F_k, as one column that can be smaller but never larger."""
        minus = at_least(build, self.network, self.changed, -self._rows)
        owner, (low, high) = self._owner(build), self._bounds(self.changed)
        most = high.reshape(-1, self._others).min(axis=1).max(keepdims=True)

        def smallest(known: Floats) -> Floats:
            own = np.where(owner.at(known) > 0.5, -minus.at(known), np.inf)
            return np.asarray(own.min(keepdims=True))

        column = build.add(low.min(keepdims=True), most, smallest)
        every, room = build.pick(np.repeat(column, len(low))), most - low
        held = every + build.wide(minus.matrix) + diags_array(room) @ build.wide(owner.matrix)
        constant = minus.constant + room * (owner.constant - 1.0)
        build.require(Affine(constant, csr_array(held)), -np.inf, 0.0)
        return Affine(np.zeros(1), build.pick(column))

    @property
    def _others(self) -> int:
        return max(1, self.network.outputs - 1)

    @cached_property
    def _classes(self) -> NDArray[np.int64]:
        """Those that the original can have."""
        if self.original.known:
            return self.network.decide(self.original.numbers)
        return np.arange(self.network.classes)

    @property
    def _rows(self) -> Floats:
        """F_c - F_k for every possible c, and every other k: (C K, outputs)."""
        return contrasts(self.network, self._classes).reshape(-1, self.network.outputs)

    def _per_class(self, values: Floats) -> csr_array:
        """The matrix (C, C K) that sums over each class's own rows, weighted."""
        count = len(self._classes)
        where = (np.repeat(np.arange(count), self._others), np.arange(len(values)))
        return csr_array((values, where), shape=(count, len(values)))

    def _bounds(self, inputs: InputColumns) -> tuple[Floats, Floats]:
        """What F_c - F_k can be: least and most, (C K,)."""
        if inputs.known:
            value = self._rows @ self.network.logits(inputs.numbers)[0]
            return loosened(value, value)
        moves = inputs.moves(self.network)
        parts = [margin_bounds(self.network, moves, self._classes[i : i + 1])
                 for i in range(len(self._classes))]  # fmt: skip
        low, high = ([getattr(p, side)[0] for p in parts] for side in ("low", "high"))
        return loosened(np.concatenate(low), np.concatenate(high))

    def _owner(self, build: Columns) -> Affine:
        """v_c of the class of each row: (C K,)."""
        if self.original.known:
            return Affine(np.ones(self._others), build.pick([-1] * self._others))
        minus = at_least(build, self.network, self.original, -self._rows)
        point = Affine(self.original.numbers, build.pick(self.original.columns))

        def decided(known: Floats) -> Floats:
            own = self.network.decide(point.at(known))
            return np.asarray(self._classes == own, dtype=np.float64)

        switch = build.pick(build.switches(len(self._classes), decided))
        one = csr_array(switch.sum(axis=0)[np.newaxis])
        build.require(Affine(np.zeros(1), one), 1.0, 1.0)
        spread = csr_array(self._per_class(np.ones(len(minus.constant))).T @ switch)
        room = self._ties_lost() * self.strict - self._bounds(self.original)[0]
        wins = build.wide(minus.matrix) + diags_array(room) @ spread
        constant = minus.constant + self._bounds(self.original)[0]
        build.require(Affine(constant, csr_array(wins)), -np.inf, 0.0)
        return Affine(np.zeros(len(room)), spread)

    def _ties_lost(self) -> Floats:
        """Which F_c = F_k make the class k: ties take the lowest, (C K,)."""
        if self.network.outputs == 1:
            return np.asarray((self._classes == 1).astype(np.float64))
        other = [[k < c for k in range(self.network.outputs) if k != c] for c in self._classes]
        return np.array(other, dtype=np.float64).ravel()
