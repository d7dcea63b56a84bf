import numpy as np
import pytest

from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.tensor.dual import minimised
from cmpe.tensor.plan import torch_plan
from tests.tensor.cases import DEVICES, wide_instances


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("constraints", "tolerance"), [(0, 1e-9), (1, 1e-9), (3, 1e-6)])
def test_grids_have_the_dual_of_the_compiled_code(constraints, tolerance, device):
    instances = wide_instances(25, constraints)
    there = lagrangian_dual(instances)
    for _ in range(3):  # on a GPU the second call captures graphs, and the third replays them
        here = minimised(instances, device)
        np.testing.assert_allclose(here.bound, there.bound, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(here.multipliers, there.multipliers, rtol=0, atol=tolerance)
        np.testing.assert_array_equal(here.infeasible, there.infeasible)
        np.testing.assert_array_equal(here.feasible, there.feasible)
        np.testing.assert_array_equal(here.violating, there.violating)
    assert constraints == 0 or (there.multipliers > 0).any()


@pytest.mark.parametrize("constraints", [1, 2])
def test_blocks_of_rows_do_not_mix(constraints, monkeypatch):
    instances = wide_instances(25, constraints)
    whole = minimised(instances, "cpu")
    monkeypatch.setattr(torch_plan(instances.problem, "cpu"), "most_rows", 7)
    parts = minimised(instances, "cpu")
    np.testing.assert_allclose(parts.bound, whole.bound, atol=1e-9)
    np.testing.assert_array_equal(parts.feasible, whole.feasible)
    np.testing.assert_array_equal(parts.violating, whole.violating)


def test_tensors_serve_again_for_as_many_rows():
    instances = wide_instances(5)
    plan = torch_plan(instances.problem, "cpu")
    minimised(instances, "cpu")
    first = plan.workspace
    minimised(instances, "cpu", graph=False)
    assert plan.workspace is first
    fewer = instances.problem.given(instances.evidence[:2])
    minimised(fewer, "cpu")
    assert plan.workspace is not first


@pytest.mark.parametrize("constraints", [0, 1, 2])
def test_no_rows_are_no_bounds(constraints):
    instances = wide_instances(3, constraints)
    found = minimised(instances.problem.given(instances.evidence[:0]), "cpu")
    assert found.bound.shape == (0,)
    assert found.multipliers.shape == (0, constraints)
