import numpy as np
import pytest
from hypothesis import given

from cmpe.elimination import plan as elimination
from cmpe.elimination.plan import interaction_graph, make_plan
from cmpe.errors import TooLarge
from cmpe.generation import grid
from tests.problems import Shape, random_model, seeds


def made(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 5, int(rng.integers(1, 7)))]
    return random_model(rng, cards, Shape())


@given(seeds)
def test_a_plan_eliminates_every_variable_once_and_uses_every_table_once(seed):
    model = made(seed)
    scopes = [f.scope for f in model.factors]
    plan = make_plan(model.cardinalities, scopes, seed=seed)
    assert sorted(plan.order) == list(range(model.variables))
    used = [number for bucket in plan.buckets for number in bucket.inputs]
    tables = [i for i, scope in enumerate(scopes) if scope]
    messages = [len(scopes) + k for k, bucket in enumerate(plan.buckets) if bucket.scope]
    assert sorted(used) == sorted(tables + messages)


@pytest.mark.parametrize(("side", "width"), [(5, 5), (16, 17), (20, 21)])
def test_grids_get_the_width_of_a_sweep(side, width):
    model = grid(side, side)
    assert make_plan(model.cardinalities, [f.scope for f in model.factors]).width <= width


def test_trees_and_cycles_get_their_width():
    assert make_plan([2] * 50, [(i, (i - 1) // 2) for i in range(1, 50)]).width == 1
    assert make_plan([2] * 50, [(i, (i + 1) % 50) for i in range(50)]).width == 2
    assert make_plan([2] * 6, [(i, j) for i in range(6) for j in range(i)]).width == 5
    assert make_plan([2, 3], []).width == 0


def test_the_same_seed_gives_the_same_plan():
    scopes = [f.scope for f in grid(8, 8).factors]
    assert make_plan([2] * 64, scopes, seed=3) == make_plan([2] * 64, scopes, seed=3)


def test_memory_is_refused_before_it_is_taken():
    plan = make_plan([2] * 60, [(i, j) for i in range(60) for j in range(i)])
    with pytest.raises(TooLarge, match=r"width 59 needs .* TiB; the limit is 4 GiB"):
        plan.require()


def test_the_interaction_graph():
    assert interaction_graph(4, [(0, 1), (1, 2), ()]) == [{1}, {0, 2}, {1}, set()]


@given(seeds)
def test_giving_up_changes_no_plan_that_can_be_used(seed):
    model = made(seed)
    scopes = [f.scope for f in model.factors]

    def plan(hopeless, restarts=4):
        with pytest.MonkeyPatch.context() as patch:
            changed = elimination.ELIMINATION._replace(cheap=0, hopeless=hopeless)
            patch.setattr(elimination, "ELIMINATION", changed)
            return make_plan(model.cardinalities, scopes, seed=seed, restarts=restarts)

    usable = plan(1000, restarts=1).operations.bit_length()
    assert plan(usable) == plan(1000)


def test_hopeless_graphs_get_a_plan_that_says_so():
    model = grid(50, 50, seed=0)
    plan = make_plan(model.cardinalities, [f.scope for f in model.factors])
    assert sorted(plan.order) == list(range(2500))
    assert plan.width >= 50
    with pytest.raises(TooLarge, match="elimination of width"):
        plan.require()
