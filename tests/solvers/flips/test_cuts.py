"""Cuts of a flip's program: they cut off what is wrong and keep every true point."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from cmpe.solvers.flips.cuts import violated_cuts
from tests.solvers.flips.cases import RADII, SEEDS, SIZES, a_program, inputs_of


@settings(max_examples=80, deadline=None)
@given(SIZES, SEEDS, RADII)
def test_cuts_keep_every_true_point(sizes, seed, radius):
    network, _, _, flip = a_program(seed, sizes, radius)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        wild = flip.program.column_upper * rng.random(len(flip.program.cost))
        wild[: len(flip.region.caps)] *= rng.random()
        wild[flip.phases.activation] += 5.0  # surely too large
        inner = wild * rng.random(len(wild))
        cuts = violated_cuts(flip, wild, inner)
        assert len(cuts) == len(flip.phases.phase)
        assert (cuts.rows @ wild > cuts.upper).all()
        for point in inputs_of(flip, seed, 20):
            columns = flip.columns_of(network, point)
            assert (cuts.rows @ columns <= cuts.upper + 1e-8).all()


def test_true_points_are_not_cut():
    network, image, _, flip = a_program(1, (6, 8, 3), 2.0)
    columns = flip.columns_of(network, image)
    assert columns is not None
    assert len(violated_cuts(flip, columns, columns)) == 0
