"""Max-marginals of relaxations against enumeration of the copies."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.copies import CARD
from cmpe.core.marginals import max_marginals
from cmpe.core.relaxation import sweep
from tests.core.cases import Relaxed, examples
from tests.problems import seeds


@given(seeds)
@examples(100)
def test_max_marginals_are_those_of_enumeration(seed):
    case = Relaxed(seed)
    relaxed, began = case.relaxed, case.begin(0)
    row, values, winners = began.row, began.state.values, began.state.winners
    values[: relaxed.numbers] = row.h
    total = sweep(relaxed.buckets, relaxed.places, relaxed.numbers, values, winners)
    starts = np.concatenate([[0], np.cumsum(relaxed.buckets[:, CARD])]).astype(np.int64)
    outside, marginal = np.zeros(relaxed.total - relaxed.numbers), np.zeros(int(starts[-1]))
    max_marginals(relaxed, values, total, starts, outside, marginal)
    every = case.plain(row.h)
    for k, variable in enumerate(case.eliminated):
        for a in range(relaxed.buckets[k, CARD] if variable >= 0 else 0):
            wanted = every[case.z[:, variable] == a].max()
            assert np.isclose(marginal[starts[k] + a], wanted, rtol=1e-12, atol=1e-12)
