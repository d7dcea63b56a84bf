"""Training data on the device: f and g as the problem has them, examples, targets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from cmpe.learning.training.data import prepare, with_margin
from cmpe.learning.training.tensors import Tensors
from tests.learning.cases import mixed_problem, quick, small_grid
from tests.problems import Shape, random_problem, seeds

CPU = torch.device("cpu")


@settings(max_examples=40)
@given(seeds)
def test_f_and_g_of_whole_points_are_the_problems(seed):
    problem, evidence = random_problem(seed, Shape(zeros=False, variables=4))
    config = quick(margins=(0.0, 0.75))
    tensors = Tensors(prepare(problem.given(evidence), config), config, CPU)
    rng = np.random.default_rng(seed)
    free = tensors.relaxation.free
    values = np.stack(
        [np.zeros(len(evidence), dtype=int)]
        + [rng.integers(0, problem.objective.cardinalities[v], len(evidence)) for v in free],
        axis=1,
    )[:, 1:]
    full = problem.given(evidence).complete(values)
    examples = 2 * torch.arange(len(evidence)).unsqueeze(0)
    for k, margin in enumerate((0.0, 0.75)):
        rows, asked = tensors.question(examples + k)
        assert rows.tolist() == [list(range(len(evidence)))]
        assert (asked == margin).all()
        points = torch.as_tensor(tensors.relaxation.coordinates.of(values)).unsqueeze(0)
        _, known = tensors.read(rows, asked)
        f, g = tensors.minimisation(known, points, asked)
        wanted_f, wanted_g = with_margin(problem, margin).minimisation(full)
        np.testing.assert_allclose(f[0].numpy(), wanted_f, atol=1e-4)
        np.testing.assert_allclose(g[0].numpy(), wanted_g, atol=1e-4)
        assert g.shape == (1, len(evidence), len(problem.constraints))


def test_targets_are_the_labels():
    problem = mixed_problem()
    evidence = np.array([[0, 0], [1, 2], [1, 1]])
    config = quick("distill", margins=(0.0, 0.5))
    data = prepare(problem.given(evidence), config)
    tensors = Tensors(data, config, CPU)
    free = list(tensors.relaxation.free)
    found = tensors.relaxation.coordinates.assignments(tensors.targets.float())[
        :6
    ]  # then the row that fills up
    labels = data.labels.reshape(6, -1)
    known = labels[:, 0] >= 0
    assert known.any()
    np.testing.assert_array_equal(found[known], labels[known][:, free])
    assert len(Tensors(prepare(problem.given(evidence), quick()), quick(), CPU).targets) == 0


@pytest.mark.parametrize("factor", [1.0, 7.0])
def test_the_unit_of_temperature_grows_with_the_problem(factor):
    one = small_grid()
    model = one.problem.objective
    factors = tuple(type(f)(f.scope, factor * f.log_table) for f in model.factors)
    scaled = type(one.problem)(
        type(model)(model.cardinalities, factors), (), one.problem.evidence_variables
    )
    config = quick("mse")
    units = [
        Tensors(prepare(p.given(one.train), config), config, CPU).scale
        for p in (one.problem, scaled)
    ]
    assert units[1] == pytest.approx(factor * units[0], rel=1e-4)
