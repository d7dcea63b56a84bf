"""The program of a flip: exactly the flips of the region are its points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.solvers.base import Limits
from cmpe.solvers.flips.program import FlipProgram, Region, flip_program
from cmpe.solvers.milp import backend
from tests.solvers.flips.cases import MARGIN, RADII, SEEDS, SIZES, a_program, inputs_of


def kept(flip: FlipProgram, columns: np.ndarray, rows: np.ndarray | slice = slice(None)) -> bool:
    program = flip.program
    values = (program.rows @ columns)[rows]
    return bool(
        (values <= program.upper[rows] + 1e-8).all()
        and (values >= program.lower[rows] - 1e-8).all()
        and (columns <= program.column_upper + 1e-8).all()
        and (columns >= program.column_lower - 1e-8).all()
    )


@settings(max_examples=60, deadline=None)
@given(SIZES, SEEDS, RADII)
def test_exactly_the_flips_of_the_region_are_points(sizes, seed, radius):
    network, _, row, flip = a_program(seed, sizes, radius)
    margin_row = len(flip.program.upper) - 2
    others = np.arange(len(flip.program.upper)) != margin_row
    for point in inputs_of(flip, seed):
        columns = flip.columns_of(network, point)
        assert columns is not None
        assert kept(flip, columns, others)
        contrast = row @ network.logits(point[np.newaxis])[0]
        slack = (flip.program.upper - flip.program.rows @ columns)[margin_row]
        assert slack == pytest.approx(-MARGIN - contrast, abs=1e-8)


def test_points_outside_have_no_columns():
    network, image, _, flip = a_program(1, (4, 5, 1), 0.3)
    assert flip.columns_of(network, 1.0 - image) is None
    assert flip.columns_of(network, image) is not None


@settings(max_examples=30, deadline=None)
@given(SIZES, SEEDS)
def test_forcing_a_neuron_both_ways_splits_the_flips(sizes, seed):
    network, image, row, flip = a_program(seed, sizes, 9.0)
    maximise = backend("highs")
    whole = maximise(flip.program, Limits(), None)
    parts = []
    for sign in (1, -1):
        forced = tuple(np.zeros(len(b), dtype=np.int8) for b in network.biases[:-1])
        forced[seed % len(forced)][0] = sign
        part = flip_program(network, row, Region.around(image, 9.0), MARGIN, forced)
        answer = maximise(part.program, Limits(), None)
        parts.append(-np.inf if answer.infeasible else answer.bound)
    if whole.infeasible:
        assert max(parts) == -np.inf
    else:
        assert max(parts) == pytest.approx(whole.bound, abs=1e-6)
