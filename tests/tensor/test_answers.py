import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.errors import MethodError
from cmpe.solvers import local
from cmpe.tensor.answers import dual, improved
from tests.problems import Shape, random_network_problem, random_problem, seeds
from tests.tensor.cases import (
    DEVICES,
    completions,
    optimum,
    random_starts,
    score,
    wide_instances,
)


def moves_of(problem, row):
    """Every assignment one move away."""
    out = [row]
    for v in problem.free:
        for value in range(problem.objective.cardinalities[v]):
            out.append(row.copy())
            out[-1][v] = value
    return np.array(out)


@pytest.mark.parametrize("constraints", [0, 1, 3])
@given(seed=seeds)
def test_the_dual_bounds_every_feasible_assignment_and_answers_are_feasible(constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints))
    instances = problem.given(evidence)
    found = dual(instances, "cpu")
    assert not np.isnan(found.bound).any()
    assert (found.bound >= optimum(instances)).all()
    assert (found.multipliers >= 0).all()
    known = (found.feasible >= 0).all(axis=1)
    assert problem.is_feasible(found.feasible[known]).all()
    observed = list(problem.evidence_variables)
    assert (found.violating[:, observed] == instances.evidence).all()


@given(seed=seeds)
def test_the_dual_of_one_constraint_is_the_compiled_one(seed):
    problem, evidence = random_problem(seed, Shape(constraints=1))
    instances = problem.given(evidence)
    here, there = dual(instances, "cpu"), lagrangian_dual(instances)
    np.testing.assert_allclose(here.bound, there.bound, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(here.infeasible, there.infeasible)
    np.testing.assert_array_equal(here.feasible < 0, there.feasible < 0)


def test_the_dual_of_several_constraints_is_the_compiled_one():
    """The seeds are fixed: where maximisers tie, rounding may choose another."""
    for seed in range(60):
        problem, evidence = random_problem(seed, Shape(constraints=3))
        here, there = dual(problem.given(evidence), "cpu"), lagrangian_dual(problem.given(evidence))
        np.testing.assert_allclose(here.bound, there.bound, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(here.infeasible, there.infeasible)


@given(seed=seeds)
def test_cutset_networks_are_bounded_leaf_by_leaf(seed):
    problem, evidence = random_network_problem(seed)
    instances = problem.given(evidence)
    here, there = dual(instances, "cpu"), lagrangian_dual(instances)
    np.testing.assert_array_equal(here.infeasible, there.infeasible)
    assert (here.bound >= optimum(instances)).all()


@given(seed=seeds)
def test_answers_are_honest(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    start = random_starts(instances, seed)
    found = improved(instances, start, device="cpu")
    observed = list(problem.evidence_variables)
    assert (found[:, observed] == instances.evidence).all()
    assert (score(problem, found) >= score(problem, start)).all()
    assert (score(problem, found) <= optimum(instances) + 1e-9).all()
    if not problem.constraints and problem.objective.is_finite:
        assert problem.is_feasible(found).all()


@given(seed=seeds)
def test_no_single_move_is_left(seed):
    problem, evidence = random_problem(seed)
    found = improved(problem.given(evidence), device="cpu")
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
    here = improved(instances, device="cpu")
    there = local.improve(instances, here, sweeps=0)
    back = improved(instances, there, device="cpu")
    reached, feasible = score(problem, there), problem.is_feasible(here)
    assert np.allclose(reached[feasible], score(problem, here)[feasible], atol=1e-8)
    assert (score(problem, back) >= reached).all()


@given(seed=seeds)
def test_rows_of_cutset_networks_stay_in_their_leaf(seed):
    problem, evidence = random_network_problem(seed)
    instances = problem.given(evidence)
    start = random_starts(instances, seed)
    found = improved(instances, start, device="cpu")
    assert (score(problem, found) >= score(problem, start)).all()
    fresh = improved(instances, device="cpu")
    for row, rows in enumerate(fresh):
        assert (completions(instances, row) == rows).all(axis=1).any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("constraints", [0, 1, 3])
def test_grids_are_repaired_and_climbed(device, constraints):
    instances = wide_instances(constraints=constraints)
    problem = instances.problem
    start = random_starts(instances, 1)
    found = improved(instances, start, device=device)
    assert problem.is_feasible(found).all()
    compiled = local.improve(instances, start, sweeps=0)
    ours, theirs = problem.objective.value(found), problem.objective.value(compiled)
    assert ours.mean() >= theirs.mean() - 2.0
    assert np.array_equal(found, improved(instances, start, device=device))


@pytest.mark.parametrize("constraints", [0, 1, 3])
def test_rows_without_a_start_do_better_than_a_random_one(constraints):
    instances = wide_instances(constraints=constraints)
    problem, start = instances.problem, random_starts(instances, 1)
    start[::2] = -1
    found = score(problem, improved(instances, start, device="cpu"))
    assert np.isfinite(found).all()
    assert found[::2].mean() > found[1::2].mean()


def test_rows_do_not_depend_on_their_batch():
    instances = wide_instances()
    start = random_starts(instances, 1)
    start[7, 3] = -1
    alone = improved(instances.problem.given(instances.evidence[7]), start[7:8], device="cpu")
    assert np.array_equal(alone[0], improved(instances, start, device="cpu")[7])


def test_repair_leaves_impossible_assignments():
    table = np.full((3, 3), -np.inf)
    table[2, 2] = 0.0
    problem = Problem(LogLinearModel((3, 3), (Factor((0, 1), table), Factor((0,), np.ones(3)))))
    found = improved(problem.given(), np.array([[2, 0]]), device="cpu")
    assert found.tolist() == [[2, 2]]


def test_nothing_free_and_no_rows():
    model = LogLinearModel((2, 1), (Factor((0,), np.array([0.0, 1.0])),))
    problem = Problem(model, (Constraint(model, -5.0),), (0,))
    assert improved(problem.given([[1], [0]]), device="cpu").tolist() == [[1, 0], [0, 0]]
    empty = Problem(model, (), (0,)).given(np.zeros((0, 1), dtype=int))
    assert improved(empty, device="cpu").shape == (0, 2)
    free = Problem(LogLinearModel((2, 2), ())).given()
    assert improved(free, device="cpu").tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "nowhere"}, "cannot be used"),
        ({"assignments": np.full((1, 2), 9)}, "a start must hold values"),
        ({"assignments": [0, 0]}, "a start must have shape"),
    ],
)
def test_errors(options, message):
    problem = Problem(LogLinearModel((2, 2), ()))
    with pytest.raises(MethodError, match=message):
        improved(problem.given(), **{"device": "cpu", **options})


def test_an_unknown_device_is_refused_for_networks_too():
    problem, evidence = random_network_problem(1)
    for call in (dual, lambda part, device: improved(part, device=device)):
        with pytest.raises(MethodError, match="device 'abacus' cannot be used"):
            call(problem.given(evidence), "abacus")
