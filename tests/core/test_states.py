"""Lists of states against plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmpe.core import states as kernels
from cmpe.core.compiler.functions import njit
from cmpe.core.states import (
    COST,
    LOSS,
    NODE_COUNT,
    PRODUCT_LIMIT,
    STATE_COUNT,
    SUM_LIMIT,
    LossBudget,
    States,
    T,
)
from tests.core.cases import examples

seeds = st.integers(0, 2**32 - 1)


def random_states(rng, count, constraints, room=400):
    values = np.zeros((room, T + constraints))
    values[:count] = rng.integers(0, 6, (count, T + constraints)) / 2
    counts = np.zeros(5, dtype=np.int64)
    counts[STATE_COUNT], counts[NODE_COUNT] = count, count
    counts[SUM_LIMIT] = counts[PRODUCT_LIMIT] = 1 << 30
    nodes = np.zeros((room, 2), dtype=np.int32)
    nodes[:count] = -1 - np.arange(count)[:, np.newaxis]
    node = np.zeros(room, dtype=np.int64)
    node[:count] = np.arange(count)
    return States(values, node, nodes, counts)


@njit(cache=False)
def settle(states, low, high, heap):
    return kernels.settled(states, low, high, heap)


@njit(cache=False)
def join(states, a, b, budget):
    return kernels.combine(states, 0, a, a, b, budget)


@njit(cache=False)
def order_lists(lows, highs, order, active):
    kernels.shortest_last(lows, highs, order, active)


@njit(cache=False)
def read(nodes, root, stack, block):
    kernels.read(nodes, root, stack, block, 0)


def dominators(keys, i):
    """How many other keys are nowhere higher than key i, the first of equal ones first."""
    lower = (keys <= keys[i]).all(axis=1)
    equal = (keys == keys[i]).all(axis=1)
    return int((lower & ~equal).sum() + equal[:i].sum())


@given(seeds, st.integers(1, 3))
@examples(100)
def test_undominated_states_stay(seed, constraints):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 40))
    states = random_states(rng, count, constraints)
    keys = states.values[:count, COST:].copy()
    end = settle(states, 0, count, np.empty(1))
    wanted = {tuple(keys[i]) for i in range(count) if dominators(keys, i) == 0}
    stays = {tuple(key) for key in states.values[:end, COST:]}
    assert (np.diff(states.values[:end, COST]) >= 0).all()
    assert end == len(stays)
    assert wanted <= stays
    for key in stays - wanted:  # a state of equal cost and t_1 may dominate it
        assert any(key[:2] == other[:2] for other in wanted)
    assert constraints > 1 or stays == wanted


@given(seeds, st.integers(2, 4))
@examples(60)
def test_the_best_states_of_each_t_stay(seed, rank):
    """Of long lists: those that fewer than `rank` states dominate, ties included."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4 * rank + 1, 60))
    states = random_states(rng, count, 1)
    keys = states.values[:count, COST:].copy()
    end = settle(states, 0, count, np.empty(rank))
    stays = sorted(tuple(key) for key in states.values[:end, COST:])
    wanted = sorted(tuple(keys[i]) for i in range(count) if dominators(keys, i) < rank)
    assert stays == wanted


@given(seeds)
@examples(60)
def test_sums_within_the_budget(seed):
    rng = np.random.default_rng(seed)
    a, b = int(rng.integers(1, 8)), int(rng.integers(1, 8))
    states = random_states(rng, a + b, 2)
    budget = LossBudget(3.0, 0.5, 4.0, 3.5)
    values = states.values[: a + b].copy()
    assert join(states, a, a + b, budget)
    wanted = []
    for i in range(a):
        for j in range(a, a + b):
            both = values[i] + values[j]
            tilt = 0.5 * (both[LOSS] - both[COST])
            if both[LOSS] <= 3.0 and both[LOSS] - tilt <= 4.0 and both[LOSS] + tilt <= 3.5:
                wanted.append((both.tolist(), [i, j]))
    top = int(states.counts[STATE_COUNT])
    formed = [
        (states.values[s].tolist(), states.nodes[states.node[s]].tolist())
        for s in range(a + b, top)
    ]
    assert formed == wanted


def test_a_full_space_is_reported():
    rng = np.random.default_rng(0)
    states = random_states(rng, 30, 1, room=40)
    budget = LossBudget(np.inf, 0.0, np.inf, np.inf)
    assert not join(states, 15, 30, budget)
    states = random_states(rng, 30, 1)
    states.counts[PRODUCT_LIMIT] = 100
    assert not join(states, 15, 30, budget)


def test_the_two_shortest_lists_come_last():
    lows = np.array([0, 10, 12, 20, 21])
    highs = np.array([10, 12, 20, 21, 40])
    order = np.arange(5)
    order_lists(lows, highs, order, 5)
    assert order[4] == 3
    assert order[3] == 1
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_nodes_are_read_back():
    nodes = np.array([[-1 - 2, -1 - 0], [-1 - 1, -1 - 1], [0, 1]], dtype=np.int32)
    block = np.full((3, 1), -1)
    read(nodes, 2, np.zeros(8, dtype=np.int64), block)
    assert block[:, 0].tolist() == [2, 1, -1]
    read(nodes, -1, np.zeros(8, dtype=np.int64), block)
    assert block[:, 0].tolist() == [2, 1, -1]
