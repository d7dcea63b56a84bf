import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.bounds.base import Work
from cmpe.bounds.messages import Messages
from cmpe.tensor.messages import FactorGraph, message_bounds
from cmpe.tensor.tables import WideTables
from tests.problems import Shape, random_problem, seeds
from tests.tensor.cases import DEVICES, optimum, wide_instances


def compiled(instances, steps):
    return Messages().upper_bound(instances, Work(steps=steps))


def here(instances, steps, device="cpu"):
    return message_bounds(instances, Work(steps=steps), device)


@given(seed=seeds)
def test_bounds_are_never_below_the_optimum(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    found = here(instances, 20)
    assert (found.upper >= optimum(instances)).all()
    assert not np.isnan(found.upper).any()


@given(seed=seeds)
def test_the_first_bounds_are_those_of_the_compiled_code(seed):
    problem, evidence = random_problem(seed)
    ours, theirs = (call(problem.given(evidence), 0) for call in (here, compiled))
    assert np.allclose(ours.upper, theirs.upper, rtol=1e-9, atol=1e-9)
    assert np.array_equal(ours.infeasible, theirs.infeasible)


@given(seed=seeds)
def test_multipliers_move_like_those_of_the_compiled_code(seed):
    """Without messages nothing ties that did not tie before."""
    problem, evidence = random_problem(seed, Shape(arity=1))
    ours, theirs = (call(problem.given(evidence), 15) for call in (here, compiled))
    assert np.allclose(ours.upper, theirs.upper, rtol=1e-9, atol=1e-9)
    assert np.allclose(ours.multipliers, theirs.multipliers, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("constraints", "tolerance"), [(0, 1e-6), (1, 0.5), (3, 0.5)])
def test_bounds_of_grids(device, constraints, tolerance):
    """A table that has just sent has several maximisers: rounding decides which t counts."""
    instances = wide_instances(8, constraints)
    ours, theirs = here(instances, 100, device), compiled(instances, 100)
    assert np.allclose(ours.upper, theirs.upper, rtol=0, atol=tolerance)
    assert (ours.steps == 100).all()


def test_no_table_of_a_level_shares_a_variable_with_another():
    wide = WideTables(wide_instances(1), "cpu")
    plain, coloured = (FactorGraph(wide, 2, coloured=c) for c in (False, True))
    assert plain.rows == coloured.rows
    assert len(coloured.levels) < len(plain.levels)
    for graph in (plain, coloured):
        for level in graph.levels:
            assert len(set(level.slots.tolist())) == len(level.slots)


def test_a_time_limit_stops_between_steps():
    found = message_bounds(wide_instances(2), Work(time_limit=0.0), "cpu")
    assert found.steps.tolist() == [0, 0]
    assert np.isfinite(found.upper).all()


def test_nothing_free_and_no_rows():
    model = LogLinearModel((2, 1), (Factor((0,), np.array([0.0, 1.0])),))
    problem = Problem(model, (Constraint(model, 0.5),), (0,))
    found = here(problem.given([[1], [0]]), 60)
    assert found.infeasible.tolist() == [True, False]
    assert found.upper[1] == pytest.approx(0.0)
    assert here(problem.given(np.zeros((0, 1), dtype=int)), 10).upper.shape == (0,)
