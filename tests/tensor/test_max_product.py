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


def compiled_beliefs(instances, mu, sweeps):
    """The beliefs of the compiled sweep, one row of evidence in every lane."""
    from cmpe.solvers.search.kernels import starts as kernels
    from cmpe.solvers.search.kernels.lanes import LANES

    wide = WideTables(instances, "cpu")
    given = wide.row_tables(slice(None))
    tables = np.concatenate([wide.floored(given.h)[None].numpy(), given.t.numpy()])
    lanes = np.repeat(tables.reshape(-1, 1), LANES, axis=1).astype(np.float32)
    layout = Lanes(wide)
    slots, places, largest = kernels._starts.py_func(layout)
    beliefs, messages, work, changes = (
        np.zeros(shape, dtype=np.float32)
        for shape in (
            (slots[-1], LANES), (places[-1], LANES), (largest, LANES),
            (4, int(layout.cards.max()), LANES),
        )
    )  # fmt: skip
    weights = np.repeat(np.array([[1.0], *([-m] for m in mu)]), LANES, axis=1).astype(np.float32)
    for _ in range(sweeps):
        for f in range(len(layout.offsets) - 1):
            sweep_table(kernels, f, layout, (slots, places, lanes, weights, beliefs, messages),
                        work, changes)  # fmt: skip
    return beliefs[:, 0]


def sweep_table(kernels, f, layout, arrays, work, changes):
    slots, places, tables, weights, beliefs, messages = arrays
    low, high = layout.starts[f], layout.starts[f + 1]
    if low == high:
        return
    kernels._gather.py_func(f, layout, slots, places, tables, weights, beliefs, messages, work)
    for s in range(low, high):
        new = changes[s - low]
        kernels._send.py_func(f, s, layout, slots, places, beliefs, messages, work, new)
    for s in range(low, high):
        v = layout.variables[s]
        card = layout.cards[v]
        beliefs[slots[v] : slots[v] + card] += changes[s - low, :card]


class Lanes:
    """What the compiled messages read of a structure."""

    def __init__(self, wide):
        layout = wide.structure.layout
        self.offsets, self.starts, self.strides = layout.offsets, layout.starts, layout.strides
        self.variables, self.cards = wide.axis_variable, wide.cards


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 5, 6])
def test_messages_are_those_of_the_compiled_code(seed):
    shape = Shape(variables=4, values=3, arity=3, factors=5, zeros=False)
    problem = random_problem(1000 + seed, shape)[0].observing(())
    instances = problem.given()
    assert instances.conditioning.free
    mu = 0.3 + np.arange(len(problem.constraints))
    work, wide = propagation(instances, coloured=False)
    work.sweep(wide.like.new_tensor(mu)[:, None], 4)
    expected = compiled_beliefs(instances, mu, 4)
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
