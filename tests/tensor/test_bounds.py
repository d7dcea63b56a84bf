"""The bounds of a device against the compiled ones, by the tolerances they state."""

import numpy as np
import pytest

from cmpe.bounding import BOUNDS, ON_DEVICE, Setting
from cmpe.bounds.base import Work
from cmpe.bounds.splitting import Cut, Splitting
from cmpe.tensor import plan as plans
from cmpe.tensor.bounds import DeviceLagrangian, DeviceSplitting
from tests.problems import random_network_problem
from tests.tensor.cases import DEVICES, optimum, wide_instances

TOLERANCES = {  # by bound and number of constraints
    "lagrangian": {0: 1e-9, 1: 1e-9, 3: 1e-6},
    "splitting": {0: 1e-6, 1: 1e-6, 3: 1e-6},
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("constraints", [0, 1, 3])
@pytest.mark.parametrize("method", ON_DEVICE)
def test_a_device_bounds_as_the_compiled_code_does(method, constraints, device):
    instances, row = wide_instances(8, constraints), BOUNDS[method]
    work = Work(steps=65)
    there = row.make(Setting(work)).upper_bound(instances, work)
    here = row.on_device(Setting(work, device=device)).upper_bound(instances, work)
    tolerance = TOLERANCES[method][constraints]
    np.testing.assert_allclose(here.upper, there.upper, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(here.infeasible, there.infeasible)
    assert (here.upper >= optimum(instances, "exact")).all()


def test_a_fitted_split_is_used():
    instances, work = wide_instances(4), Work(steps=30)
    chosen = Splitting(Cut("leaves", 2, 0).relaxation(instances.conditioning))
    here = DeviceSplitting("cpu", chosen).upper_bound(instances, work)
    there = chosen.upper_bound(instances, work)
    np.testing.assert_allclose(here.upper, there.upper, atol=1e-6)


def test_what_is_not_split_is_eliminated_where_it_fits(monkeypatch):
    instances, work = wide_instances(3), Work(steps=100)
    whole = Splitting(Cut("leaves", 20, 0).relaxation(instances.conditioning))
    assert whole.relaxation.copies == 0
    exact = DeviceLagrangian("cpu").upper_bound(instances, work).upper
    np.testing.assert_array_equal(
        DeviceSplitting("cpu", whole).upper_bound(instances, work).upper, exact
    )
    plans._PLANS.clear()
    monkeypatch.setattr(plans, "MEMORY_LIMIT", 1)
    descended = DeviceSplitting("cpu", whole).upper_bound(instances, work).upper
    assert (descended >= exact - 1e-9).all()
    np.testing.assert_allclose(descended, exact, atol=0.5)


def test_cutset_networks_are_bounded():
    problem, evidence = random_network_problem(1)
    instances = problem.given(evidence)
    found = DeviceLagrangian("cpu").upper_bound(instances, Work())
    assert (found.upper >= optimum(instances)).all()
