import numpy as np
import torch
from hypothesis import given

from cmpe.core.buckets import AXIS_COUNT, SIZE
from cmpe.tensor.device import scalar_on
from cmpe.tensor.layout import Bags, EvidenceTables, Layout, satisfied
from cmpe.tensor.plan import device_evidence
from tests.problems import random_problem, seeds

CPU = torch.device("cpu")
ROWS = torch.tensor([[1.0, -1.0], [2.0, -2.0], [4.0, -4.0]], dtype=torch.float64)


def test_bags_add_and_maximise_ragged_selections():
    bags = Bags.of([np.array([0, 1]), np.array([2])], np.array([2, 1]), CPU)
    assert bags.sum(ROWS).tolist() == [[3.0, -3.0], [4.0, -4.0]]
    assert bags.max(ROWS).tolist() == [[2.0, -1.0], [4.0, -4.0]]
    weighted = bags.weighted(np.array([10, 1, 1]))
    assert weighted.sum(ROWS).tolist() == [[12.0, -12.0], [4.0, -4.0]]


def test_empty_bags_are_zero():
    assert Bags.of([], np.array([0, 0]), CPU).sum(ROWS).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert Bags.of([], np.zeros(0, dtype=int), CPU).max(ROWS).shape == (0, 2)


def test_a_potential_of_zero_satisfies_whatever_else_is_chosen():
    tables = Bags.of([np.arange(3)], np.array([2, 1]), CPU)
    t = torch.tensor([[-torch.inf], [3.0], [5.0]], dtype=torch.float64)
    filled = satisfied(tables, t, 4.0)
    assert filled[1:].tolist() == t[1:].tolist()
    assert filled[0].item() + 5.0 <= 4.0


@given(seed=seeds)
def test_evidence_leaves_the_tables_that_the_instances_have(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    entries = len(instances.conditioning.layout.values)
    rows = device_evidence(instances.evidence, CPU)
    for which, gather in enumerate(instances.conditioning.gathers):
        found = EvidenceTables(gather, entries, scalar_on("cpu")).given(rows)
        np.testing.assert_allclose(found.numpy().T, instances.tables(which), atol=1e-12)


@given(seed=seeds)
def test_messages_and_choices_lie_side_by_side(seed):
    problem, _ = random_problem(seed)
    plan = problem.compiled_plan
    layout = Layout(plan)
    groups = [layout.group(members, CPU) for members in layout.groups]
    rows = [row for group in groups for row in range(group.rows.start, group.rows.stop)]
    assert rows == list(range(plan.entries, plan.entries + int(plan.buckets[:, SIZE].sum())))
    choices = [c for group in groups for c in range(group.choices.start, group.choices.stop)]
    assert choices == list(range(len(plan.buckets)))
    roots = int((plan.buckets[:, AXIS_COUNT] == 0).sum())
    assert layout.roots == plan.total - roots
