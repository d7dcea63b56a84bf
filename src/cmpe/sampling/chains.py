"""Gibbs chains over a model: the tables that they read, and a run of several chains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Integers
from cmpe.models.flat import FlatTables
from cmpe.models.loglinear import LogLinearModel


@dataclass(frozen=True)
class GibbsTables:
    """A model's flat tables with, per variable, the tables that mention it."""

    flat: FlatTables
    values: Floats  # finite: -inf replaced by a floor
    starts: Integers  # (n + 1,)
    tables: Integers  # table numbers by variable
    strides: Integers  # of the variable within each of them

    @classmethod
    def of(cls, model: LogLinearModel, floor: float) -> GibbsTables:
        """Index the tables by variable."""
        flat = model.flat
        owner = np.repeat(np.arange(flat.count), np.diff(flat.starts))
        order = np.argsort(flat.variables, kind="stable")
        counts = np.bincount(flat.variables, minlength=model.variables)
        return cls(
            flat,
            np.where(np.isneginf(flat.values), floor, flat.values),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            owner[order].astype(np.int64),
            flat.strides[order],
        )

    def run(
        self,
        seeds: NDArray[np.uint64],
        sweeps: int,
        annealing: float,
        begun: NDArray[np.int32] | None = None,
    ) -> NDArray[np.int32]:
        """The last state of one chain per seed (len(seeds), n), from `begun` without annealing."""
        from cmpe.core.sampling import chains

        betas = np.minimum(1.0, np.arange(1, sweeps + 1) / max(1.0, annealing * sweeps))
        out = np.full((len(seeds), len(self.flat.cardinalities)), -1, dtype=np.int32)
        if begun is not None:
            out[:], betas = begun, np.ones(sweeps)
        flat = self.flat
        arrays = (flat.cardinalities, flat.offsets, flat.starts, flat.variables, flat.strides)
        chains(seeds, betas, arrays, self.values, self.starts, self.tables, self.strides, out)
        return out
