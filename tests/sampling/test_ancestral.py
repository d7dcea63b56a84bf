import numpy as np
import pytest

from cmpe import LogLinearModel, sample
from cmpe.errors import ModelError
from cmpe.sampling.ancestral import Directed
from tests.sampling.test_sampling import p_value


def network(seed, *, zeros=False):
    """A random Bayesian network of four variables with two parents each at most."""
    rng = np.random.default_rng(seed)
    cards = [2, 3, 2, 2]
    tables = []
    for v, parents in enumerate([(), (0,), (0, 1), (2, 1)]):
        weights = rng.gamma(1.0, size=(*(cards[u] for u in parents), cards[v]))
        if zeros and parents:
            weights[..., 0][weights[..., 0] < 0.7] = 0.0
        weights /= weights.sum(axis=-1, keepdims=True)
        with np.errstate(divide="ignore"):
            tables.append(((*parents, v), np.log(weights)))
    return LogLinearModel.from_tables(cards, tables)


@pytest.mark.parametrize("seed", range(3))
def test_bayesian_networks_are_sampled_exactly_at_any_width(seed):
    model = network(seed, zeros=seed == 2)
    drawn = sample(model, 20_000, seed, memory_limit=0)
    assert drawn.sampler == "exact"
    assert p_value(model, drawn.assignments) > 1e-4


def test_what_is_no_network_has_no_direction():
    flat = np.zeros((2, 2))
    circle = LogLinearModel.from_tables([2] * 3, [((0, 1), flat), ((1, 2), flat), ((2, 0), flat)])
    assert Directed.of(circle) is None
    missing = LogLinearModel.from_tables([2, 2], [((0,), np.log([0.5, 0.5]))])
    assert Directed.of(missing) is None
    weighted = Directed.of(LogLinearModel.from_tables([2], [((0,), [0.0, 0.0])]))
    assert weighted is not None
    assert not weighted.is_normalised


def test_chains_that_arrive_nowhere_begin_at_ancestral_draws():
    """A chain of copies of one variable: single moves cannot change it, nor arrive from afar."""
    same = np.where(np.eye(2, dtype=bool), 0.3, -np.inf)
    tables = [((0,), [0.0, 0.1]), *(((v, v + 1), same) for v in range(60))]
    model = LogLinearModel.from_tables([2] * 61, tables)
    drawn = sample(model, 50, 0, memory_limit=0)
    assert drawn.sampler == "gibbs from ancestral draws"
    assert np.isfinite(model.value(drawn.assignments)).all()
    assert set(drawn.assignments[:, 0]) == {0, 1}


def test_parents_without_a_possible_child_are_left_to_chains():
    never = LogLinearModel.from_tables(
        [2, 2], [((0,), [0.0, 0.0]), ((0, 1), [[0.0, 0.0], [-np.inf, -np.inf]])]
    )
    directed = Directed.of(never)
    assert directed is not None
    assert directed.draw(50, np.random.default_rng(0)) is None
    assert (sample(never, 50, 0, memory_limit=0).assignments[:, 0] == 0).all()


def test_a_search_for_any_sample_keeps_its_time_limit():
    wrong = LogLinearModel.from_tables([2], [((0,), [-np.inf, -np.inf])])
    with pytest.raises(ModelError, match="3 of 3 samples after 1 restarts"):
        sample(wrong, 3, 0, memory_limit=0, time_limit=1e-9)
