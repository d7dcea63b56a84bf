import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem, solve
from cmpe.bounds import Work, bound
from cmpe.errors import MethodError
from cmpe.tensor.messages import FactorGraph, Propagation, max_product, message_bounds
from cmpe.tensor.tables import WideTables
from tests.problems import Shape, random_problem, seeds
from tests.tensor.test_moves import DEVICES, wide_instances

orders = pytest.mark.parametrize("coloured", [False, True])


def optimum(problem, evidence):
    found = solve(problem, evidence, method="exhaustive")
    return np.where(found.feasible, found.objective, -np.inf)


@orders
@given(seed=seeds)
def test_bounds_are_never_below_the_optimum(seed, coloured):
    problem, evidence = random_problem(seed)
    found = message_bounds(problem.given(evidence), 20, coloured=coloured)
    assert (found.upper >= optimum(problem, evidence)).all()
    assert not np.isnan(found.upper).any()


@given(seed=seeds)
def test_the_first_bounds_are_those_of_the_compiled_code(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    here, there = message_bounds(instances, 0), bound(instances, "messages", Work(steps=0))
    assert np.allclose(here.upper, there.upper, rtol=1e-9, atol=1e-9)
    assert np.array_equal(here.infeasible, there.infeasible)


@given(seed=seeds)
def test_multipliers_move_like_those_of_the_compiled_code(seed):
    """Without messages nothing ties that did not tie before."""
    problem, evidence = random_problem(seed, Shape(arity=1))
    instances = problem.given(evidence)
    here, there = message_bounds(instances, 15), bound(instances, "messages", Work(steps=15))
    assert np.allclose(here.upper, there.upper, rtol=1e-9, atol=1e-9)
    assert np.allclose(here.multipliers, there.multipliers, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("constraints", "tolerance"), [(0, 1e-6), (1, 0.5), (3, 0.5)])
def test_bounds_of_grids(device, constraints, tolerance):
    """A table that has just sent has several maximisers: rounding decides which t counts."""
    instances = wide_instances(8, constraints)
    here = message_bounds(instances, 100, device=device)
    there = bound(instances, "messages", Work(steps=100))
    assert np.allclose(here.upper, there.upper, rtol=0, atol=tolerance)
    coloured = message_bounds(instances, 100, device=device, coloured=True)
    assert np.abs(coloured.upper - there.upper).max() < 5.0
    if constraints == 1:
        single = message_bounds(instances, 100, device=device, dtype="float32")
        assert (single.upper >= optimum_of_wide(instances)).all()


def optimum_of_wide(instances):
    answers = solve(instances.problem, instances.evidence, method="exact")
    return np.where(answers.feasible, answers.objective, -np.inf)


def compiled_beliefs(instances, mu, sweeps):
    """The beliefs of the compiled sweep, one row of evidence in every lane."""
    from cmpe.solvers.search.kernels import starts as kernels
    from cmpe.solvers.search.kernels.lanes import LANES

    wide = WideTables(instances, "cpu", "float64")
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
    wide = WideTables(instances, "cpu", "float64")
    work = Propagation(FactorGraph(wide, 1, False), wide.row_tables(slice(None)), wide)
    work.sweep(wide.like.new_tensor(mu)[:, None], 4)
    expected = compiled_beliefs(instances, mu, 4)
    assert np.allclose(work.beliefs[:, 0].numpy(), expected, atol=1e-4)


@orders
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
    problem = Problem(h, (Constraint(t, 0.0),))
    found = max_product(problem.given(), [[0.7]], rounds=30, coloured=coloured)
    both = h + t.scale(-0.7)
    best = solve(Problem(both), method="exact").objective
    assert np.allclose(both.value(found), best)


@pytest.mark.parametrize("device", DEVICES)
def test_adapted_multipliers_find_feasible_rows(device):
    instances = wide_instances(12)
    found = max_product(instances, rounds=15, device=device)
    problem, best = instances.problem, optimum_of_wide(instances)
    feasible = problem.is_feasible(found)
    assert feasible.mean() > 0.5
    assert (problem.objective.value(found)[feasible] <= best[feasible] + 1e-9).all()
    assert (best - problem.objective.value(found))[feasible].mean() < 12.0


@given(seed=seeds)
def test_any_problem_gets_assignments(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    found = max_product(instances)
    assert (found[:, list(problem.evidence_variables)] == instances.evidence).all()
    assert ((found >= 0) & (found < problem.objective.cardinalities)).all()


def test_nothing_free_and_no_rows():
    model = LogLinearModel((2, 1), (Factor((0,), np.array([0.0, 1.0])),))
    problem = Problem(model, (Constraint(model, 0.5),), (0,))
    assert max_product(problem.given([[1], [0]])).tolist() == [[1, 0], [0, 0]]
    found = message_bounds(problem.given([[1], [0]]), 60)
    assert found.infeasible.tolist() == [True, False]
    assert found.upper[1] == pytest.approx(0.0)
    empty = problem.given(np.zeros((0, 1), dtype=int))
    assert message_bounds(empty).upper.shape == (0,)


def test_errors():
    with pytest.raises(MethodError, match="rounds must be at least 1"):
        max_product(Problem(LogLinearModel((2,), ())).given(), rounds=0)
    with pytest.raises(MethodError, match="multipliers must have shape"):
        max_product(Problem(LogLinearModel((2,), ())).given(), [[1.0]])
