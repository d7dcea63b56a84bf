"""The dual network of pdl: what it learns, when, and when lambda grows."""

from __future__ import annotations

import pytest
import torch

from cmpe.learning.training.primal_dual import DUAL, ENOUGH, GROWTH, HIDDEN, PRIMAL, DualNetwork
from tests.learning.cases import quick, small_grid, trainer_for

CPU = torch.device("cpu")


def dual_network(members=2, constraints=2):
    seeds = list(range(members))
    return DualNetwork(3, constraints, seeds, [1e-2] * members, CPU)


def test_phases_alternate():
    found = [DualNetwork.is_dual(e) for e in range(2 * (PRIMAL + DUAL))]
    assert found == ([False] * PRIMAL + [True] * DUAL) * 2


def test_mu_is_never_negative_and_has_no_gradient():
    dual = dual_network()
    x = torch.randn((2, 50, 3), generator=torch.Generator().manual_seed(0))
    prices = dual.prices(x)
    assert prices.shape == (2, 50, 2)
    assert (prices >= 0).all()
    assert 0 < (prices == 0).sum() < prices.numel()
    assert not prices.requires_grad
    assert dual.network.sizes == (3, HIDDEN, 2)


def test_it_learns_the_update_of_the_multiplier():
    """max(0, mu_k + lambda g), with mu_k as it was when the phase began."""
    dual = dual_network()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn((2, 20, 3), generator=generator)
    g = torch.randn((2, 20, 2), generator=generator)
    penalty = torch.full((2, 20, 2), 3.0)
    dual.begin(PRIMAL)
    wanted = (dual.prices(x) + 3.0 * g).clamp(min=0.0)
    first = dual.loss(x, g, penalty).sum().item()
    for _ in range(400):
        dual.adam.differentiate(dual.loss(x, g, penalty), torch.ones((2, 20)))
        dual.adam.step()
    assert dual.loss(x, g, penalty).sum().item() < 0.2 * first
    assert (dual.prices(x) - wanted).abs().mean() < 0.3
    frozen = dual.frozen.clone()
    dual.begin(PRIMAL + 1)  # the same phase: mu_k stays
    assert torch.equal(dual.frozen, frozen)
    dual.begin(2 * PRIMAL + DUAL)
    assert torch.equal(dual.frozen, dual.adam.flat)


def test_the_loss_is_the_distance_to_the_update():
    dual = dual_network()
    x, g = torch.randn((2, 4, 3)), torch.randn((2, 4, 2))
    penalty = torch.rand((2, 4, 2))
    raw = dual._raw(dual.adam.parameters, x).detach()
    wanted = (raw.clamp(min=0.0) + penalty * g).clamp(min=0.0)
    torch.testing.assert_close(dual.loss(x, g, penalty).detach(), (raw - wanted).abs().sum(-1))


def test_lambda_grows_only_after_a_period_and_where_violation_stays():
    dual = dual_network(4, 1)
    penalty = torch.ones((4, 3, 1))
    last = PRIMAL + DUAL - 1
    for epoch in range(last):
        dual.grow(epoch, torch.full((4,), 9.0), penalty, 100.0)
    assert (penalty == 1.0).all()
    dual.grow(last, torch.tensor([1.0, 1.0, 1.0, 0.0]), penalty, 100.0)  # the first: inf before
    assert (penalty == 1.0).all()
    falls = torch.tensor([ENOUGH - 0.1, ENOUGH + 0.1, 1.0, 0.0])
    dual.grow(2 * last + 1, falls, penalty, 100.0)
    assert penalty[:, 0, 0].tolist() == [1.0, GROWTH, GROWTH, 1.0]
    for _ in range(20):
        dual.grow(last, torch.full((4,), 1.0), penalty, 5.0)
    assert penalty.max() == 5.0


def test_primal_epochs_leave_the_dual_alone_and_the_other_way_round():
    one = small_grid()
    config = quick("pdl", epochs=PRIMAL + DUAL, learning_rate=1e-2)
    trainer = trainer_for(one.problem, one.train, config)
    dual = trainer.program.dual
    assert dual is not None
    primal_moved, dual_moved = [], []
    before = trainer.program.adam.flat.clone(), dual.adam.flat.clone()
    for _ in trainer.epochs():
        after = trainer.program.adam.flat.clone(), dual.adam.flat.clone()
        primal_moved.append(not torch.equal(before[0], after[0]))
        dual_moved.append(not torch.equal(before[1], after[1]))
        before = after
    assert primal_moved == [True] * PRIMAL + [False] * DUAL
    assert dual_moved == [False] * PRIMAL + [True] * DUAL


def test_the_learning_rate_follows_the_primal_loss_only():
    """The dual's loss is of another size: it must not become the best that primal epochs meet."""
    one = small_grid()
    config = quick("pdl", epochs=5 * (PRIMAL + DUAL), learning_rate=1e-3, plateau_patience=12)
    trainer = trainer_for(one.problem, one.train, config)
    seen = [(e.measures["loss"][0], trainer.epoch) for e in trainer.epochs()]
    primal = [loss for loss, number in seen if not DualNetwork.is_dual(number - 1)]
    assert trainer._plateau.best[0] == pytest.approx(min(primal), rel=1e-3)
