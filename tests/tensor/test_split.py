import numpy as np
import pytest
from hypothesis import given

from cmpe import Constraint, Factor, LogLinearModel, Problem
from cmpe.bounds.base import Work
from cmpe.bounds.descent import minimise
from cmpe.bounds.splitting import Cut, by_size
from cmpe.errors import MethodError
from cmpe.tensor.split import split_bounds
from tests.problems import Shape, random_problem, seeds
from tests.tensor.cases import DEVICES, optimum, wide_instances


def split_bounds_by_size(instances, steps, device="cpu", **options):
    work = Work(steps=steps)
    relaxation = by_size(instances.conditioning, work)
    return split_bounds(instances, relaxation, work, device, **options)


CUTS = [Cut("layers", 3, 0), Cut("leaves", 2, 0)]


def split(seed, shape=None):
    """Instances, and a relaxation that copies whatever exceeds width 1."""
    problem, evidence = random_problem(seed, shape or Shape(arity=3))
    instances = problem.given(evidence)
    return instances, Cut("leaves", 1, 0).relaxation(instances.conditioning)


@given(seed=seeds)
def test_bounds_are_never_below_the_optimum(seed):
    instances, relaxation = split(seed)
    best = optimum(instances)
    for steps in (0, 1, 25):
        found = split_bounds(instances, relaxation, Work(steps=steps), "cpu")
        assert not np.isnan(found.upper).any()
        assert (found.upper >= best).all()


def test_bounds_are_those_of_the_compiled_code():
    """Ties and zeros included; the seeds are fixed because rounding may break a tie elsewhere."""
    compared = 0
    for seed in range(80):
        shape = Shape(variables=6, factors=9, arity=4, values=3, constraints=3)
        instances, relaxation = split(seed, shape)
        if not relaxation.copies:  # the compiled code takes the exact dual
            continue
        here = split_bounds(instances, relaxation, Work(steps=30), "cpu")
        there = minimise(instances, relaxation, Work(steps=30))
        compared += len(here.upper)
        assert np.allclose(here.upper, there.upper, rtol=0, atol=1e-6)
        assert np.array_equal(here.infeasible, there.infeasible)
    assert compared > 10


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut.kind)
@pytest.mark.parametrize("constraints", [0, 1, 3])
def test_grids_have_the_bounds_of_the_compiled_code(constraints, cut, device):
    instances = wide_instances(8, constraints)
    relaxation = cut.relaxation(instances.conditioning)
    here = split_bounds(instances, relaxation, Work(steps=65), device)
    there = minimise(instances, relaxation, Work(steps=65))
    assert relaxation.copies > 0
    assert np.allclose(here.upper, there.upper, rtol=0, atol=1e-6)
    assert np.allclose(here.multipliers, there.multipliers, rtol=0, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_more_steps_are_tighter(device):
    instances = wide_instances(8)
    relaxation = CUTS[0].relaxation(instances.conditioning)
    best = optimum(instances, "exact")
    uppers = [
        split_bounds(instances, relaxation, Work(steps=steps), device).upper
        for steps in (1, 20, 150)
    ]
    assert (np.diff(uppers, axis=0) <= 0.0).all()
    assert (uppers[-1] >= best).all()
    assert (uppers[-1] - best).mean() < 0.2 * (uppers[0] - best).mean()


@pytest.mark.parametrize("device", DEVICES[1:])
def test_graphs_do_the_same(device):
    instances = wide_instances(8)
    plain, graph = (split_bounds_by_size(instances, 40, device, graph=g) for g in (False, True))
    assert np.allclose(plain.upper, graph.upper, rtol=0, atol=1e-6)


def test_the_split_by_size_and_no_rows():
    instances = wide_instances(3)
    assert (split_bounds_by_size(instances, 300).upper >= optimum(instances, "exact")).all()
    none = instances.problem.given(instances.evidence[:0])
    assert split_bounds_by_size(none, 3).upper.shape == (0,)


def test_a_time_limit_stops_between_steps():
    instances = wide_instances(2)
    relaxation = CUTS[0].relaxation(instances.conditioning)
    found = split_bounds(instances, relaxation, Work(time_limit=0.0), "cpu")
    assert found.steps.tolist() == [0, 0]
    assert (found.upper >= optimum(instances, "exact")).all()


def test_infeasible_rows_and_nothing_free():
    model = LogLinearModel((2, 1), (Factor((0,), np.array([0.0, 1.0])),))
    problem = Problem(model, (Constraint(model, 0.5),), (0,))
    found = split_bounds_by_size(problem.given([[1], [0]]), 300)
    assert found.infeasible.tolist() == [True, False]
    assert found.upper[1] == pytest.approx(0.0)
    never = LogLinearModel((2, 2), (Factor((0, 1), np.full((2, 2), -np.inf)),))
    assert split_bounds_by_size(Problem(never).given(), 300).infeasible.all()


def test_a_foreign_relaxation_is_refused():
    relaxation = CUTS[0].relaxation(wide_instances(1).conditioning)
    with pytest.raises(MethodError, match="structure of these instances"):
        split_bounds(Problem(LogLinearModel((2, 2), ())).given(), relaxation, Work(), "cpu")
