"""The root of a flip's program: its bound is sound, and what it leaves holds the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.flips.program import Region, flip_program
from cmpe.solvers.flips.root import RootRelaxation, dominated_moves, tightened, with_cuts
from cmpe.solvers.milp import backend
from tests.solvers.flips.cases import MARGIN, RADII, SEEDS, SIZES, a_program


@settings(max_examples=30, deadline=None)
@given(SIZES, SEEDS, RADII)
def test_the_root_is_a_bound_and_leaves_the_optimum(sizes, seed, radius):
    network, _, row, flip = a_program(seed, sizes, radius)
    maximise = backend("highs")
    exact = maximise(flip.program, Limits(), None)
    root = RootRelaxation(flip, Deadline(Limits())).solve(radius)
    if exact.infeasible:
        return
    assert root is not None
    nearest = -exact.bound
    assert root.bound <= nearest + 1e-7
    cut = maximise(with_cuts(flip.program, root.cuts), Limits(), None)
    assert -cut.bound == pytest.approx(nearest, abs=1e-6)
    for dominated in (np.zeros(len(flip.region.caps), bool), dominated_moves(network, row, flip)):
        smaller = tightened(flip, root, nearest + 1e-7, dominated)
        inner = flip_program(network, row, smaller, MARGIN)
        left = maximise(inner.program, Limits(), None)
        assert not left.infeasible
        assert smaller.spent - left.bound == pytest.approx(nearest, abs=1e-6)


def test_moves_that_never_help_are_dropped():
    network, image, row, _ = a_program(3, (4, 5, 1), 9.0)
    blind = [w.copy() for w in network.weights]
    blind[0][:, 2] = 0.0  # the network does not see pixel 2
    network = type(network)(tuple(blind), network.biases)
    flip = flip_program(network, row, Region.around(image, 9.0), MARGIN)
    assert dominated_moves(network, row, flip)[flip.region.pixel == 2].all()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_dive_with_the_phases_of_a_flip_finds_one_no_farther(seed):
    network, image, _, flip = a_program(seed, (4, 5, 2), 9.0)
    exact = backend("highs")(flip.program, Limits(), None)
    assert exact.columns is not None
    found = flip.region.point(flip.moves_of(exact.columns))
    moves = RootRelaxation(flip, Deadline(Limits())).dive(flip.phases_at(network, found))
    assert moves is not None
    assert moves.sum() <= np.abs(found - image).sum() + 1e-6


def test_no_cuts_change_nothing():
    flip = a_program(0, (4, 5, 1), 0.8)[3]
    assert with_cuts(flip.program, None) is flip.program
