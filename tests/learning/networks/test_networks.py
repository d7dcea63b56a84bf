"""Encoding, shapes, starts and the forward pass of the networks."""

from __future__ import annotations

import numpy as np
import torch

from cmpe import Factor, LogLinearModel, Problem
from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.learning.networks.networks import Network, encode, with_margin_input
from cmpe.learning.training.config import TrainingConfig
from tests.learning.cases import mixed_problem, small_grid


def observed_problem():
    """Binary, ternary and four-valued evidence."""
    return Problem(LogLinearModel((2, 3, 4, 2), (Factor((3,), [0.0, 1.0]),)), (), (1, 0, 2))


def test_inputs_are_centred_and_unobserved_is_zero():
    evidence = np.array([[0, 0, 0], [1, 1, 3], [2, -1, -1], [-1, 0, 1]])
    a, b = 2 / 3, 4 / 3  # of the ternary variable: 2 (0 - 1/3), 2 (1 - 1/3)
    wanted = [
        [-a, -a, -1.0, -0.5, -0.5, -0.5],
        [b, -a, 1.0, -0.5, -0.5, 1.5],
        [-a, b, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, -1.0, 1.5, -0.5, -0.5],
    ]
    found = encode(observed_problem(), evidence)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor(wanted))


def test_every_input_has_mean_zero_over_its_values():
    problem = observed_problem()
    every = np.array([[a, b, c] for a in range(3) for b in range(2) for c in range(4)])
    torch.testing.assert_close(encode(problem, every).mean(0), torch.zeros(6))


def test_no_evidence_is_no_input():
    problem = small_grid().problem.observing(())
    assert encode(problem, np.zeros((4, 0), dtype=int)).shape == (4, 0)


def test_the_margin_is_an_input_only_if_there_are_several():
    encoded, margin = torch.ones((1, 2, 3)), torch.tensor([[4.0, -1.0]])
    one, several = TrainingConfig(), TrainingConfig(margins=(0.0, -1.0, 8.0))
    assert with_margin_input(encoded, margin, one) is encoded
    found = with_margin_input(encoded, margin, several)
    assert found.shape == (1, 2, 4)
    assert found[0, :, 3].tolist() == [0.5, -0.125]


def start(config, problem, seed=0):
    network = Network.of(config, encode(problem, problem_rows(problem)).shape[1],
                         RelaxedProblem(problem))  # fmt: skip
    return network, {k: v.unsqueeze(0) for k, v in network.initial(seed).items()}


def problem_rows(problem, count=5):
    rng = np.random.default_rng(1)
    cards = [problem.objective.cardinalities[v] for v in problem.evidence_variables]
    return np.stack([rng.integers(0, k, count) for k in cards], axis=1)


def test_the_mlp_is_the_products_it_says():
    problem = mixed_problem()
    config = TrainingConfig(hidden=(7, 5), skip=True, predict_multiplier=True)
    network, p = start(config, problem)
    evidence = problem_rows(problem)
    x = encode(problem, evidence)
    hidden = torch.relu(x @ p["weight0"][0] + p["bias0"][0])
    hidden = torch.relu(hidden @ p["weight1"][0] + p["bias1"][0])
    logits = hidden @ p["weight2"][0] + p["bias2"][0] + x @ p["skip"][0]
    raw = hidden @ p["multiplier_weight"][0] + p["multiplier_bias"][0]
    out = network(p, encode(problem, evidence).unsqueeze(0))
    torch.testing.assert_close(out.logits[0], logits)
    torch.testing.assert_close(out.multipliers[0], torch.nn.functional.softplus(raw))
    assert out.multipliers.shape == (1, 5, 2)
    assert (out.multipliers > 0).all()


def test_starts_are_uniform_as_of_torchs_linear_and_depend_on_the_seed():
    network = Network((100, 64, 5), 1)
    one, same, other = network.initial(3), network.initial(3), network.initial(4)
    for name in one:
        assert torch.equal(one[name], same[name])
        assert not torch.equal(one[name], other[name])
    assert 0.095 < one["weight0"].abs().max() <= 0.1
    assert 0.12 < one["weight1"].abs().max() <= 0.125
    assert abs(float(one["weight0"].mean())) < 0.005


def test_members_do_not_see_each_other():
    problem = mixed_problem()
    evidence = problem_rows(problem)
    network, _ = start(TrainingConfig(hidden=(4,), skip=True), problem)
    both = [network.initial(s) for s in (1, 2)]
    stacked = {k: torch.stack([m[k] for m in both]) for k in both[0]}
    encoded = encode(problem, evidence).expand(2, -1, -1)
    together = network(stacked, encoded).logits
    for k, own in enumerate(both):
        alone = {name: value.unsqueeze(0) for name, value in own.items()}
        torch.testing.assert_close(together[k : k + 1], network(alone, encoded[:1]).logits)


def test_without_constraints_there_is_no_multiplier():
    problem = Problem(mixed_problem().objective, (), (0, 4))
    network, p = start(TrainingConfig(hidden=(4,), predict_multiplier=True), problem)
    assert not any(name.startswith("multiplier") for name in p)
    encoded = encode(problem, problem_rows(problem)).unsqueeze(0)
    assert network(p, encoded).multipliers is None
