"""The layer against enumeration: sums, marginals, gradients, samples, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.errors import EvidenceError, MethodError, ModelError, TooLarge
from tests.problems import Shape, all_assignments, random_model, seeds
from tests.tradeoffs.test_probability import Truth, counted_problem, random_rules


def random_scores(rng, cards, rows=2):
    scores = rng.normal(size=(rows, len(cards), max(cards)))
    return torch.tensor(scores)


def truth_of(problem, scores, limits=None):
    z = all_assignments(problem.domain.cardinalities)
    own = sum(scores[v, z[:, v]] for v in range(z.shape[1]))
    return Truth(problem, np.full(z.shape[1], -1), own, limits)


@given(seeds)
@settings(max_examples=60)
def test_distributions_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    problem, cards = counted_problem(rng)
    if rng.random() < 0.3:
        cards = [2] * 6
        counted = cmpe.count(dict.fromkeys(range(6), 1)) <= int(rng.integers(0, 6))
        rules = [*random_rules(rng, 6), *([counted] if rng.random() < 0.5 else [])]
        problem = Problem(random_model(rng, cards, Shape(zeros=rng.random() < 0.5)), rules)
    scores = random_scores(rng, cards)
    if rng.random() < 0.3:
        scores[0, 0, 0] = -torch.inf
    shifts = rng.integers(-1, 2, (2, len(problem.constraints))).astype(float)
    own = (problem.limits + shifts) * problem.signs if shifts.size else None
    found = cmpe.torch.Layer(problem)(scores, own)
    answers = found.argmax
    for row in range(2):
        truth = truth_of(problem, scores[row].numpy(), problem.limits + shifts[row])
        assert found.log_partition[row].item() == pytest.approx(truth.total, abs=1e-9)
        assert bool(found.feasible[row]) == truth.possible
        for v, k in enumerate(cards):
            assert np.allclose(found.marginals[row, v, :k], truth.marginal(v, k), atol=1e-11)
            assert (found.marginals[row, v, k:] == 0).all()
        logs = truth.weights - (truth.total if truth.possible else 0.0)
        for z in rng.integers(0, len(truth.z), 3):
            y = torch.tensor(np.repeat(truth.z[z : z + 1], 2, axis=0), dtype=torch.int64)
            expected = logs[z] if truth.possible else -np.inf
            assert found.log_prob(y)[row].item() == pytest.approx(expected, abs=1e-9)
        if not truth.possible:
            assert (answers[row] == -1).all()
            assert torch.isnan(found.entropy[row])
            continue
        share = truth.share[truth.share > 0]
        assert found.entropy[row].item() == pytest.approx(-(share * np.log(share)).sum(), abs=1e-9)
        best = (truth.z == answers[row].numpy()).all(axis=1)
        assert truth.weights[best][0] == pytest.approx(truth.weights.max(), abs=1e-6)
        assert found.solutions.proved[row]


def faults(count=5, most=2):
    names = [f"x{v}" for v in range(count)]
    model = LogLinearModel.from_tables([2, 3, 2, 2, 2], [((0, 1), np.eye(2, 3))], names)
    return Problem(
        model,
        [
            cmpe.count({"x0": 1, "x2": 1, "x3": 1}, name="faults") <= most,
            cmpe.implies({"x0": 1}, {"x4": 1}),
        ],
    )


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_gradients_are_marginals_in_the_type_of_the_scores(kind):
    problem = faults()
    scores = torch.randn(4, 5, 3, dtype=kind, requires_grad=True)
    found = cmpe.torch.Layer(problem)(scores)
    found.log_partition.sum().backward()
    assert found.log_partition.dtype == kind
    assert torch.equal(scores.grad, found.marginals)


def test_gradcheck():
    layer = cmpe.torch.Layer(faults())
    torch.manual_seed(0)
    scores = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
    y = layer(scores).argmax
    assert torch.autograd.gradcheck(lambda s: layer(s).log_partition, scores)
    assert torch.autograd.gradcheck(lambda s: layer(s).log_prob(y), scores)


def test_gradcheck_with_limits_of_rows_and_zeros():
    layer = cmpe.torch.Layer(faults())
    torch.manual_seed(0)
    scores = torch.randn(2, 5, 3, dtype=torch.float64)
    blocked = torch.zeros_like(scores)
    blocked[0, 3, 0] = -torch.inf
    scores.requires_grad_()
    limits = {"faults": [2.0, 1.0]}
    y = layer(scores + blocked, limits).argmax
    assert torch.autograd.gradcheck(lambda s: layer(s + blocked, limits).log_prob(y), scores)


def test_no_rows():
    found = cmpe.torch.Layer(faults())(torch.zeros(0, 5, 3))
    assert found.argmax.shape == (0, 5)
    assert found.log_prob(torch.zeros(0, 5, dtype=torch.int64)).shape == found.entropy.shape == (0,)
    assert found.sample(3).shape == (3, 0, 5)


def test_thresholded_scores_that_break_rules_are_warned_of_once_trained_through():
    layer = cmpe.torch.Layer(faults(most=1))
    scores = torch.zeros(1, 5, 3, requires_grad=True)
    scores.data[0, 2:4, 1] = 1.0
    thresholded = scores.detach()[:, :, :2].argmax(dim=2)
    assert layer(scores).log_prob(thresholded).isneginf().all()
    layer(scores).log_partition.sum().backward()
    with pytest.warns(UserWarning, match="1 of 1 rows break a rule"):
        layer(scores).log_prob(thresholded)
    layer(scores).log_prob(torch.tensor([[0, 0, 1, 1, 1]]))  # wrong too, but not a threshold


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_scores_on_a_gpu():
    layer = cmpe.torch.Layer(faults())
    torch.manual_seed(0)
    scores = torch.randn(3, 5, 3)
    near, far = (scores.to(place).requires_grad_() for place in ("cpu", "cuda"))
    for own in (near, far):
        found = layer(own)
        found.log_prob(found.argmax).sum().backward()
        assert found.argmax.device == found.marginals.device == found.sample().device == own.device
    assert torch.allclose(near.grad, far.grad.cpu())


def test_scores_by_name():
    layer = cmpe.torch.Layer(faults())
    first, second = torch.randn(3, 2, requires_grad=True), torch.randn(3, 3)
    whole = torch.zeros(3, 5, 3)
    whole[:, 0, :2], whole[:, 1] = first.detach(), second
    found = layer({"x0": first, "x1": second})
    assert torch.allclose(found.log_partition, layer(whole).log_partition)
    found.log_partition.sum().backward()
    assert torch.allclose(first.grad, found.marginals[:, 0, :2])


def test_samples_follow_the_marginals():
    torch.manual_seed(1)
    problem = faults()
    found = cmpe.torch.Layer(problem)(torch.randn(2, 5, 3))
    drawn = found.sample(4000)
    assert drawn.shape == (4000, 2, 5)
    assert problem.is_feasible(drawn.reshape(-1, 5).numpy()).all()
    for v in range(5):
        for state in range(2):
            share = (drawn[:, :, v] == state).double().mean(dim=0)
            assert torch.allclose(share, found.marginals[:, v, state].double(), atol=0.05)
    assert found.sample().shape == (2, 5)
    torch.manual_seed(1)
    scores = torch.randn(2, 5, 3)
    assert torch.equal(cmpe.torch.Layer(problem)(scores).sample(4000), drawn)


def test_training_on_what_breaks_a_rule_names_row_and_rule():
    layer = cmpe.torch.Layer(faults())
    scores = torch.zeros(2, 5, 3, requires_grad=True)
    good = layer(scores).argmax[0]
    for bad, said in (
        ([1, 0, 0, 0, 0], "row 1: .* breaks the rule .*x0=1 implies x4=1"),
        ([1, 0, 1, 1, 1], "row 1: .* breaks faults: 3 <= 2 is false"),
    ):
        y = torch.stack([good, torch.tensor(bad)])
        shares = layer(scores).log_prob(y)
        assert torch.isneginf(shares).tolist() == [False, True]
        with pytest.raises(ModelError, match=said):
            (-shares.sum()).backward()
    layer(scores).log_prob(y)[0].backward()  # without the broken row there is nothing to refuse
    blocked = torch.zeros(2, 5, 3)
    blocked[1, 2, 0] = -torch.inf
    blocked.requires_grad_()
    with pytest.raises(ModelError, match="a potential of 0 of x2=0"):
        layer(blocked).log_prob(torch.zeros(2, 5, dtype=torch.int64)).sum().backward()


def test_an_infeasible_row_is_a_status():
    layer = cmpe.torch.Layer(faults(most=1))
    scores = torch.zeros(2, 5, 3)
    scores[1, 2, 0] = scores[1, 3, 0] = -torch.inf
    scores.requires_grad_()
    found = layer(scores)
    assert found.feasible.tolist() == [True, False]
    assert found.argmax[1].tolist() == [-1] * 5
    assert found.solutions.labels == ["optimal", "infeasible"]
    assert (found.sample()[1] == -1).all()
    found.log_partition[0].backward()
    assert (scores.grad[1] == 0).all()


def test_real_constraints_have_an_argmax_only():
    t = LogLinearModel.from_tables([2, 2], [((0, 1), [[0.123, 0.456], [0.7891, 1.01112]])])
    problem = Problem(LogLinearModel((2, 2)), [t <= 0.5])
    found = cmpe.torch.Layer(problem)(torch.tensor([[[0.0, 1.0], [0.0, 2.0]]]))
    assert found.argmax.tolist() == [[0, 1]]
    with pytest.raises(MethodError, match="only argmax is possible"):
        found.log_partition  # noqa: B018


def test_wide_problems_have_an_argmax_only():
    rng = np.random.default_rng(0)
    pairs = [(u, v) for v in range(40) for u in range(v)]
    model = LogLinearModel.from_tables([2] * 40, [(p, rng.normal(size=(2, 2))) for p in pairs])
    found = cmpe.torch.Layer(Problem(model))(torch.zeros(1, 40, 2))
    with pytest.raises(TooLarge, match="only argmax is possible"):
        found.sample()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda layer: layer(torch.zeros(2, 4, 3)), "scores must have shape"),
        (lambda layer: layer(torch.zeros(2, 5, 3).long()), "must be a tensor of float32"),
        (lambda layer: layer(torch.full((2, 5, 3), torch.nan)), "row 0, variable 'x0'"),
        (lambda layer: layer({}), "must name a variable"),
        (lambda layer: layer({"x0": torch.zeros(2, 3)}), "must have shape"),
        (lambda layer: layer(torch.zeros(2, 5, 3)).log_prob(torch.zeros(2, 5)), "whole numbers"),
        (
            lambda layer: layer(torch.zeros(1, 5, 3)).log_prob(torch.full((1, 5), 2)),
            "a state must be from 0 to 1",
        ),
    ],
)
def test_refusals(call, said):
    with pytest.raises(EvidenceError, match=said):
        call(cmpe.torch.Layer(faults()))


def test_problems_without_tables_are_refused():
    with pytest.raises(ModelError, match="needs a Problem"):
        cmpe.torch.Layer(LogLinearModel((2, 2)))
    assert "5 variables" in repr(cmpe.torch.Layer(faults()))
