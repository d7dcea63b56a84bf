import numpy as np
import pytest

from cmpe import Recipe, generate, sample
from cmpe.errors import InputError
from cmpe.generation import QUANTILE_SAMPLES, grid


def test_the_recipe_of_the_paper():
    model = grid(6, 6, seed=1)
    made = generate(model, Recipe(samples=500, seed=3), name="grid")
    problem = made.problem
    assert problem.objective is model
    assert len(problem.evidence_variables) == round(0.6 * 36)
    assert list(problem.evidence_variables) == sorted(set(problem.evidence_variables))
    assert made.train.shape == (450, 22)
    assert made.test.shape == (50, 22)
    noise = np.concatenate(
        [
            (b.log_table - a.log_table).ravel()
            for a, b in zip(model.factors, problem.constraints[0].function.factors, strict=True)
        ]
    )
    assert np.var(noise) == pytest.approx(0.1, rel=0.3)
    assert made.provenance["sampler"]["evidence"] == "exact"


def test_q_is_the_kth_of_a_hundred_sorted_samples():
    model = grid(4, 4, seed=1)
    second = generate(model, Recipe(samples=10)).problem.constraints[0].function
    drawn = sample(second, QUANTILE_SAMPLES, np.random.SeedSequence(0).spawn(4)[1]).assignments
    values = np.sort(second.value(drawn))
    for percentile in (1, 10, 80, 100):
        made = generate(model, Recipe(samples=10, percentile=percentile))
        assert made.problem.constraints[0].at_most == values[percentile - 1]


def test_one_seed_decides_everything():
    model = grid(4, 4, seed=1)
    first, again, other = (generate(model, Recipe(samples=50, seed=s)) for s in (5, 5, 6))
    np.testing.assert_array_equal(first.train, again.train)
    assert first.problem.constraints[0].at_most == again.problem.constraints[0].at_most
    assert first.problem.constraints[0].function == again.problem.constraints[0].function
    assert first.problem.evidence_variables != other.problem.evidence_variables


def test_the_sampler_is_named():
    made = generate(grid(4, 4), Recipe(samples=20, memory_limit=1))
    assert made.provenance["sampler"]["evidence"] == "gibbs"
    assert made.provenance["sampler"]["quantile"] == "gibbs"


def test_a_grid_has_its_edges():
    model = grid(3, 4, values=3)
    assert model.cardinalities == (3,) * 12
    assert sum(len(f.scope) == 2 for f in model.factors) == 3 * 3 + 2 * 4


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"evidence_fraction": 1.5}, "from 0 to 1, found 1.5"),
        ({"noise_variance": -1}, "at least 0, found -1"),
        ({"percentile": 0}, "from 1 to 100, found 0"),
        ({"samples": 1}, "at least 2, found 1"),
        ({"seed": -1}, "at least 0, found -1"),
    ],
)
def test_wrong_recipes_are_said(wrong, message):
    with pytest.raises(InputError, match=message):
        Recipe(**wrong)


def test_a_time_limit_is_for_all_samples_together():
    made = generate(grid(3, 3, seed=0), Recipe(samples=20, time_limit=1e-9))
    assert made.provenance["sampler"]["evidence"] == "gibbs of 5 sweeps"
    assert "time_limit" not in made.provenance["recipe"]
    with pytest.raises(InputError, match="time_limit must be above 0"):
        Recipe(time_limit=0.0)
