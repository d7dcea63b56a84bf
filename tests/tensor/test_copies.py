import numpy as np
import torch
from hypothesis import given

from cmpe.bounds.splitting import Cut
from cmpe.tensor.copies import Copies, SplitPlan
from cmpe.tensor.tables import WideTables
from tests.problems import Shape, random_problem, seeds
from tests.tensor.cases import wide_instances


def split(instances, cut):
    wide = WideTables(instances, "cpu")
    relaxed = cut.relaxation(instances.conditioning).compiled
    return wide, SplitPlan(relaxed, wide), Copies(relaxed, wide)


@given(seed=seeds)
def test_a_maximiser_decodes_to_its_own_maximum(seed):
    problem, evidence = random_problem(seed, Shape(arity=3, zeros=False))
    instances = problem.given(evidence)
    wide, plan, copies = split(instances, Cut("leaves", 1, 0))
    numbers = wide.like.new_zeros((plan.relaxed.total, len(instances)))
    tables = copies.share_out(wide.row_tables(slice(None)).h)
    numbers[: len(tables)] = tables
    messages = (plan.relaxed.total - plan.relaxed.numbers, len(instances))
    best = torch.zeros(messages, dtype=torch.int16)
    total = plan.sweep(numbers, best)
    places, _ = plan.decode(best)
    reached = tables[0] + tables.gather(0, places).sum(0)
    np.testing.assert_allclose(reached.numpy(), total.numpy(), atol=1e-9)


def test_shares_of_copies_add_up_and_agreement_has_no_gradient():
    instances = wide_instances(3)
    wide, plan, copies = split(instances, Cut("layers", 3, 0))
    h = wide.row_tables(slice(None)).h
    own = copies.share_out(h)[len(h) :]
    groups = plan.relaxed.groups
    single = groups[:, 3] >= 0
    expected = sum(h[o : o + k].sum() for o, k in groups[single][:, [3, 2]].tolist())
    assert torch.isclose(own.sum(), expected)
    first = wide.index(plan.relaxed.copy_entry - plan.relaxed.entries)[:, None].expand(-1, 3)
    gradient, norm = copies.disagreement(first)  # every copy takes its first value
    assert torch.equal(gradient, torch.zeros_like(gradient))
    assert torch.equal(norm, torch.zeros(3, dtype=torch.float64))
    moved = first.clone()
    moved[0] += 1
    gradient, norm = copies.disagreement(moved)
    np.testing.assert_allclose((gradient**2).sum(0), norm)
    assert torch.isclose(gradient.sum(), torch.tensor(0.0, dtype=torch.float64))


def test_multipliers_that_do_not_cancel_are_counted():
    instances = wide_instances(2)
    wide, _, copies = split(instances, Cut("layers", 3, 0))
    shift = wide.like.new_zeros((copies.entries, 2))
    assert copies.drift(shift).tolist() == [0.0, 0.0]
    shift[0, 1] = -0.25
    assert copies.drift(shift).tolist() == [0.0, 0.25]
