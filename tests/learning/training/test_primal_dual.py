"""The dual network of pdl: what it learns, when, and when lambda grows."""

from __future__ import annotations

import pytest
import torch

from cmpe.learning.training.config import MEMBER_FIELDS, preset
from cmpe.learning.training.primal_dual import DualNetwork
from tests.learning.cases import quick, small_grid, trainer_for

CPU = torch.device("cpu")
PRIMAL, DUAL, ENOUGH, GROWTH, HIDDEN = 3, 2, 0.6, 4.0, 17
SETTINGS = {
    "primal_epochs": PRIMAL, "dual_epochs": DUAL, "dual_enough": ENOUGH, "dual_growth": GROWTH,
    "dual_hidden": HIDDEN,
}  # fmt: skip


def dual_network(members=2, constraints=2, **changes):
    settings = {"learning_rate": 1e-2, **SETTINGS, **changes}
    configs = [quick("pdl", seed=k, **settings) for k in range(members)]
    return DualNetwork(3, constraints, configs, CPU)


def test_the_presets_have_the_settings_of_its_authors():
    config = preset("paper", "pdl")
    assert (config.dual_hidden, config.penalty_start, config.dual_growth) == (128, 1.0, 2.0)
    assert (config.primal_epochs, config.dual_epochs, config.dual_enough) == (8, 2, 0.8)


def test_phases_alternate():
    dual = dual_network()
    found = [dual.is_dual(e) for e in range(2 * (PRIMAL + DUAL))]
    assert found == ([False] * PRIMAL + [True] * DUAL) * 2


def test_members_may_grow_differently():
    assert "dual_growth" in MEMBER_FIELDS
    dual = dual_network(2, 1)
    dual.growth = torch.tensor([2.0, 5.0])
    penalty = torch.ones((2, 3, 1))
    for _ in range(2):  # after the first period there is nothing to compare with
        dual.grow(PRIMAL + DUAL - 1, torch.ones(2), penalty)
    assert penalty[:, 0, 0].tolist() == [2.0, 5.0]


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
    dual = dual_network(dual_hidden=128)
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
    raw = dual.raw(dual.adam.parameters, x).detach()
    wanted = (raw.clamp(min=0.0) + penalty * g).clamp(min=0.0)
    torch.testing.assert_close(dual.loss(x, g, penalty).detach(), (raw - wanted).abs().sum(-1))


def test_lambda_grows_only_after_a_period_and_where_violation_stays():
    dual = dual_network(4, 1, penalty_limit=100.0)
    penalty = torch.ones((4, 3, 1))
    last = PRIMAL + DUAL - 1
    for epoch in range(last):
        dual.grow(epoch, torch.full((4,), 9.0), penalty)
    assert (penalty == 1.0).all()
    dual.grow(last, torch.tensor([1.0, 1.0, 1.0, 0.0]), penalty)  # the first: inf before
    assert (penalty == 1.0).all()
    falls = torch.tensor([ENOUGH - 0.1, ENOUGH + 0.1, 1.0, 0.0])
    dual.grow(2 * last + 1, falls, penalty)
    assert penalty[:, 0, 0].tolist() == [1.0, GROWTH, GROWTH, 1.0]
    for _ in range(20):
        dual.grow(last, torch.full((4,), 1.0), penalty)
    assert penalty.max() == 100.0


def test_primal_epochs_leave_the_dual_alone_and_the_other_way_round():
    one = small_grid()
    config = quick("pdl", epochs=PRIMAL + DUAL, learning_rate=1e-2, **SETTINGS)
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
    epochs = 5 * (PRIMAL + DUAL)
    config = quick("pdl", epochs=epochs, learning_rate=1e-3, plateau_patience=12, **SETTINGS)
    trainer = trainer_for(one.problem, one.train, config)
    dual = trainer.program.dual
    assert dual is not None
    seen = [(e.measures["loss"][0], trainer.epoch) for e in trainer.epochs()]
    primal = [loss for loss, number in seen if not dual.is_dual(number - 1)]
    assert trainer.plateau.best[0] == pytest.approx(min(primal), rel=1e-3)
