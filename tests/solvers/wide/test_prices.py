"""Multipliers: slopes are right, bounds hold, and bad prices are left."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.generation import grid
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from cmpe.solvers.wide.prices import PriceSteps, find_prices
from tests.problems import Shape, random_problem, seeds


def network_of(problem, evidence=None):
    instances = problem.given(evidence).take(slice(0, 1))
    nothing = np.zeros(len(problem.constraints))
    return RowNetwork(NetworkShape(instances.conditioning), instances, 0, nothing), instances


def test_slopes_are_differences():
    model = grid(5, 5, seed=1)
    others = [model.perturb(0.5, s) for s in (2, 3)]
    problem = cmpe.Problem(model, [cmpe.Constraint(t, at_most=3.0) for t in others])
    network, _ = network_of(problem)
    network.tighten(np.inf, 1)
    mu, messages = np.array([0.3, 0.1]), network.state.message.copy()
    messages += 0.01 * np.random.default_rng(0).normal(size=len(messages))  # no ties
    network.price(mu, messages)
    before, slopes = network.now, network.slopes()
    for j in range(2):
        network.price(mu + 1e-6 * np.eye(2)[j], messages)
        assert (network.now - before) / 1e-6 == pytest.approx(slopes[j], rel=1e-3)


@settings(max_examples=60)
@given(seeds)
def test_whatever_the_prices_the_bound_holds(seed):
    problem, evidence = random_problem(seed, Shape(variables=5, factors=8, constraints=2))
    truth = cmpe.solve(problem, evidence[:1], method="exhaustive")
    network, _ = network_of(problem, evidence)
    rng, size = np.random.default_rng(seed), len(problem.constraints)
    find_prices(network, np.inf, lambda: rng.choice([-1.0, 1.0, np.inf], size=size))
    if truth.feasible[0]:
        assert network.upper >= truth.objective[0] - 1e-6


def test_prices_tighten_a_binding_constraint():
    model = grid(12, 12, seed=1)
    other = model.perturb(0.1, 2)
    best = cmpe.solve(cmpe.Problem(model))
    limit = float(other.value(best.assignments)[0]) - 20.0
    problem = cmpe.Problem(model, [cmpe.Constraint(other, at_most=limit)])
    network, instances = network_of(problem)
    network.tighten(np.inf, 50)
    free = network.upper

    def decode():
        return limit - other.value(instances.complete(network.decoded()[np.newaxis]))

    find_prices(network, np.inf, decode)
    assert network.multipliers[0] > 0.05
    assert network.upper < free - 2.0
    assert network.upper >= cmpe.solve(problem, method="exact").objective[0] - 1e-6


def test_steps_double_then_shrink_and_stop_at_zero():
    steps = PriceSteps.of(np.ones(1))
    mu = np.zeros(1)
    assert steps.is_idle(mu, np.ones(1))
    mu = steps.moved(mu, -np.ones(1))
    mu = steps.moved(mu, -np.ones(1))
    assert mu[0] == pytest.approx(0.15)
    assert not steps.is_idle(mu, -np.ones(1))
    mu = steps.moved(mu, np.ones(1))
    assert mu[0] == pytest.approx(0.10)
    for _ in range(20):
        mu = steps.moved(mu, np.ones(1) if _ % 2 else -np.ones(1))
    assert steps.is_idle(mu, np.ones(1))
