"""Grains: objectives that are multiples of a number, and proofs by that."""

import numpy as np
import pytest

import cmpe
from cmpe.models.loglinear import LogLinearModel
from cmpe.solvers.incumbent import Incumbent, Known
from cmpe.solvers.wide.grain import grain_of


def tables(*parts):
    return np.concatenate(parts), np.cumsum([0, *map(len, parts)])


def test_the_greatest_common_divisor_of_what_entries_lose():
    entries, offsets = tables([0.0, -0.6, -1.5], [7.1, 7.1 - 0.9], [3.0, -np.inf])
    assert grain_of(entries, offsets) == pytest.approx(0.3, rel=1e-6)
    assert grain_of(entries, offsets) < 0.3


@pytest.mark.parametrize(
    "parts",
    [
        [np.array([0.0, 1.0]), np.array([0.0, np.sqrt(2.0)])],
        [np.random.default_rng(0).normal(size=1000)],
        [np.zeros(4), np.full(2, -np.inf)],
        [np.array([0.0, 1e-7])],
        [
            np.array([0.0, 1.0]),
            *[np.array([0.0, 1.0 + 3e-9 * (v % 2)]) for v in range(60)],
        ],  # residuals add up
    ],
)
def test_no_grain(parts):
    assert grain_of(*tables(*parts)) == 0.0


def test_rounded_numbers_take_a_little_off():
    entries, offsets = tables([0.0, -0.25], [0.0, -0.5 + 1e-9], [0.0, -0.75])
    assert 0.25 - 1e-8 < grain_of(entries, offsets) < 0.25 - 5e-10


def test_numbers_after_the_sample_count_too():
    parts = [np.array([0.0, 1.0])] * 6000
    assert grain_of(*tables(*parts)) == pytest.approx(1.0, rel=1e-3)
    assert grain_of(*tables(*parts, np.array([0.0, 0.5]))) == 0.0


def test_a_bound_within_a_grain_is_a_proof():
    rng = np.random.default_rng(3)
    pairs = [
        ((u, v), -rng.integers(0, 3, (2, 2)).astype(float)) for v in range(6) for u in range(v)
    ]
    problem = cmpe.Problem(LogLinearModel.from_tables([2] * 6, pairs))
    truth = cmpe.solve(problem, method="exhaustive")
    known = Known(Incumbent(problem, 0.0))
    known.best.grain = grain_of(problem.given().tables(0)[0], problem.conditioning.layout.offsets)
    assert known.best.grain == pytest.approx(1.0)
    known.best.offer(truth.assignments[0])
    known.upper = known.best.enough
    assert known.closed
    assert known.stated == truth.objective[0]
    known.upper = truth.objective[0] + 1.5
    assert not known.closed
    assert known.stated == known.upper
