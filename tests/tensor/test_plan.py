import gc
import itertools

import numpy as np
import pytest
import torch
from hypothesis import given

from cmpe import LogLinearModel, Problem
from cmpe.errors import MethodError, TooLarge
from cmpe.tensor import plan as plans
from cmpe.tensor.plan import TorchPlan, torch_plan
from tests.problems import random_problem, seeds, worked_example
from tests.tensor.cases import completions


@given(seed=seeds)
def test_the_maximum_is_that_of_all_completions_and_is_attained(seed):
    problem, evidence = random_problem(seed)
    instances, plan = problem.given(evidence), torch_plan(problem, "cpu")
    rows = plan.evidence(instances.evidence)
    for which, function in enumerate(problem.functions):
        numbers = plan.like.new_zeros((plan.total, len(instances)))
        numbers[: plan.entries] = plan.functions[which].given(rows)
        best = torch.zeros_like(numbers, dtype=torch.int64)
        found = plan.eliminate_max(numbers, best).numpy()
        answers = instances.complete(0)
        answers[:, plan.variables] = plan.decode(best).T.numpy()
        every = [function.value(completions(instances, row)) for row in range(len(instances))]
        np.testing.assert_allclose(found, [values.max() for values in every], atol=1e-9)
        np.testing.assert_allclose(function.value(answers), found, atol=1e-9)


@given(seed=seeds)
def test_carried_functions_are_those_of_the_maximiser(seed):
    problem, evidence = random_problem(seed)
    instances, plan = problem.given(evidence), torch_plan(problem, "cpu")
    rows, parts = plan.evidence(instances.evidence), len(problem.functions)
    tables = torch.stack([function.given(rows) for function in plan.functions], 1)
    numbers = plan.like.new_zeros((plan.total, parts * len(instances)))
    numbers[: plan.entries] = tables.view(plan.entries, -1)
    totals = plan.eliminate_carrying(numbers, parts).numpy()
    alone = plan.like.new_zeros((plan.total, len(instances)))
    alone[: plan.entries] = tables[:, 0]
    best = torch.zeros_like(alone, dtype=torch.int64)
    plan.eliminate_max(alone, best)
    answers = instances.complete(0)
    answers[:, plan.variables] = plan.decode(best).T.numpy()
    for function, total in zip(problem.functions, totals, strict=True):
        np.testing.assert_allclose(total, function.value(answers), atol=1e-9)


def test_memory_is_refused_before_it_is_taken():
    pairs = itertools.combinations(range(45), 2)
    clique = LogLinearModel.from_tables([2] * 45, [(pair, np.zeros((2, 2))) for pair in pairs])
    with pytest.raises(TooLarge, match=r"width 44 needs .* GiB for one row; the limit is 4 GiB"):
        TorchPlan(Problem(clique), "cpu")


def test_an_unknown_device_is_refused():
    with pytest.raises(MethodError, match="device 'abacus' cannot be used"):
        torch_plan(worked_example(), "abacus")


def test_a_plan_is_made_once_and_forgotten_with_its_problem():
    problem = worked_example()
    key = id(problem)
    assert torch_plan(problem, "cpu") is torch_plan(problem, "cpu")
    assert key in plans._PLANS
    del problem
    gc.collect()
    assert key not in plans._PLANS
