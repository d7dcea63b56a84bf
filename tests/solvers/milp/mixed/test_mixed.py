"""Mixed-integer programs of networks, distances, tables and numbers in [0, 1], by brute force."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from torch import nn

from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Deadline, Running
from cmpe.solvers.settings import PROGRAMS
from cmpe.solving import solve
from tests.problems import Shape, all_assignments, random_cutset, random_model, seeds


def relu_module(rng: np.random.Generator, inputs: int, outputs: int = 1) -> nn.Module:
    """None, one or two hidden layers; weights are thirds, so that ties and dead neurons occur."""
    sizes = [inputs, *[int(k) for k in rng.integers(1, 5, int(rng.integers(0, 3)))], outputs]
    layers: list[nn.Module] = []
    for a, b in pairwise(sizes):
        layers += [nn.Linear(a, b), nn.ReLU()]
        with torch.no_grad():
            for values in layers[-2].parameters():
                drawn = rng.integers(-6, 7, tuple(values.shape)) / 3.0
                values.copy_(torch.as_tensor(drawn, dtype=values.dtype))
    return nn.Sequential(*layers[:-1])


def relu_function(rng: np.random.Generator, cards: list[int]) -> Function:
    scope = rng.permutation(len(cards))[: int(rng.integers(1, len(cards) + 1))].tolist()
    inputs = sum(cards[v] - 1 for v in scope)
    if inputs == 0:
        return LogLinearModel(tuple(cards))
    return NeuralFunction(relu_module(rng, inputs), tuple(cards), tuple(scope))


def distance(rng: np.random.Generator, cards: list[int]) -> Function:
    binary = [v for v, k in enumerate(cards) if k == 2]
    if not binary:
        return relu_function(rng, cards)
    pairs = rng.choice(binary, (int(rng.integers(1, 4)), 2))
    weights = rng.integers(0, 4, len(pairs)) / 2.0
    return Distance(tuple(cards), tuple(map(tuple, pairs.tolist())), tuple(weights.tolist()))


def margin(rng: np.random.Generator, cards: list[int], observed: list[int]) -> Function:
    """Of networks of 1 to 3 outputs; the original, often observed, and what is changed may mix."""
    binary = [v for v, k in enumerate(cards) if k == 2]
    known = [v for v in observed if cards[v] == 2] if rng.random() < 0.5 else binary
    if not known:
        return relu_function(rng, cards)
    inputs = int(rng.integers(1, 4))
    network = ReluNetwork.of(relu_module(rng, inputs, int(rng.integers(1, 4))))
    original, changed = rng.choice(known, inputs), rng.choice(binary, inputs)
    return ClassMargin(network, tuple(original), tuple(changed), tuple(cards))


def mixed_problem(
    seed: int, cards: list[int], continuous: list[int], shape: Shape
) -> tuple[Problem, np.ndarray]:
    """Functions of every kind; limits are values of some assignment, or too low."""
    rng = np.random.default_rng(seed)
    observed = rng.permutation(len(cards))[: int(rng.integers(0, len(cards)))].tolist()

    def draw() -> Function:
        kind = rng.integers(0, 4)
        if kind == 0:
            model = random_model(rng, cards, shape)
            free = set(continuous) - set(observed)
            kept = tuple(f for f in model.factors if len(free & set(f.scope)) < 2)
            return LogLinearModel(tuple(cards), kept)
        if kind == 1:
            return distance(rng, cards)
        return relu_function(rng, cards) if kind == 2 else margin(rng, cards, observed)

    constraints = []
    for _ in range(int(rng.integers(0, 3))):
        function = draw()
        values = function.value(all_assignments(cards))
        finite = values[np.isfinite(values)]
        low = not len(finite) or rng.random() < 0.1
        constraints.append(Constraint(function, -30.0 if low else float(rng.choice(finite))))
    problem = Problem(draw(), tuple(constraints), tuple(observed), "", tuple(continuous))
    evidence = np.zeros((2 if observed else 1, len(observed)))
    for column, v in enumerate(observed):
        evidence[:, column] = rng.integers(0, cards[v], len(evidence))
        if v in continuous and rng.random() < 0.7:
            evidence[:, column] = rng.random(len(evidence))
    return problem, evidence


def check_equal(found: Solutions, best: Solutions) -> None:
    assert found.labels == best.labels
    np.testing.assert_allclose(found.objective, best.objective, atol=1e-6)
    proved = best.status == Status.OPTIMAL
    assert (found.bound[proved] >= best.objective[proved] - 1e-12).all()


@settings(max_examples=80, deadline=None)
@given(seeds)
def test_discrete_problems_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
    problem, evidence = mixed_problem(seed, cards, [], Shape())
    best = solve(problem, evidence, method="exhaustive")
    check_equal(solve(problem, evidence, method="milp"), best)


def points_of(problem: Problem, evidence: np.ndarray, steps: int) -> np.ndarray:
    """A grid, and along each of its lines where a constraint crosses its limit."""
    cards, free = problem.objective.cardinalities, problem.free
    fine = np.linspace(0.0, 1.0, steps)
    axes = [fine if v in problem.continuous else np.arange(float(cards[v])) for v in free]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), -1) if free else np.zeros((1, 0))
    given = problem.given(evidence[np.newaxis])

    def complete(values: np.ndarray) -> np.ndarray:
        repeated = np.repeat(given.evidence, len(values), axis=0)
        return type(given)(problem, repeated).complete(values)

    found = [complete(grid.reshape(np.prod(grid.shape[:-1], dtype=int), len(free)))]
    violated = problem.violations(found[0]).T - problem.tolerances[:, np.newaxis]
    for axis, variable in enumerate(free):
        if variable not in problem.continuous:
            continue
        for g in violated.reshape(-1, *grid.shape[:-1]):
            a, b = (np.moveaxis(g, axis, 0)[part] for part in (slice(-1), slice(1, None)))
            here, there = (np.moveaxis(grid, axis, 0)[p] for p in (slice(-1), slice(1, None)))
            with np.errstate(invalid="ignore", divide="ignore"):
                share = (a / (a - b))[..., np.newaxis]
            crossing = (np.isfinite(a) & np.isfinite(b) & (a * b < 0))[..., np.newaxis]
            points = np.where(crossing, here + np.where(crossing, share, 0) * (there - here), here)
            found.append(complete(np.clip(points[crossing[..., 0]], 0.0, 1.0)))
    return np.concatenate(found)


def may_tie(problem: Problem) -> bool:
    """Whether a class is free, so that a tie decides what an answer is worth."""
    margins = [f for f in problem.functions if isinstance(f, ClassMargin)]
    return any(set(f.original) & set(problem.free) for f in margins)


@settings(max_examples=80, deadline=None)
@given(seeds)
def test_continuous_variables_against_a_grid(seed):
    """An answer is what the problem says it is; no point of a fine grid is better."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 3))
    cards = [2] * count + [int(k) for k in rng.integers(1, 4, int(rng.integers(0, 3)))]
    shape = Shape(zeros=bool(rng.random() < 0.3))
    problem, evidence = mixed_problem(seed, cards, list(range(count)), shape)
    found = solve(problem, evidence, method="milp")
    free = len(set(problem.continuous) & set(problem.free))
    for row in range(len(found)):
        points = points_of(problem, evidence[row], {0: 2, 1: 401}.get(free, 41))
        feasible = problem.is_feasible(points)
        if found.status[row] == Status.INFEASIBLE:
            assert not feasible.any()
            continue
        best = problem.objective.value(points)[feasible].max(initial=-np.inf)
        assert found.bound[row] >= best - 1e-9
        if may_tie(problem):
            continue
        attained = all(f.is_finite for f in problem.functions)  # else a supremum, at a weight of 0
        if np.isfinite(best):
            assert found.feasible[row]
            assert found.objective[row] >= best - (1e-6 if attained else 1e-4)
        assert not attained or found.status[row] == Status.OPTIMAL


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_zeros_that_lift_constraints_against_a_grid(seed):
    rng = np.random.default_rng(seed)
    cards = [2, int(rng.integers(1, 4)), 2]
    scopes = [(0, 1), (2, 1), (0,), (2,)]
    h, t = ([rng.normal(size=[cards[v] for v in s]) for s in scopes] for _ in range(2))
    for table in t:
        table[rng.random(table.shape) < 0.3] = -np.inf
    objective, function = (
        LogLinearModel.from_tables(cards, zip(scopes, x, strict=True)) for x in (h, t)
    )
    limit = float(rng.choice([-3.0, -1.0, 0.0]))
    problem = Problem(objective, (Constraint(function, limit),), (), "", (0, 2))
    points = points_of(problem, np.zeros(0), 41)
    feasible = problem.is_feasible(points)
    best = objective.value(points)[feasible].max(initial=-np.inf)
    found = solve(problem, method="milp")
    assert found.bound[0] >= best - 1e-9
    assert found.feasible[0] or not feasible.any()
    assert found.objective[0] >= best - 1e-4 or not feasible.any()


def test_a_known_mixed_optimum():
    """maximise 2 c y - c - |c - 0.3| + y subject to relu(2 c - 1) + y <= 1.5.

    y = 1: c - |c - 0.3| + 1, level from c = 0.3 on, up to c = 0.75. y = 0: at most -0.3.
    """
    table = np.array([[0.0, 1.0], [-1.0, 2.0]])  # over (c, y)
    h = LogLinearModel((2, 2, 2), (Factor((0, 1), table),))
    network = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1))
    with torch.no_grad():
        for layer, weight, bias in ((0, [[2, 0], [0, 1]], [-1, 0]), (2, [[1, 1]], [0])):
            network[layer].weight.copy_(torch.tensor(weight, dtype=torch.float32))
            network[layer].bias.copy_(torch.tensor(bias, dtype=torch.float32))
    t = NeuralFunction(network, (2, 2, 2), (0, 1))
    problem = Problem(h, (Constraint(t, 1.5),), (2,), "", (0, 2))
    found = solve(problem, [[0.3]], method="milp")
    assert found.labels == ["optimal"]
    assert found.assignments[0, :2] == pytest.approx([0.75, 1.0], abs=1e-5)
    assert found.objective[0] == pytest.approx(1.75, abs=1e-5)
    near = Distance((2, 2, 2), ((0, 2),))
    nearest = Problem(near, (Constraint(h, -0.6),), (2,), "", (0, 2))
    away = solve(nearest, [[0.3]], method="milp")  # y = 0 and c >= 0.6
    assert away.labels == ["optimal"]
    assert away.objective[0] == pytest.approx(-0.3, abs=1e-5)
    far = Problem(h, (Constraint(near, -0.6),), (2,), "", (0, 2))
    assert solve(far, [[0.3]], method="milp").objective[0] == pytest.approx(2.0, abs=1e-6)
    too_far = Problem(h, (Constraint(near, -0.8),), (2,), "", (0, 2))
    assert solve(too_far, [[0.3]], method="milp").labels == ["infeasible"]


def test_zeros_with_weights_between():
    """-inf in h forbids any weight; in t any weight above 0 satisfies."""
    one = LogLinearModel((2,), (Factor((0,), [0.0, 1.0]),))
    forbids = LogLinearModel((2,), (Factor((0,), [0.0, -np.inf]),))
    found = solve(Problem(one + forbids, (), (), "", (0,)), method="milp")
    assert found.assignments[0, 0] == 0.0
    assert found.labels == ["optimal"]
    lifts = LogLinearModel((2,), (Factor((0,), [5.0, -np.inf]),))
    down = one.scale(-1.0)  # best at 0, where the constraint is broken
    found = solve(Problem(down, (Constraint(lifts, 1.0),), (), "", (0,)), method="milp")
    assert found.feasible.all()
    assert found.bound[0] >= 0.0
    assert found.objective[0] == pytest.approx(0.0, abs=1e-5)


def wide_problem() -> tuple[Problem, np.ndarray]:
    rng = np.random.default_rng(5)
    cards = [2] * (PROGRAMS.small + 4)
    model = random_model(rng, cards, Shape(arity=2, factors=30, zeros=False))
    t = NeuralFunction(relu_module(rng, len(cards)), tuple(cards))
    q = float(np.median(t.value(rng.integers(0, 2, (100, len(cards))))))
    return Problem(model, (Constraint(t, q),), (0,)), np.array([[0], [1]])


def test_a_start_changes_no_answer():
    problem, evidence = wide_problem()
    best = solve(problem, evidence, method="exhaustive")
    found = solve(problem, evidence, method="auto")
    check_equal(found, best)
    known = Running(start=best.assignments)
    again = pickle.loads(pickle.dumps(problem))  # what a worker process is given
    check_equal(solve(again, evidence, method="milp", running=known), best)


def test_a_time_limit_leaves_an_incumbent_and_a_bound():
    problem, evidence = wide_problem()
    best = solve(problem, evidence, method="exhaustive")
    how = Running(start=best.assignments)
    found = solve(problem, evidence, method="milp", time_limit=1e-3, running=how)
    np.testing.assert_allclose(found.objective, best.objective)
    assert (found.bound >= best.objective).all()


def test_building_the_program_counts(monkeypatch):
    """What was found before is the answer where the program is not ready in time."""
    monkeypatch.setattr(Deadline, "expired", lambda _: True)
    problem, evidence = wide_problem()
    found = solve(problem, evidence, method="milp", time_limit=1.0)
    assert set(found.labels) <= {"feasible", "unknown"}
    assert found.bound.tolist() == [np.inf, np.inf]


def test_another_back_end():
    pytest.importorskip("pyscipopt")
    for seed in range(6):
        rng = np.random.default_rng(seed)
        cards = [int(k) for k in rng.integers(1, 4, 4)]
        problem, evidence = mixed_problem(seed, cards, [], Shape())
        best = solve(problem, evidence, method="exhaustive")
        check_equal(solve(problem, evidence, method="milp:scip"), best)


def test_bounds_of_neurons_are_wider_than_a_back_end_can_miss():
    """A program whose best point HiGHS lost where a neuron's bound was 1e-11 above its value."""
    problem, evidence = mixed_problem(146, [2, 2, 2, 2, 3], [0, 1], Shape(zeros=False))
    found = solve(problem, evidence, method="milp")
    assert found.labels == ["optimal", "optimal"]
    assert found.objective[0] == pytest.approx(-0.0342712609, abs=1e-6)


def test_a_cutset_network_beside_a_neural_one():
    for seed in range(8):
        objective = random_cutset(seed)
        cards = list(objective.cardinalities)
        t = relu_function(np.random.default_rng(seed), cards)
        q = float(np.median(t.value(all_assignments(cards))))
        if np.isfinite(q):
            problem = Problem(objective, (Constraint(t, q),))
            best = solve(problem, method="exhaustive")
            check_equal(solve(problem, method="milp"), best)
