import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from cmpe import LogLinearModel, sample
from cmpe.elimination.plan import make_plan
from cmpe.errors import ModelError
from cmpe.generation import grid
from cmpe.sampling import GibbsSettings, sample_exact, sample_gibbs
from tests.problems import Shape, random_model


def probabilities(model):
    rows = np.array(list(itertools.product(*map(range, model.cardinalities))))
    weight = np.exp(model.value(rows) - model.value(rows).max())
    return weight / weight.sum()


def p_value(model, drawn):
    """Chi-square test of samples against enumerated probabilities."""
    expected = probabilities(model) * len(drawn)
    index = np.ravel_multi_index(drawn.T, model.cardinalities)
    seen = np.bincount(index, minlength=len(expected))
    assert (seen[expected == 0] == 0).all()
    rare = expected < 5
    grouped = [np.append(a[~rare], a[rare].sum()) for a in (seen, expected)]
    keep = grouped[1] > 0
    return chisquare(grouped[0][keep], grouped[1][keep]).pvalue


@pytest.mark.parametrize("seed", range(6))
def test_exact_samples_follow_the_enumerated_probabilities(seed):
    model = random_model(np.random.default_rng(seed), [2, 3, 1, 4, 2], Shape(factors=8))
    if not np.isfinite(model.value(np.argwhere(np.ones(model.cardinalities)))).any():
        pytest.skip("this seed forbids everything")
    drawn = sample(model, 20_000, seed)
    assert drawn.sampler == "exact"
    assert p_value(model, drawn.assignments) > 1e-4


def test_a_wrong_distribution_would_be_noticed():
    model = LogLinearModel.from_tables([2, 2], [((0, 1), [[0.0, 0.0], [0.0, 0.2]])])
    uniform = np.random.default_rng(0).integers(0, 2, (20_000, 2))
    assert p_value(model, uniform) < 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_gibbs_samples_follow_the_enumerated_probabilities(seed):
    shape = Shape(arity=2, factors=6, zeros=False)
    model = random_model(np.random.default_rng(seed), [2, 3, 2, 2], shape)
    drawn = sample_gibbs(model, 20_000, seed, GibbsSettings(sweeps=60))
    assert p_value(model, drawn) > 1e-4


def test_gibbs_takes_over_where_memory_ends_and_respects_zeros():
    rng = np.random.default_rng(0)
    model = random_model(rng, [3] * 8, Shape(arity=2, factors=20))
    drawn = sample(model, 200, 0, memory_limit=1)
    assert drawn.sampler == "gibbs"
    assert np.isfinite(model.value(drawn.assignments)).all()


def test_one_seed_gives_the_same_samples_and_another_seed_others():
    model = random_model(np.random.default_rng(1), [2, 3, 4], Shape(factors=5, zeros=False))
    for limit in (1 << 30, 1):
        first, again, other = (
            sample(model, 50, s, memory_limit=limit).assignments for s in (1, 1, 2)
        )
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


def test_nothing_to_sample_is_said():
    model = LogLinearModel.from_tables([2], [((0,), [-np.inf, -np.inf])])
    plan = make_plan(model.cardinalities, [(0,)])
    with pytest.raises(ModelError, match="nothing to sample"):
        sample_exact(model, 1, 0, plan)
    with pytest.raises(ModelError, match="3 of 3 samples after 2 restarts"):
        sample_gibbs(model, 3, 0, GibbsSettings(sweeps=2, restarts=2))


def test_a_time_limit_shortens_chains_and_repeats_what_has_no_weight():
    model = grid(4, 4, seed=0)
    plain = sample(model, 20, 1, memory_limit=0)
    assert plain.sampler == "gibbs"
    hurried = sample(model, 20, 1, memory_limit=0, time_limit=1e-9)
    assert hurried.sampler == "gibbs of 5 sweeps"
    assert sample(model, 20, 1, time_limit=1e-9).sampler == "gibbs of 5 sweeps"  # not exact either
    assert sample(model, 20, 1, time_limit=60.0).sampler == "exact"
    apart = np.where(np.eye(3, dtype=bool), -np.inf, 0.0)
    pairs = [(v, (v + step) % 9) for v in range(9) for step in (1, 2)]
    colours = LogLinearModel.from_tables([3] * 9, [(pair, apart) for pair in pairs])
    found = sample(colours, 300, 1, memory_limit=0, time_limit=1e-9)
    assert "repeated" in found.sampler
    assert np.isfinite(colours.value(found.assignments)).all()
