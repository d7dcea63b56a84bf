"""Rounds of soft max-product messages against the same messages of one lane in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from scipy.special import logsumexp

from cmpe.core.lanes import LANES
from cmpe.core.search import loop
from cmpe.core.search.settings import SETTINGS
from cmpe.core.search.starts import pass_messages
from cmpe.solvers.search.messages import message_room
from tests.core.cases import examples
from tests.core.search.cases import SHAPE, Searching
from tests.problems import seeds


def plain_beliefs(case, tables, rounds):
    """The sum of all messages to each free variable; `tables` (E,) are those of one lane."""
    layout, square = case.layout, tables[np.abs(tables) < loop.SETTINGS.steep]
    size = np.sqrt(max(1e-12, (square**2).sum() / len(tables)))
    beliefs = [np.zeros(k) for k in layout.cards]
    messages = {}
    for k in range(rounds):
        warm = SETTINGS.warm * (SETTINGS.cool / SETTINGS.warm) ** (k / max(1, rounds - 1))
        numbers = range(len(layout.offsets) - 1)
        for f in numbers if k % 2 == 0 else reversed(numbers):
            scope = layout.variables[layout.starts[f] : layout.starts[f + 1]]
            shape = layout.cards[scope]
            table = tables[layout.offsets[f] : layout.offsets[f + 1]].reshape(shape) / size
            heard = [beliefs[v] - messages.get((f, v), 0.0) for v in scope]
            for axis, own in enumerate(heard):
                table = table + own.reshape([-1 if i == axis else 1 for i in range(len(scope))])
            for axis, v in enumerate(scope):
                others = tuple(i for i in range(len(scope)) if i != axis)
                new = warm * logsumexp(table / warm, axis=others) - heard[axis]
                damping = SETTINGS.damping if k else 0.0
                old = messages.get((f, v), 0.0)
                messages[f, v] = new - new.max() + damping * (old - (new - new.max()))
                beliefs[v] = heard[axis] + messages[f, v]
    return np.concatenate(beliefs)


@given(seeds)
@examples(60)
def test_messages_are_those_of_numpy(seed):
    case = Searching.random(seed, replace(SHAPE, zeros=False, constraints=0))
    start, rounds = case.start(), int(case.rng.integers(1, 5))
    case.work(loop.BEGIN, values=case.lanes_of(start))
    room = message_room(case.layout, 1)
    chosen = case.rng.random(LANES) < 0.7
    before = case.state.z.copy()
    pass_messages(chosen, rounds, case.layout, case.rules, case.scales, case.state, case.room, room)
    ends = np.cumsum(case.layout.cards)[:-1]
    for lane in range(len(start)):
        wanted = plain_beliefs(case, case.state.tables[:, lane].astype(float), rounds)
        np.testing.assert_allclose(room.beliefs[:, lane], wanted, rtol=1e-3, atol=1e-3)
        for v, own in enumerate(np.split(room.beliefs[:, lane], ends)):
            z = int(np.argmax(own)) if chosen[lane] else before[v, lane]
            assert case.state.z[v, lane] == z


@given(seeds)
@examples(60)
def test_totals_and_the_best_follow_where_messages_lead(seed):
    case = Searching.random(seed, replace(SHAPE, zeros=False))
    start = case.start()
    case.work(loop.BEGIN, values=case.lanes_of(start))
    room, chosen = message_room(case.layout, len(case.problem.models)), np.ones(LANES, dtype=bool)
    pass_messages(chosen, 4, case.layout, case.rules, case.scales, case.state, case.room, room)
    assert (case.state.multipliers >= 0.0).all()
    for row, z in enumerate(start):
        for at in (case.state.z, case.state.kept):
            after = z.copy()
            after[case.free] = at[:, row]
            values = case.channels(row, after[np.newaxis])[0][0]
            if at is case.state.z:
                assert np.allclose(case.state.totals[:, row], values, atol=1e-3)
            elif case.state.best[row] > -np.inf:
                assert np.isclose(case.state.best[row], values[0], atol=1e-3)
                assert case.penalties(row, after[np.newaxis])[0] <= 1e-3
