"""Evaluation and conditioning of tables against numpy's indexing."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.tables import condition, evaluate
from tests.core.cases import Case, examples, plain_values
from tests.problems import seeds


def evaluated(flat, rows, out):
    return evaluate(
        rows, flat.values, flat.offsets, flat.starts, flat.variables, flat.strides,
        flat.cardinalities, out,
    )  # fmt: skip


@given(seeds)
@examples(60)
def test_tables_are_added_up(seed):
    case = Case.random(seed)
    model, cards = case.problem.models[0], case.problem.models[0].cardinalities
    rows = np.stack([case.rng.integers(0, k, 70) for k in cards], axis=1).astype(np.int32)
    out = np.zeros(len(rows))
    assert evaluated(model.flat, rows, out) == -1
    assert np.allclose(out, plain_values(model, rows), rtol=1e-13, atol=1e-13)
    row, variable = int(case.rng.integers(70)), int(case.rng.integers(len(cards)))
    rows[row, variable] = case.rng.choice([-1, cards[variable]])
    assert evaluated(model.flat, rows, out) == row * len(cards) + variable


@given(seeds)
@examples(100)
def test_conditioned_tables_are_those_of_the_completions(seed):
    case = Case.random(seed)
    layout = case.structure.layout
    lanes = np.ascontiguousarray(case.instances.evidence.T, dtype=np.int64)
    for which in range(len(case.problem.models)):
        out = np.zeros((len(layout.values), lanes.shape[1]))
        condition(lanes, case.structure.gathers[which], out)
        for row in range(lanes.shape[1]):
            z, *values = case.every(row)
            total = np.zeros(len(z))
            for f, scope in enumerate(case.structure.scopes):
                shape = [layout.cardinalities[v] for v in scope]
                table = out[layout.offsets[f] : layout.offsets[f + 1], row].reshape(shape)
                total += table[tuple(z[:, v] for v in scope)]
            wanted = values[0] if which == 0 else values[1][:, which - 1]
            assert np.allclose(total, wanted, rtol=1e-13, atol=1e-13)
