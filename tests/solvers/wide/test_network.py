"""Soft consistency and branch and bound against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cmpe
from cmpe.generation import grid
from cmpe.solvers.wide import network as network_module
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from tests.problems import Shape, completions, random_problem, seeds

AWKWARD = Shape(variables=5, factors=9, constraints=2)


def networks(seed: int):
    """Each row of a random problem: instances, row, feasible completions by falling h, network."""
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    shape = NetworkShape(instances.conditioning)
    rng = np.random.default_rng(seed)
    for row in range(len(instances)):
        every = completions(instances, row)
        h = problem.objective.value(every)
        feasible = problem.is_feasible(every)
        prices = rng.choice([0.0, 0.3, 2.0], len(problem.constraints))
        network = RowNetwork(shape, instances, row, prices)
        yield instances.take(slice(row, row + 1)), every[feasible], h[feasible], network


@settings(max_examples=150)
@given(seeds, st.integers(1, 6))
def test_the_bound_holds_and_values_of_better_answers_stay(seed, sweeps):
    for instances, answers, h, network in networks(seed):
        best = h.max(initial=-np.inf)
        assert network.upper >= best
        if len(h):
            network.require(float(np.median(h)))
        before = network.upper
        network.tighten(np.inf, sweeps)
        assert max(best, -np.inf) <= network.upper <= before
        better = answers[h > network.state.levels[1] + 1e-9]
        if len(better):
            for v, left in zip(instances.problem.free, network.domains(), strict=True):
                assert np.isin(better[:, v], left).all()


@settings(max_examples=150)
@given(seeds, st.booleans())
def test_branch_and_bound_finds_the_optimum_and_proves_it(seed, swept):
    for instances, _, h, network in networks(seed):
        best = -np.inf
        if swept:
            network.tighten(np.inf, 3)
        if network.possible:
            network.plant()
            while not network.explored:
                bound = network.open_bound
                assert max(bound, best) >= h.max(initial=-np.inf) - 1e-9
                found = network.explore(np.inf)
                if found is not None:
                    whole = instances.complete(found[np.newaxis])
                    if instances.problem.is_feasible(whole)[0]:
                        best = max(best, float(instances.problem.objective.value(whole)[0]))
                        network.accept(best, best + 1e-9)
            assert network.open_bound <= network.state.levels[1]  # nothing is left
        assert best == pytest.approx(h.max(initial=-np.inf), abs=1e-6)


def test_a_grid_is_decoded_and_its_levels_need_not_fit(monkeypatch):
    monkeypatch.setattr("cmpe.solvers.wide.network.TREE_BYTES", 1)
    instances = cmpe.Problem(grid(4, 4, seed=2)).given()
    truth = cmpe.solve(instances.problem, method="exhaustive").objective[0]
    network = RowNetwork(NetworkShape(instances.conditioning), instances, 0, np.zeros(0))
    network.tighten(np.inf, 20)
    other = network.copied()
    value = instances.problem.objective.value(instances.complete(network.decoded()[np.newaxis]))
    assert value[0] <= truth <= network.upper
    network.plant()
    best = -np.inf
    while not network.explored:
        found = network.explore(np.inf)
        if found is not None:
            best = float(instances.problem.objective.value(instances.complete(found[None]))[0])
            network.accept(best, best)
    assert best <= truth <= max(best, network.open_bound)  # what was not kept counts
    assert other.nodes == 0
    assert (other.sizes == 2).all()


def test_exploring_stops_at_a_number_of_nodes_and_goes_on():
    instances = cmpe.Problem(grid(4, 4, seed=2)).given()
    network = RowNetwork(NetworkShape(instances.conditioning), instances, 0, np.zeros(0))
    network.plant()
    assert network.explore(np.inf, 5) is None
    assert network.nodes == 5
    assert network.explore(-np.inf) is None
    assert network.nodes == 5


def test_without_a_limit_a_slow_machine_sweeps_as_much_as_a_quick_one(monkeypatch):
    instances = cmpe.Problem(grid(6, 6, seed=0)).given()
    shape, bounds = NetworkShape(instances.conditioning), []
    for slice_seconds in (0.0, 1e9):
        monkeypatch.setattr(network_module, "SLICE_SECONDS", slice_seconds)
        network = RowNetwork(shape, instances, 0, np.zeros(0))
        network.tighten(np.inf, 4, -1.0)
        bounds.append(network.upper)
    assert bounds[0] == bounds[1]
