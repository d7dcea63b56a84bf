"""Every loss against its formula, and the consistency of ss_cmpe against enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from cmpe import Problem
from cmpe.bounds.loss import loss_bounds, printed_bounds
from cmpe.errors import MethodError
from cmpe.learning.losses import losses
from cmpe.learning.losses.alpha import Examples
from cmpe.learning.losses.catalogue import LOSS_KINDS
from cmpe.learning.losses.losses import LOSSES, Evaluated, loss_named
from cmpe.learning.losses.relaxation import floored
from tests.learning.cases import one_choice
from tests.problems import Shape, completions, random_problem, seeds

MEMBERS, ROWS, COORDINATES = 3, 7, 5


def random_batch(seed, constraints, beta=math.inf, missing=False):
    """A batch in float64; with `missing`, some alpha are NaN."""
    rng = np.random.default_rng(seed)
    each = (MEMBERS, ROWS)
    alpha = rng.uniform(0.5, 3.0, each)
    if missing:
        alpha[rng.random(each) < 0.5] = np.nan
    arrays = {
        "f": 1.0 + rng.exponential(5.0, each),
        "g": rng.normal(size=(*each, constraints)),
        "points": rng.random((*each, COORDINATES)),
        "surprise": rng.exponential(size=each),
        "targets": rng.integers(0, 2, (*each, COORDINATES)).astype(float),
        "alpha": alpha,
        "penalty": rng.exponential(size=(*each, constraints)),
        "multipliers": rng.exponential(size=(*each, constraints)),
        "contrast": 1.0 + rng.exponential(size=(MEMBERS, 1)),
        "rho": rng.exponential(size=(MEMBERS, 1)),
    }
    tensors = {name: torch.tensor(value) for name, value in arrays.items()}
    smooth = None if math.isinf(beta) else torch.full((MEMBERS, 1), beta, dtype=torch.float64)
    return Evaluated(**tensors, beta=smooth)


def by_hand(name, batch, k, i):
    """The loss of row i of member k, from the formulas of the paper."""
    b = {field: value[k, i].tolist() for field, value in batch._asdict().items()
         if field not in ("beta", "rho", "contrast", "gate_gradient")}  # fmt: skip
    rho = float(batch.rho[k, 0])
    beta = math.inf if batch.beta is None else float(batch.beta[k, 0])
    over = [max(0.0, g) for g in b["g"]]
    apart = [y - z for y, z in zip(b["points"], b["targets"], strict=True)]
    mse, mae = sum(d * d for d in apart), sum(abs(d) for d in apart)
    linear = sum(p * v for p, v in zip(b["penalty"], over, strict=True))
    squared = sum(p / 2 * v**2 for p, v in zip(b["penalty"], over, strict=True))
    prices = sum(m * g for m, g in zip(b["multipliers"], b["g"], strict=True))

    def two_branches(extra):
        if not over:
            return b["f"]
        missing = math.isnan(b["alpha"])  # then the ratio of the bounds is left out
        factor = float(batch.contrast[k, 0]) if missing else b["alpha"]
        infeasible = factor * (b["f"] + sum(over)) + extra
        most = max(b["g"])
        gate = float(most > 0) if math.isinf(beta) else 1 / (1 + math.exp(-beta * most))
        return (1 - gate) * b["f"] + gate * infeasible

    return {
        "mse": mse,
        "mae": mae,
        "mse_pen": mse + linear,
        "mae_pen": mae + linear,
        "ssl_pen": b["f"] + squared,
        "pdl": b["f"] + squared + prices,
        "ss_cmpe": two_branches(0.0),
        "ss_cmpe_pen": two_branches(rho * sum(v**2 for v in over)),
        "distill": b["surprise"],
    }[name]


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("constraints", [0, 1, 3])
@pytest.mark.parametrize("beta", [math.inf, 0.0, 0.1, 20.0])
@pytest.mark.parametrize("missing", [False, True])
def test_every_loss_is_its_formula(name, constraints, beta, missing):
    batch = random_batch(constraints, constraints, beta, missing)
    wanted = [[by_hand(name, batch, k, i) for i in range(ROWS)] for k in range(MEMBERS)]
    found = loss_named(name)(batch).numpy()
    assert found.shape == (MEMBERS, ROWS)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_every_loss_of_the_catalogue_has_a_formula():
    assert list(LOSSES) == list(LOSS_KINDS)


def test_members_have_their_own_beta():
    betas = [0.5, 2.0, 20.0]
    found = losses.ss_cmpe(random_batch(4, 2)._replace(beta=torch.tensor(betas)[:, None].double()))
    for k, beta in enumerate(betas):
        torch.testing.assert_close(found[k], losses.ss_cmpe(random_batch(4, 2, beta))[k])


@pytest.mark.parametrize("name", ["ss_cmpe", "ss_cmpe_pen"])
def test_the_smooth_form_tends_to_the_piecewise_one(name):
    steep = loss_named(name)(random_batch(1, 3))
    apart = [
        float((loss_named(name)(random_batch(1, 3, beta)) - steep).abs().max())
        for beta in (1.0, 10.0, 100.0, 1e4)
    ]
    assert apart == sorted(apart, reverse=True)
    assert apart[0] > 0.1
    assert apart[-1] < 1e-6


def test_just_at_the_limit_is_feasible():
    batch = random_batch(2, 2)
    batch.g[...] = torch.tensor([0.0, -1.0])
    torch.testing.assert_close(losses.ss_cmpe(batch), batch.f)
    torch.testing.assert_close(losses.ss_cmpe_pen(batch), batch.f)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("beta", [math.inf, 5.0])
def test_gradients_are_numbers(name, beta):
    batch = random_batch(3, 2, beta, missing=True)
    batch.g[0, 0] = 0.0
    batch.g[1] *= 1e4  # far in: sigmoid(5e4) must not spoil the other branch
    assert batch.alpha.isnan().any()
    leaves = [t.requires_grad_() for t in (batch.f, batch.g, batch.points, batch.surprise)]
    loss_named(name)(batch).sum().backward()
    for leaf in leaves:
        assert leaf.grad is None or leaf.grad.isfinite().all()
    assert any(leaf.grad is not None and leaf.grad.abs().sum() > 0 for leaf in leaves)


@pytest.mark.parametrize("beta", [math.inf, 5.0])
def test_without_alpha_violation_still_counts(beta):
    """alpha is missing where elimination is too wide; f alone would ignore the constraint."""
    batch = random_batch(3, 2, beta)
    batch.alpha[...] = math.nan
    ones = batch._replace(alpha=batch.contrast.expand_as(batch.alpha))
    torch.testing.assert_close(losses.ss_cmpe_pen(batch), losses.ss_cmpe_pen(ones))
    batch.g.requires_grad_()
    losses.ss_cmpe(batch).sum().backward()
    violated = batch.g.detach() > 0
    assert (batch.g.grad[violated] > 0).all()


def test_unknown_losses_are_refused():
    with pytest.raises(MethodError, match=r"a loss is one of mse, mae, .*; found 'huber'"):
        loss_named("huber")


# Consistency (paper §4): with alpha_x > p* / q* the loss is least at the CMPE optimum.


def evaluated(f, g, alpha, rho=0.0):
    """One member whose batch is every assignment of one row, in the piecewise form."""
    return Evaluated(
        f=torch.tensor(f)[None],
        g=torch.tensor(g)[None],
        alpha=torch.full((1, len(f)), alpha, dtype=torch.float64),
        rho=torch.tensor([[rho]], dtype=torch.float64),
    )


def alpha_of(bounds, row, least=1.0):
    """What training computes, here in float64."""
    examples = Examples(
        torch.tensor(bounds.p_upper[None]), torch.tensor(bounds.q_lower), torch.zeros(1, 1, 1),
        torch.zeros(1), least=least,
    )  # fmt: skip
    return float(examples.alpha(torch.tensor([[row]])))


def check_consistency(problem, trained, evidence):
    """`trained` is what the loss sees: the problem, or the problem with potentials of 0 raised."""
    instances = problem.given(evidence)
    tight, printed = loss_bounds(instances), printed_bounds(instances)
    checked = 0
    for row in range(len(instances)):
        rows = completions(instances, row)
        feasible = problem.is_feasible(rows)
        if not feasible.any():
            continue
        f, g = trained.minimisation(rows)
        if ((g > 0) & (g <= problem.tolerances)).any():
            continue  # feasible by rounding only: the loss is stricter
        best = problem.minimisation(rows)[0][feasible].min()
        alphas = [alpha_of(tight, row), alpha_of(tight, row, 0.0), alpha_of(printed, row, 0.0)]
        forms = itertools.product(alphas, ((losses.ss_cmpe, 0.0), (losses.ss_cmpe_pen, 3.0)))
        for alpha, (loss, rho) in forms:
            values = loss(evaluated(f, g, alpha, rho)).numpy()[0]
            assert values.min() == pytest.approx(best, rel=1e-12)
            assert feasible[values <= values.min() * (1 + 1e-7)].all()
        violated = (g > 0).any(axis=1) & (problem.objective.value(rows) > -np.inf)
        if violated.any():
            least = (f + np.maximum(g, 0.0).sum(axis=1))[violated].min()
            assert min(alphas) > best / least
            checked += 1
    return checked


@settings(max_examples=150)
@given(seeds)
def test_the_least_loss_is_the_constrained_optimum(seed):
    problem, evidence = random_problem(seed, Shape(zeros=False, constraints=3, variables=4))
    check_consistency(problem, problem, evidence)


@settings(max_examples=100)
@given(seeds)
def test_the_same_with_potentials_of_zero_far_below(seed):
    problem, evidence = random_problem(seed, Shape(constraints=3, variables=4))
    functions = [floored(f, 1000.0) for f in problem.functions]
    limits = [
        type(c)(f, c.at_most) for c, f in zip(problem.constraints, functions[1:], strict=True)
    ]
    raised = Problem(functions[0], tuple(limits), problem.evidence_variables)
    check_consistency(problem, raised, evidence)


def test_constrained_rows_were_among_them():
    count = 0
    for seed in range(40):
        problem, evidence = random_problem(seed, Shape(zeros=False, constraints=3, variables=4))
        count += check_consistency(problem, problem, evidence)
    assert count > 15


@pytest.mark.parametrize("loss", [losses.ss_cmpe, losses.ss_cmpe_pen])
def test_a_smaller_alpha_can_prefer_a_violating_assignment(loss):
    f, g = one_choice().minimisation(np.array([[0], [1]]))
    assert (f.tolist(), g.tolist()) == ([6.0, 1.0], [[-0.5], [0.5]])  # p* / q* = 6 / 1.5 = 4
    assert loss(evaluated(f, g, 3.9)).argmin() == 1
    assert loss(evaluated(f, g, 4.1)).argmin() == 0


def test_a_gate_without_gradient_has_the_same_loss_and_another_slope():
    batch = random_batch(5, 1, beta=1.0)
    batch.alpha.add_(1.0)
    batch.g.requires_grad_()
    both = [losses.ss_cmpe(batch._replace(gate_gradient=kept)) for kept in (True, False)]
    torch.testing.assert_close(*both)
    slopes = [torch.autograd.grad(loss.sum(), batch.g, retain_graph=True)[0] for loss in both]
    assert (slopes[0] > slopes[1]).all()  # the gate pushes back wherever alpha (f + v) > f
