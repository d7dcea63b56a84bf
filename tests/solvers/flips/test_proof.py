"""Nearest flips against brute force over activation patterns."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.errors import MethodError, MissingExtra, ModelError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.base import Limits
from cmpe.solvers.flips import proof as relu_milp
from cmpe.solvers.flips.proof import ProvedFlip, nearest_flip
from tests.networks import nearest_by_brute_force, random_image, random_network

WANTED = 1e-3
BACKENDS = [
    "highs",
    pytest.param(
        "scip",
        marks=pytest.mark.skipif(
            importlib.util.find_spec("pyscipopt") is None, reason="pyscipopt is not installed"
        ),
    ),
]
SIZES = st.one_of(
    st.tuples(st.integers(1, 4), st.integers(1, 5), st.integers(1, 3)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 4), st.integers(1, 3)),
)


def check(network: ReluNetwork, image: np.ndarray, flip: ProvedFlip, exact: float) -> None:
    """The answer is proved, equals the brute-force optimum and really flips."""
    assert flip.optimal
    if exact == np.inf:
        assert flip.image is None
        assert flip.bound == np.inf
        return
    assert flip.image is not None
    assert flip.distance == pytest.approx(exact, abs=2e-6)
    assert flip.bound <= exact + 1e-9
    assert ((flip.image >= 0) & (flip.image <= 1)).all()
    assert np.abs(flip.image - image).sum() == flip.distance
    assert network.decide(flip.image[np.newaxis]) != network.decide(image[np.newaxis])


@pytest.mark.parametrize("few", [0, 3, 99])  # phases left to the back-end: none, some, all
@pytest.mark.parametrize("backend", BACKENDS)
def test_equals_brute_force(backend, few, monkeypatch):
    monkeypatch.setattr(relu_milp, "FLIPS", relu_milp.FLIPS._replace(few_phases=few))

    @settings(max_examples=25, deadline=None, derandomize=True, database=None)
    @given(SIZES, st.integers(0, 10**6))
    def run(sizes, seed):
        network, image = random_network(seed, sizes), random_image(seed, sizes[0])
        exact = nearest_by_brute_force(network, image, WANTED)
        flip = nearest_flip(network, image, solver=backend, margin=WANTED)
        check(network, image, flip, exact)

    run()


@settings(max_examples=25, deadline=None)
@given(SIZES, st.integers(0, 10**6), st.integers(0, 10**6))
def test_any_start_leads_to_the_same_optimum(sizes, seed, other):
    network, image = random_network(seed, sizes), random_image(seed, sizes[0])
    start = random_image(other, sizes[0])
    flip = nearest_flip(network, image, start=start, margin=WANTED)
    check(network, image, flip, nearest_by_brute_force(network, image, WANTED))


def test_gurobi_solves_the_same_programs():
    pytest.importorskip("gurobipy")
    network, image = random_network(4, (3, 5, 2)), random_image(4, 3)
    try:
        flip = nearest_flip(network, image, solver="gurobi", margin=WANTED)
    except MissingExtra as error:
        pytest.skip(str(error))
    check(network, image, flip, nearest_by_brute_force(network, image, WANTED))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_constant_network_has_no_flip(backend):
    network = ReluNetwork((np.zeros((3, 2)), np.zeros((2, 3))), (np.ones(3), np.array([0.0, 1.0])))
    flip = nearest_flip(network, np.array([0.0, 0.4]), solver=backend)
    assert flip == ProvedFlip(None, np.inf, np.inf, flip.nodes, flip.seconds)
    assert flip.optimal
    assert flip.gap == 0.0


@pytest.mark.parametrize("sizes", [(30, 24, 5), (20, 16, 16, 3)])
def test_at_the_time_limit_bound_and_incumbent_enclose_the_optimum(sizes):
    network, image = random_network(7, sizes), random_image(7, sizes[0])
    whole = nearest_flip(network, image)
    assert whole.optimal
    for seconds in (1e-9, 0.02, 0.05):
        flip = nearest_flip(network, image, start=whole.image, limits=Limits(seconds=seconds))
        assert flip.distance == pytest.approx(whole.distance)
        assert 0 <= flip.bound <= whole.distance
        none = nearest_flip(network, image, limits=Limits(seconds=seconds))
        assert none.bound <= whole.distance <= none.distance + 1e-6
        assert none.optimal == (none.distance - none.bound <= 1e-6 * max(1.0, none.bound))
    assert not nearest_flip(network, image, limits=Limits(seconds=1e-9)).optimal


def test_the_margin_asked_for_is_the_margin_reached():
    network, image = random_network(11, (5, 6, 3)), random_image(11, 5)
    own = network.decide(image[np.newaxis])
    distances = []
    for margin in (1e-3, 0.05, 0.2):
        flip = nearest_flip(network, image, margin=margin)
        assert flip.image is not None
        reached = network.margins(flip.image[np.newaxis], own)[0]
        assert reached == pytest.approx(-margin, abs=2e-6)
        distances.append(flip.distance)
    assert distances == sorted(distances)


def test_threads_may_change_between_calls(monkeypatch):
    monkeypatch.setattr(relu_milp, "FLIPS", relu_milp.FLIPS._replace(few_phases=99))
    network, image = random_network(0, (12, 30, 3)), random_image(0, 12)
    found = [nearest_flip(network, image, limits=Limits(threads=n)) for n in (1, 2, 1)]
    assert all(flip.optimal for flip in found)
    assert len({round(flip.distance, 6) for flip in found}) == 1


def test_a_start_that_does_not_flip_is_no_flip():
    network, image = random_network(3, (4, 5, 3)), random_image(0, 4)
    assert (
        nearest_flip(network, image, start=image).distance == nearest_flip(network, image).distance
    )


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"margin": 0.0}, MethodError, "must be above the feasibility tolerance"),
        ({"image": np.full(4, 1.5)}, ModelError, r"4 numbers in \[0, 1\]"),
        ({"image": np.zeros(3)}, ModelError, "4 numbers"),
        ({"image": np.full(4, np.nan)}, ModelError, "4 numbers"),
        ({"start": np.zeros(3)}, ModelError, "a start must be 4 numbers"),
        ({"solver": "cplex"}, MethodError, "found 'cplex'"),
    ],
)
def test_what_is_refused(changes, error, message):
    options = {"image": np.zeros(4), **changes}
    with pytest.raises(error, match=message):
        nearest_flip(random_network(3, (4, 5, 3)), options.pop("image"), **options)
