import numpy as np
import pytest
import torch
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem, solve
from cmpe.errors import MethodError
from cmpe.generation import grid
from cmpe.solvers import local as local_search
from cmpe.tensor.moves import improve
from tests.problems import Shape, random_problem, seeds

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
        ],
    ),
]


def random_starts(instances, seed):
    cards = instances.problem.objective.cardinalities
    draws = np.random.default_rng(seed).integers(0, cards, (len(instances), len(cards)))
    return instances.complete(draws[:, list(instances.problem.free)])


def score(problem, rows):
    """h where feasible, else -inf."""
    return np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)


def moves_of(problem, row):
    """Every assignment one move away."""
    out = [row]
    for v in problem.free:
        for value in range(problem.objective.cardinalities[v]):
            out.append(row.copy())
            out[-1][v] = value
    return np.array(out)


@given(seed=seeds)
def test_answers_are_honest(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    start = random_starts(instances, seed)
    found = improve(instances, start)
    best = solve(problem, evidence, method="exhaustive").objective
    observed = list(problem.evidence_variables)
    assert (found[:, observed] == instances.evidence).all()
    assert (score(problem, found) >= score(problem, start)).all()
    assert (score(problem, found) <= np.nan_to_num(best, nan=-np.inf) + 1e-9).all()
    if not problem.constraints and problem.objective.is_finite:
        assert problem.is_feasible(found).all()


@given(seed=seeds)
def test_no_single_move_is_left(seed):
    problem, evidence = random_problem(seed)
    found = improve(problem.given(evidence))
    for row, value in zip(found, score(problem, found), strict=True):
        if value > -np.inf:
            near = moves_of(problem, row)
            inside = (problem.violations(near) <= 0.0).all(axis=1)
            assert (score(problem, near)[inside] <= value + 1e-8).all()


@given(seed=seeds)
def test_the_compiled_climb_ends_where_this_one_does(seed):
    """Neither finds a single move where the other has stopped."""
    problem, evidence = random_problem(seed, Shape(zeros=False))
    instances = problem.given(evidence)
    here = improve(instances)
    there = local_search.improve(instances, here, pair_moves=False)
    back = improve(instances, there)
    reached = score(problem, there)
    feasible = problem.is_feasible(here)
    assert np.allclose(reached[feasible], score(problem, here)[feasible], atol=1e-8)
    assert np.array_equal(score(problem, back) >= reached, np.ones(len(here), dtype=bool))


def wide_instances(rows=40, constraints=1):
    model = grid(8, 8, seed=3)
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2, (200, 64))
    limited = []
    for j in range(constraints):
        other = model.perturb(0.3, 10 + j)
        limited.append(Constraint(other, float(np.quantile(other.value(points), 0.3))))
    problem = Problem(model, tuple(limited), tuple(range(0, 64, 7)))
    return problem.given(rng.integers(0, 2, (rows, len(problem.evidence_variables))))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("constraints", [0, 1, 3])
def test_grids_are_repaired_and_climbed(device, constraints):
    instances = wide_instances(constraints=constraints)
    problem = instances.problem
    start = random_starts(instances, 1)
    found = improve(instances, start, device=device)
    assert problem.is_feasible(found).all()
    compiled = local_search.improve(instances, start, pair_moves=False)
    ours, theirs = problem.objective.value(found), problem.objective.value(compiled)
    assert ours.mean() >= theirs.mean() - 2.0
    assert np.array_equal(found, improve(instances, start, device=device))


def test_rows_do_not_depend_on_their_batch():
    instances = wide_instances()
    start = random_starts(instances, 1)
    alone = improve(instances.problem.given(instances.evidence[7]), start[7:8])
    assert np.array_equal(alone[0], improve(instances, start)[7])


def test_single_precision_is_judged_in_double():
    instances = wide_instances(constraints=2)
    start = improve(instances)
    found = improve(instances, start, dtype="float32")
    assert (score(instances.problem, found) >= score(instances.problem, start)).all()


def test_repair_leaves_impossible_assignments():
    table = np.full((3, 3), -np.inf)
    table[2, 2] = 0.0
    problem = Problem(LogLinearModel((3, 3), (Factor((0, 1), table), Factor((0,), np.ones(3)))))
    found = improve(problem.given(), np.array([[2, 0]]))
    assert found.tolist() == [[2, 2]]


def test_nothing_free_and_no_rows():
    model = LogLinearModel((2, 1), (Factor((0,), np.array([0.0, 1.0])),))
    problem = Problem(model, (Constraint(model, -5.0),), (0,))
    assert improve(problem.given([[1], [0]])).tolist() == [[1, 0], [0, 0]]
    empty = Problem(model, (), (0,)).given(np.zeros((0, 1), dtype=int))
    assert improve(empty).shape == (0, 2)
    free = Problem(LogLinearModel((2, 2), ())).given()
    assert improve(free).tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nowhere"}, "cannot be used"),
        ({"dtype": "float16"}, "dtype must be one of"),
        ({"assignments": np.full((1, 2), 9)}, "a start must hold values"),
        ({"assignments": [0, 0]}, "a start must have shape"),
    ],
)
def test_errors(options, message):
    problem = Problem(LogLinearModel((2, 2), ()))
    with pytest.raises(MethodError, match=message):
        improve(problem.given(), **options)
