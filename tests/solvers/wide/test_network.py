"""Soft consistency and branch and bound against enumeration."""

from dataclasses import replace

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
    changed = replace(network_module.SETTINGS, tree_bytes=1)
    monkeypatch.setattr(network_module, "SETTINGS", changed)
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
    network.accept(1e9, -np.inf)  # so that no assignment deserves a look
    assert network.explore(np.inf, 5) is None
    assert network.nodes == 5
    assert network.explore(-np.inf) is None
    assert network.nodes == 5


def test_without_a_limit_a_slow_machine_sweeps_as_much_as_a_quick_one(monkeypatch):
    instances = cmpe.Problem(grid(6, 6, seed=0)).given()
    shape, bounds = NetworkShape(instances.conditioning), []
    for slice_seconds in (0.0, 1e9):
        changed = replace(network_module.SETTINGS, slice_seconds=slice_seconds)
        monkeypatch.setattr(network_module, "SETTINGS", changed)
        network = RowNetwork(shape, instances, 0, np.zeros(0))
        network.tighten(np.inf, 4, -1.0)
        bounds.append(network.upper)
    assert bounds[0] == bounds[1]


def coarse_problem(seed: int) -> cmpe.Problem:
    """Few different numbers, so that values equal or dominate each other; zeros; 0 to 2 limits."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 7, int(rng.integers(2, 6))).tolist()

    def model(chances):
        tables = []
        for _ in range(int(rng.integers(1, 6))):
            scope = rng.choice(len(cards), int(rng.integers(1, min(3, len(cards)) + 1)), False)
            shape = [cards[v] for v in scope]
            table = rng.choice([0.0, 1.0, -np.inf], shape, p=chances)
            tables.append((tuple(scope.tolist()), table))
        return cmpe.LogLinearModel.from_tables(cards, tables)

    objective = model([0.3, 0.6, 0.1])
    others = [model([0.8, 0.2, 0.0]) for _ in range(int(rng.integers(0, 3)))]
    limits = [cmpe.Constraint(t, float(rng.integers(0, 3))) for t in others]
    return cmpe.Problem(objective, limits)


@settings(max_examples=300)
@given(seeds)
def test_a_best_answer_survives_dominance(seed):
    problem = coarse_problem(seed)
    instances = problem.given()
    every = completions(instances, 0)
    h = np.where(problem.is_feasible(every), problem.objective.value(every), -np.inf)
    shape, m = NetworkShape(instances.conditioning), len(problem.constraints)
    network = RowNetwork(shape, instances, 0, np.full(m, 0.5))
    before = int(network.sizes.sum())
    count = network.dominate(np.inf)
    if not network.possible:
        assert h.max() == -np.inf
        return
    assert int(network.sizes.sum()) <= before - count  # values without support go as well
    left, stand_ins = network.domains(), network.stand_ins()
    stays = np.ones(len(every), dtype=bool)
    for v, own, others in zip(problem.free, left, stand_ins, strict=True):
        stays &= np.isin(every[:, v], own)
        gone = np.setdiff1d(np.flatnonzero(others >= 0), own)
        assert (others[gone] != gone).all()
    assert h[stays].max() == pytest.approx(h.max())


def test_what_dominates_and_what_does_not():
    """Of 0: value 1 is 0 again, 2 is worse, 3 is better in h and worse in t, 4 has no weight."""
    h = [[1.0, 0.0], [1.0, 0.0], [0.5, -1.0], [2.0, 1.0], [-np.inf, -np.inf]]
    model = cmpe.LogLinearModel.from_tables([5, 2], [((0, 1), h)])
    t = cmpe.LogLinearModel.from_tables([5, 2], [((0,), [0.0, 0.0, 0.0, 1.0, 0.0])])
    left = []
    for problem in (cmpe.Problem(model), cmpe.Problem(model, [cmpe.Constraint(t, 0.5)])):
        instances = problem.given()
        prices = np.zeros(len(problem.constraints))
        network = RowNetwork(NetworkShape(instances.conditioning), instances, 0, prices)
        assert network.dominate(-np.inf) == 0
        for v in range(5):  # whichever is the favourite
            network.state.belief[v] = -float(v == 3)
        network.dominate(np.inf)
        left.append(network.domains()[0].tolist())
    assert left[1] in ([0, 3], [1, 3])
    assert not {2, 4} & set(left[0])
