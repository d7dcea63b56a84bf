from itertools import product

import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem, solve
from cmpe.tensor.max_product import Propagation, max_product
from cmpe.tensor.messages import FactorGraph
from cmpe.tensor.tables import WideTables
from tests.problems import Shape, random_problem, seeds
from tests.tensor.cases import DEVICES, optimum, wide_instances


def propagation(instances, *, coloured):
    wide = WideTables(instances, "cpu")
    graph = FactorGraph(wide, 1, coloured=coloured)
    return Propagation(graph, wide.row_tables(slice(None)), wide), wide


def beliefs_of(instances, mu, sweeps):
    """The sums of messages, by the formula: each table sends after those before it."""
    wide = WideTables(instances, "cpu")
    given, layout = wide.row_tables(slice(None)), wide.structure.layout
    theta = wide.floored(given.h).numpy()[:, 0] - np.tensordot(mu, given.t.numpy()[:, :, 0], 1)
    cards = np.asarray(wide.cards)
    heard = [np.zeros(card) for card in cards]
    said = {}
    for _, f in product(range(sweeps), range(len(layout.offsets) - 1)):
        scope = [int(v) for v in wide.axis_variable[layout.starts[f] : layout.starts[f + 1]]]
        table = theta[layout.offsets[f] : layout.offsets[f + 1]].reshape(cards[scope])
        others = [heard[v] - said.get((f, v), 0.0) for v in scope]
        for axis, own in enumerate(others):
            table = table + own.reshape([-1 if k == axis else 1 for k in range(len(scope))])
        for axis, v in enumerate(scope):
            rest = tuple(k for k in range(len(scope)) if k != axis)
            new = table.max(axis=rest) - others[axis]
            before = said.get((f, v), np.zeros(cards[v]))
            said[f, v] = before + 0.5 * (new - new.max() - before)
            heard[v] = others[axis] + said[f, v]
    return np.concatenate(heard)


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6])
def test_messages_are_those_of_the_formula(seed):
    shape = Shape(variables=4, values=3, arity=3, factors=5, zeros=False)
    problem = random_problem(1000 + seed, shape)[0].observing(())
    instances = problem.given()
    assert instances.conditioning.free
    mu = 0.3 + np.arange(len(problem.constraints))
    work, wide = propagation(instances, coloured=False)
    work.sweep(wide.like.new_tensor(mu)[:, None], 4)
    expected = beliefs_of(instances, mu, 4)
    assert np.allclose(work.beliefs[:, 0].numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("coloured", [False, True])
def test_max_product_is_exact_on_trees(coloured):
    rng = np.random.default_rng(4)
    cards = tuple(int(k) for k in rng.integers(2, 5, 12))
    parents = [int(rng.integers(0, v)) for v in range(1, 12)]
    h, t = (
        LogLinearModel(
            cards,
            tuple(
                Factor((p, v), rng.normal(size=(cards[p], cards[v])))
                for v, p in enumerate(parents, 1)
            ),
        )
        for _ in range(2)
    )
    instances = Problem(h, (Constraint(t, 0.0),)).given()
    work, wide = propagation(instances, coloured=coloured)
    work.sweep(wide.like.new_tensor([[0.7]]), 90)
    found = wide.complete(wide.variables.max(work.beliefs)[1], slice(None))
    both = h + t.scale(-0.7)
    best = solve(Problem(both), method="exact").objective
    assert np.allclose(both.value(found), best)


@pytest.mark.parametrize("device", DEVICES)
def test_adapted_multipliers_find_feasible_rows(device):
    instances = wide_instances(12)
    found = max_product(instances, device)
    problem, best = instances.problem, optimum(instances, "exact")
    feasible = problem.is_feasible(found)
    assert feasible.mean() > 0.5
    assert (problem.objective.value(found)[feasible] <= best[feasible] + 1e-9).all()
    assert (best - problem.objective.value(found))[feasible].mean() < 12.0


@given(seed=seeds)
def test_any_problem_gets_assignments(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    found = max_product(instances, "cpu")
    assert (found[:, list(problem.evidence_variables)] == instances.evidence).all()
    assert ((found >= 0) & (found < problem.objective.cardinalities)).all()


def test_nothing_free_and_no_rows():
    model = LogLinearModel((2, 1), (Factor((0,), np.array([0.0, 1.0])),))
    problem = Problem(model, (Constraint(model, 0.5),), (0,))
    assert max_product(problem.given([[1], [0]]), "cpu").tolist() == [[1, 0], [0, 0]]
    assert max_product(problem.given(np.zeros((0, 1), dtype=int)), "cpu").shape == (0, 2)
