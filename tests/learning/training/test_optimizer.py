"""Adam and Plateau against torch's own, for members with different rates."""

from __future__ import annotations

import pytest
import torch

from cmpe.learning.training.optimizer import Adam, Plateau

RATES = [1e-3, 3e-2, 0.5]
CPU = torch.device("cpu")


def members(count=3):
    generator = torch.Generator().manual_seed(5)
    return [
        {name: torch.randn(shape, generator=generator) for name, shape in
         (("weight", (4, 3)), ("bias", (3,)), ("scale", ()))}
        for _ in range(count)
    ]  # fmt: skip


def slope(parameters, gradients):
    """A loss whose gradient is `gradients`, wherever the parameters are."""
    return sum((parameters[name] * gradients[name]).sum() for name in parameters)


def test_every_member_moves_as_under_torchs_adam():
    starts = members()
    ours = Adam(starts, RATES, CPU)
    theirs = [{k: v.clone().requires_grad_() for k, v in m.items()} for m in starts]
    optimizers = [
        torch.optim.Adam(m.values(), lr=rate) for m, rate in zip(theirs, RATES, strict=True)
    ]
    generator = torch.Generator().manual_seed(6)
    for step in range(60):
        size = 10.0 ** (step % 7 - 4)  # very different sizes, one of them next to epsilon
        gradients = {
            name: size * torch.randn(p.shape, generator=generator)
            for name, p in ours.parameters.items()
        }
        descend(ours, gradients)
        for i, (own, optimizer) in enumerate(zip(theirs, optimizers, strict=True)):
            optimizer.zero_grad()
            slope(own, {k: v[i] for k, v in gradients.items()}).backward()
            optimizer.step()
        for i, own in enumerate(theirs):
            for name, value in ours.member(i).items():
                torch.testing.assert_close(value[0], own[name].detach(), rtol=1e-5, atol=2e-5)
    assert ((ours.flat - Adam(starts, RATES, CPU).flat).abs().amax(1) > 5 * ours.rates[:, 0]).all()


def descend(adam, gradients):
    members = len(adam.flat)
    losses = sum((adam.parameters[k] * g).reshape(members, -1).sum(1) for k, g in gradients.items())
    adam.differentiate(losses.unsqueeze(-1), torch.ones((members, 1)))
    adam.step()


def test_the_gradient_is_the_sum_of_shares_times_losses():
    adam = Adam(members(2), [0.1, 0.1], CPU)
    x = torch.randn((2, 5, 4), generator=torch.Generator().manual_seed(1))
    shares = torch.tensor([[0.5, 0.5, 0.0, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4, 0.0]])

    def losses(p):
        out = torch.baddbmm(p["bias"].unsqueeze(1), x, p["weight"]).tanh().sum(-1)
        return out * p["scale"].unsqueeze(-1)

    for _ in range(2):  # nothing of the first call is left in the second
        adam.differentiate(losses(adam.parameters), shares)
    twin = {k: v.detach().clone().requires_grad_() for k, v in adam.parameters.items()}
    (losses(twin) * shares).sum().backward()
    wanted = torch.cat([v.grad.reshape(2, -1) for v in twin.values()], 1)
    torch.testing.assert_close(adam.gradient, wanted)


def test_parameters_that_a_loss_does_not_use_stay():
    adam = Adam(members(1), [0.1], CPU)
    before = adam.flat.clone()
    adam.differentiate(adam.parameters["bias"].square().sum(-1, keepdim=True), torch.ones((1, 1)))
    adam.step()
    moved = (adam.flat != before)[0]
    assert moved.tolist() == [False] * 12 + [True] * 3 + [False]


def test_parameters_are_views_of_one_row():
    adam = Adam(members(2), [0.1, 0.2], CPU)
    with torch.no_grad():
        adam.flat[1] = 7.0
    assert all((p[1] == 7.0).all() and not (p[0] == 7.0).any() for p in adam.parameters.values())
    assert adam.flat.shape == (2, 16)


def losses_by_epoch(epochs=80):
    """Falling, flat, noisy, and rising losses: (epochs, 4)."""
    generator = torch.Generator().manual_seed(7)
    steps = torch.arange(epochs, dtype=torch.float32)
    noise = torch.rand(epochs, generator=generator)
    flat = torch.full((epochs,), 5.0) - 1e-6 * steps  # falls, but by less than the threshold
    return torch.stack([100.0 - steps, flat, 10.0 + noise - 0.02 * steps, 1.0 + steps], dim=1)


@pytest.mark.parametrize("patience", [0, 3, 10])
def test_rates_fall_as_under_torchs_plateau(patience):
    factors = [0.9, 0.5, 0.9, 1.0]
    start = [1e-3, 1e-1, 1.0, 0.2]
    rates = torch.tensor(start).unsqueeze(-1)
    plateau = Plateau(factors, patience, CPU)
    optimizers = [torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=r) for r in start]
    schedulers = [
        torch.optim.lr_scheduler.ReduceLROnPlateau(o, factor=f, patience=patience)
        for o, f in zip(optimizers[:3], factors[:3], strict=True)
    ]
    lowered = 0
    for losses in losses_by_epoch():
        before = rates.clone()
        plateau.see(losses, rates)
        for k, scheduler in enumerate(schedulers):
            scheduler.step(float(losses[k]))
        # torch leaves a rate alone once it would move by less than 1e-8
        wanted = torch.tensor([o.param_groups[0]["lr"] for o in optimizers])
        torch.testing.assert_close(rates[:, 0], wanted, rtol=1e-4, atol=3e-8)
        lowered += int((rates < before).sum())
    assert lowered > 5
    assert rates[3] == start[3]  # a factor of 1 keeps it
    assert rates[0] == start[0]
