"""What training keeps of each example: p_upper stays a bound, lambda follows its rule."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe.bounds.loss import loss_bounds
from cmpe.learning.losses.alpha import ABOVE, Examples
from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.learning.training.data import prepare, split
from cmpe.learning.training.trainer import Trainer
from tests.learning.cases import one_choice, quick, small_grid, trainer_for
from tests.problems import Shape, completions, random_problem, seeds


def unknown(problem, rows):
    """One member that knows nothing of `rows` examples."""
    m = len(problem.constraints)
    return Examples(
        torch.full((1, rows), torch.nan),
        torch.full((rows,), torch.nan),
        torch.zeros((1, rows, m)),
        torch.as_tensor(problem.limits, dtype=torch.float32),
    )


def feed_every_assignment(problem, evidence):
    """p_upper (N,) after training has seen every rounded output of every row, in float32."""
    instances = problem.given(evidence)
    relaxed = RelaxedProblem(problem)
    rows = relaxed.rows(instances.evidence)
    examples = unknown(problem, len(instances))
    limits = examples.limits
    for row in range(len(instances)):
        free = completions(instances, row)[:, list(relaxed.free)]
        points = torch.as_tensor(relaxed.coordinates.of(free))
        which = torch.full((len(free),), row)
        values = relaxed.values(rows.take(which), points)
        for k in np.random.default_rng(0).permutation(len(free)):
            f, g = problem.shift - values[k, 0], values[k, 1:] - limits
            here = torch.tensor([[row]])
            examples.see_feasible(here, f.view(1, 1), g.view(1, 1, -1), torch.ones(1, 1) > 0)
    return examples.p_upper[0].double().numpy()


@settings(max_examples=100)
@given(seeds)
def test_rounded_outputs_never_bring_p_upper_below_the_optimum(seed):
    """Potentials of 0 are another matter: with them training does not look for better answers."""
    problem, evidence = random_problem(seed, Shape(zeros=False, variables=4, constraints=3))
    found = feed_every_assignment(problem, evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    best = problem.shift - truth.objective
    known = ~np.isnan(found)
    assert not (known & ~truth.feasible).any()
    both = known & truth.feasible
    assert (found[both] >= best[both]).all()
    if not problem.constraints:
        assert known.all()
        np.testing.assert_allclose(found, best, rtol=1e-4)


def test_a_strictly_feasible_answer_lowers_p_upper_and_others_do_not():
    examples = unknown(one_choice(), 2)
    rows, count = torch.tensor([[0, 1]]), torch.tensor([[True, True]])

    def see(f, g, counts=count):
        examples.see_feasible(rows, torch.tensor([f]), torch.tensor([g])[..., None], counts)
        return examples.p_upper[0].tolist()

    assert np.isnan(see([3.0, 3.0], [0.1, 0.0])).all()  # violated; within rounding of it
    assert np.isnan(see([3.0, 3.0], [-1.0, -1.0], ~count)).all()  # padding of a batch
    first = see([3.0, 9.0], [-1.0, -1.0])
    assert first == pytest.approx([3.0, 9.0], rel=1e-4)
    assert see([4.0, 5.0], [-1.0, -1.0]) == pytest.approx([3.0, 5.0], rel=1e-4)
    assert see([1.0, 1.0], [1.0, 1.0]) == pytest.approx([3.0, 5.0], rel=1e-4)


def test_alpha_is_the_ratio_and_missing_where_a_bound_is():
    nan = torch.nan
    examples = Examples(
        torch.tensor([[6.0, nan, 3.0], [4.0, 2.0, 3.0]]), torch.tensor([1.5, 2.0, nan]),
        torch.zeros((2, 3, 1)), torch.zeros(1),
    )  # fmt: skip
    alpha = examples.alpha(torch.tensor([[2, 0, 1], [0, 1, 1]]))
    wanted = torch.tensor([[nan, 4.0, nan], [4.0 / 1.5, 1.0, 1.0]]) * ABOVE
    torch.testing.assert_close(alpha, wanted, equal_nan=True)
    assert ABOVE > 1


def test_alpha_follows_p_upper():
    examples = Examples(
        torch.tensor([[9.0, torch.nan]]), torch.tensor([3.0, 2.0]), torch.zeros((1, 2, 1)),
        torch.zeros(1),
    )  # fmt: skip
    rows, counts = torch.tensor([[1, 0]]), torch.tensor([[True, True]])
    f, g = torch.tensor([[4.0, 6.0]]), torch.tensor([[[-1.0], [-1.0]]])
    examples.see_feasible(rows, f, g, counts)
    torch.testing.assert_close(examples.alpha(rows), torch.tensor([[2.0, 2.0]]), rtol=1e-4, atol=0)
    examples.p_upper.fill_(6.0)
    examples.refresh()
    torch.testing.assert_close(examples.alpha(rows), torch.tensor([[3.0, 2.0]]), rtol=1e-4, atol=0)


def one_step(problem, logit):
    """Train one step on a network whose only output is `logit`, with p_upper not yet known."""
    config = quick(hidden=(), batch_size=1, epochs=1)
    data = prepare(problem.given(np.zeros((1, 0), dtype=int)), config)
    blank = replace(data, p_upper=np.full((1, 1), np.nan))
    trainer = Trainer(blank, [config], [split(1, config)])
    program = trainer.program
    with torch.no_grad():
        program.adam.flat.zero_()
        program.adam.parameters["bias0"].fill_(logit)
        start = program.forward(
            program.adam.parameters, torch.zeros((1, 1), dtype=torch.int64), torch.zeros((1, 1))
        )
    list(trainer.epochs())
    assert trainer.steps == 1
    return float(start.f), start.g.flatten().tolist(), float(program.examples.p_upper[0, 0])


def test_a_relaxed_feasible_answer_can_lie_below_the_optimum_and_is_not_used():
    f, g, p_upper = one_step(one_choice(), -0.4)  # y = 0.4
    assert g[0] < 0
    assert f < 6.0 - 1.9  # p* = 6: y = 1 is not allowed
    assert p_upper == pytest.approx(6.0, rel=1e-4)
    assert p_upper >= 6.0


def test_without_constraints_relaxed_answers_count():
    f, _, p_upper = one_step(one_choice(None), -0.4)
    assert p_upper == pytest.approx(f, rel=1e-4)
    assert 1.0 < f < 5.0  # p* = 1; the rounded answer has f = 6


@settings(max_examples=40)
@given(seeds)
def test_without_constraints_no_relaxed_answer_is_below_the_optimum(seed):
    problem, evidence = random_problem(seed, Shape(zeros=False, constraints=0))
    relaxed = RelaxedProblem(problem)
    instances = problem.given(evidence)
    examples = unknown(problem, len(instances))
    generator = torch.Generator().manual_seed(seed)
    shape = (50, len(instances), relaxed.coordinates.count)
    logits = 6.0 * torch.randn(shape, generator=generator)
    rows = torch.arange(len(instances)).unsqueeze(0)
    for some in logits:
        values = relaxed.values(
            relaxed.rows(instances.evidence), relaxed.coordinates.probabilities(some)
        )
        f = (problem.shift - values[:, 0]).unsqueeze(0)
        examples.see_feasible(rows, f, f.new_zeros((*f.shape, 0)), torch.ones_like(f) > 0)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert (examples.p_upper[0].numpy() >= problem.shift - truth.objective).all()


def penalties(factor, most, start=1.0):
    examples = Examples(
        torch.zeros((2, 3)), torch.zeros(3), torch.full((2, 3, 2), start), torch.zeros(2)
    )
    rows = torch.tensor([[2, 0], [0, 1]])
    g = torch.tensor([[[0.5, -1.0], [-2.0, 0.0]], [[3.0, 1.0], [0.25, -0.5]]])
    examples.raise_penalty(rows, g, torch.tensor([[2.0], [10.0]]), factor, most)
    return examples, rows


def test_lambda_rises_by_rho_times_the_violation():
    examples, rows = penalties(factor=1.0, most=100.0)
    wanted = torch.ones((2, 3, 2))
    wanted[0, 2, 0] += 2.0 * 0.5
    wanted[1, 0] += 10.0 * torch.tensor([3.0, 1.0])
    wanted[1, 1, 0] += 10.0 * 0.25
    torch.testing.assert_close(examples.penalty, wanted)
    torch.testing.assert_close(
        examples.lambdas(rows), torch.stack([wanted[0, [2, 0]], wanted[1, [0, 1]]])
    )


def test_lambda_is_multiplied_where_violated():
    examples, _ = penalties(factor=3.0, most=100.0, start=2.0)
    wanted = torch.full((2, 3, 2), 2.0)
    wanted[0, 2, 0] = wanted[1, 0, 0] = wanted[1, 0, 1] = wanted[1, 1, 0] = 6.0
    torch.testing.assert_close(examples.penalty, wanted)


@pytest.mark.parametrize("factor", [1.0, 50.0])
def test_lambda_stops_at_its_limit(factor):
    examples, _ = penalties(factor, most=8.0)
    assert examples.penalty.max() == 8.0
    assert examples.penalty.min() == 1.0


def outputs_of(trainer):
    """What every row gets now: f, and whether the rounded output satisfies the constraints."""
    data, program = trainer.data, trainer.program
    rows = torch.arange(len(data)).unsqueeze(0)
    margin = torch.zeros(rows.shape)
    with torch.no_grad():
        forward = program.forward(program.adam.parameters, rows, margin)
        f, g = program.rounded(forward, margin)
    return f[0].double().numpy(), (g[0] < -1e-3).all(-1).numpy()


@pytest.mark.parametrize("form", ["paper", "precomputed", "fixed"])
def test_where_alpha_starts_and_how_it_falls(form):
    one = small_grid()
    problem, instances = one.problem, one.problem.given(one.train)
    config = quick(alpha=form, beta=1.0, epochs=6, batch_size=64, validation_share=0.0)
    trainer = trainer_for(problem, one.train, config)
    examples = trainer.program.examples
    greatest = [
        problem.minimisation(completions(instances, k))[0].max() for k in range(len(instances))
    ]
    start = examples.p_upper[0, : len(instances)].double().numpy().copy()
    if form == "fixed":
        assert (start <= greatest).all()
        assert start.mean() < 0.9 * np.mean(greatest)
    else:
        np.testing.assert_allclose(start, greatest, rtol=1e-5)
    assert trainer.steps == 1
    best = start
    while not trainer.is_done:  # an epoch is one step, and it measures
        f, feasible = outputs_of(trainer)
        best = np.where(feasible, np.minimum(best, f), best)
        next(trainer.epochs())
        found = examples.p_upper[0, : len(instances)].double().numpy()
        wanted = start if form == "precomputed" else best
        np.testing.assert_allclose(found, wanted, rtol=1e-4)
        alpha = examples.alpha(torch.arange(len(instances)).unsqueeze(0))[0].double().numpy()
        ratio = found / examples.q_lower[: len(instances)].double().numpy()
        least = 1.0 if form == "fixed" else 0.0
        np.testing.assert_allclose(alpha, np.maximum(ratio, least), rtol=1e-4)
    if form == "paper":
        assert (best < start).any()


@pytest.mark.parametrize(("form", "steps"), [("paper", 5), ("precomputed", 0), ("fixed", 1)])
def test_the_printed_form_is_lowered_at_every_step(monkeypatch, form, steps):
    one, seen = small_grid(), []
    config = quick(alpha=form, epochs=1, batch_size=11, validation_share=0.0)
    trainer = trainer_for(one.problem, one.train, config)
    monkeypatch.setattr(trainer.program.examples, "see_feasible", lambda *_: seen.append(1))
    list(trainer.epochs())
    assert trainer.steps == 5
    assert len(seen) == steps


@settings(max_examples=60)
@given(seeds)
def test_one_alpha_is_the_largest_of_those_of_single_constraints(seed):
    """One factor per constraint, which the paper's source mentions without a formula, would lower
    the loss of infeasible assignments, and never below p*."""
    problem, evidence = random_problem(seed, Shape(zeros=False, variables=4, constraints=3))
    instances = problem.given(evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    bounds = loss_bounds(instances)
    alone = np.array(
        [
            loss_bounds(replace(problem, constraints=(c,)).given(evidence)).q_lower
            for c in problem.constraints
        ]
    )  # (constraints, rows)
    least = np.fmin.reduce([np.full(len(evidence), np.nan), *alone])
    np.testing.assert_allclose(bounds.q_lower, least)
    for row in np.flatnonzero(truth.feasible & ~np.isnan(bounds.q_lower)):
        best = problem.shift - truth.objective[row]
        one, separate = best / bounds.q_lower[row], best / alone[:, row]
        whole = completions(instances, row)
        over = np.maximum(problem.violations(whole), 0.0)  # (assignments, constraints)
        for f, broken in zip(problem.shift - problem.objective.value(whole), over, strict=True):
            for factor in separate[broken > 1e-6]:  # whichever is chosen where several are broken
                loss = factor * (f + broken.sum())
                assert best - 1e-6 * abs(best) <= loss <= one * (f + broken.sum()) + 1e-9


def test_contrast_multiplies_alpha_and_ratios_below_one_count_as_one():
    examples = Examples(
        torch.tensor([[6.0, 3.0, 1.0]] * 2), torch.tensor([2.0, 4.0, torch.nan]),
        torch.zeros((2, 3, 1)), torch.zeros(1), torch.tensor([[1.0], [5.0]]),
    )  # fmt: skip
    found = examples.alpha(torch.tensor([[0, 1, 2]] * 2))
    wanted = torch.tensor([[3.0 * ABOVE, 1.0, torch.nan], [15.0 * ABOVE, 5.0, torch.nan]])
    torch.testing.assert_close(found, wanted, equal_nan=True)


@settings(max_examples=60)
@given(seeds)
def test_an_infeasible_assignment_costs_contrast_times_the_optimum(seed):
    """alpha_x (f + v) >= contrast p*, whatever the bounds: for every infeasible assignment."""
    problem, evidence = random_problem(seed, Shape(zeros=False, variables=4, constraints=2))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    bounds = loss_bounds(problem.given(evidence))
    examples = Examples(
        torch.tensor(bounds.p_upper).unsqueeze(0), torch.tensor(bounds.q_lower),
        torch.zeros((1, len(truth), len(problem.constraints))), torch.zeros(len(problem.limits)),
        torch.full((1, 1), 5.0),
    )  # fmt: skip
    alpha = examples.alpha(torch.arange(len(truth)).unsqueeze(0))[0].numpy()
    for row in np.flatnonzero(truth.feasible & ~np.isnan(alpha)):
        whole = completions(problem.given(evidence), row)
        f = problem.shift - problem.objective.value(whole)
        over = np.maximum(problem.violations(whole), 0.0).sum(axis=1)
        bad = ~problem.is_feasible(whole)
        best = problem.shift - truth.objective[row]
        assert (alpha[row] * (f + over)[bad] >= 5.0 * best - 1e-6 * abs(best)).all()
