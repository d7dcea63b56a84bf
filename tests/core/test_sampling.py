"""The Gibbs sampler against enumerated probabilities."""

from __future__ import annotations

import numpy as np

from cmpe import LogLinearModel
from cmpe.core.sampling import chains


def test_chains_follow_the_enumerated_probabilities():
    """Two variables of two and three values; 2,000 chains of eight sweeps at full weight."""
    table = np.array([[0.0, 1.0, -1.0], [0.5, -0.5, 1.5]])
    model = LogLinearModel.from_tables([2, 3], [((0, 1), table)])
    flat, count = model.flat, 2000
    seeds = np.random.default_rng(0).integers(1, 2**63, count).astype(np.uint64)
    arrays = (
        np.array([2, 3], dtype=np.int64), flat.offsets, flat.starts, flat.variables, flat.strides
    )  # fmt: skip
    by_variable, tables = np.array([0, 1, 2]), np.zeros(2, dtype=np.int64)
    steps = np.array([3, 1], dtype=np.int64)
    out = np.full((count, 2), -1, dtype=np.int32)
    chains(seeds, np.ones(8), arrays, flat.values, by_variable, tables, steps, out)
    seen = np.bincount(out[:, 0] * 3 + out[:, 1], minlength=6) / count
    wanted = np.exp(table).ravel() / np.exp(table).sum()
    assert abs(seen - wanted).max() < 0.04
