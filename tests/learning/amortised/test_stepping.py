"""Updates of the weights: rates and warmth are those of the call, losses are those before."""

from __future__ import annotations

import torch

from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.stepping import QuestionLoss, Stepper, adam_of
from tests.learning.amortised.cases import config, posed, questions


def test_a_step_lowers_the_loss_by_its_own_rate():
    settings = config()
    maker, asked = questions(posed(), 32, 7)
    network = network_of(settings, maker.tables)
    loss = QuestionLoss(network, settings, maker.tables.device)
    adam = adam_of(network, 1.0, maker.tables.device)
    stepper = Stepper(loss, adam, maker)
    before = [weights.detach().clone() for weights in network.parameters()]
    first = stepper.step(asked, 0.0, 0.1)
    for mine, old in zip(network.parameters(), before, strict=True):
        assert torch.equal(mine, old)
    losses = [float(stepper.step(asked, 1e-2, 0.1)) for _ in range(12)]
    assert losses[0] == float(first)
    assert losses[-1] < losses[0]
    assert adam.param_groups[0]["lr"] == 1e-2


def test_warmth_is_the_weight_of_the_entropy():
    settings = config()
    maker, asked = questions(posed(), 8, 7)
    network = network_of(settings, maker.tables)
    loss = QuestionLoss(network, settings, maker.tables.device)
    cold, warm, hot = (
        float(loss(maker.tables, maker, asked, torch.tensor(w)).detach()) for w in (0.0, 1.0, 2.0)
    )
    assert hot < warm < cold
    assert abs((cold - warm) - (warm - hot)) < 1e-4
