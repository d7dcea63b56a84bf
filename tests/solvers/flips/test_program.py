"""The program of a flip, its cuts and its root: true points are kept, bounds are sound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.bounds.networks.neurons import contrasts
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.flips.cuts import violated_cuts
from cmpe.solvers.flips.program import FlipProgram, Region, flip_program
from cmpe.solvers.flips.root import RootRelaxation, dominated_moves, tightened, with_cuts
from cmpe.solvers.milp import backend
from tests.networks import random_image, random_network

SIZES = st.sampled_from([(3, 4, 2), (4, 5, 1), (6, 8, 3), (3, 4, 3, 2), (4, 3, 3, 3, 2)])
SEEDS = st.integers(0, 10**6)
RADII = st.sampled_from([0.2, 0.8, 2.0, 9.0])
MARGIN = 1e-3


def a_program(seed: int, sizes: tuple[int, ...], radius: float):
    """A network, its image, the contrast of one target, and the program."""
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    row = rows[seed % len(rows)]
    return network, image, row, flip_program(network, row, Region.around(image, radius), MARGIN)


def inputs_of(flip: FlipProgram, seed: int, count: int = 60) -> np.ndarray:
    """Inputs of the region: inner ones, and some with few pixels changed."""
    rng, region = np.random.default_rng(seed), flip.region
    t = region.caps * rng.random((count, len(region.caps)))
    t *= rng.random(t.shape) < rng.choice([0.3, 1.0], size=(count, 1))
    first = {int(p): i for i, p in enumerate(region.pixel)}
    for i, p in enumerate(region.pixel):  # never up and down at once
        if first[int(p)] != i:
            t[rng.random(count) < 0.5, first[int(p)]] = 0.0
            t[t[:, first[int(p)]] > 0, i] = 0.0
    t *= np.minimum(1.0, region.radius * (1 - 1e-12) / np.maximum(t.sum(axis=1), 1e-300))[:, None]
    return np.array([region.point(each) for each in t])


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


def test_moves_that_never_help_are_dropped():
    network, image, row, _ = a_program(3, (4, 5, 1), 9.0)
    blind = [w.copy() for w in network.weights]
    blind[0][:, 2] = 0.0  # the network does not see pixel 2
    network = type(network)(tuple(blind), network.biases)
    flip = flip_program(network, row, Region.around(image, 9.0), MARGIN)
    assert dominated_moves(network, row, flip)[flip.region.pixel == 2].all()
