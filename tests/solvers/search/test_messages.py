"""Rounds of messages that a search begins with."""

import numpy as np
from hypothesis import given, settings

import cmpe
from cmpe.core.search.settings import SETTINGS
from cmpe.generation import grid
from cmpe.problem import Problem
from cmpe.solvers.base import Running
from cmpe.solvers.search import Search, SearchBatch
from cmpe.solvers.search.block import SearchBlock
from cmpe.solvers.search.messages import message_room, rounds_within
from cmpe.solvers.search.schedule import Budget
from tests.problems import Shape, ask, random_problem, seeds
from tests.solvers.search.cases import many_rows

SMALL = Shape(variables=6, values=4, arity=4, factors=8, constraints=2)


def begun(problem, evidence):
    """A block that stands where its messages lead."""
    instances = problem.given(evidence)
    rows = np.full((len(instances), problem.variables), -1, dtype=np.int32)
    batch = SearchBatch(instances, rows, 0)
    block = SearchBlock(batch.shared, instances, batch.random[: len(instances)])
    if len(batch.shared.pool.layout.cards):
        block.begin(rows, "messages")
    return block


@settings(max_examples=150)
@given(seeds)
def test_messages_alone_are_answers_without_a_false_claim(seed):
    """Zeros, ties, several constraints, up to four values and arity four, infeasible evidence."""
    problem, evidence = random_problem(seed, SMALL)
    state = begun(problem, evidence).state
    cards = [problem.objective.cardinalities[v] for v in problem.free]
    assert np.isfinite(state.multipliers).all()
    assert (state.multipliers >= 0.0).all()
    assert (state.z >= 0).all()
    assert (state.z < np.array(cards, dtype=int).reshape(-1, 1)).all()
    found = ask(Search(passes=0), problem, evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    assert not (found.feasible & ~truth.feasible).any()
    both = found.feasible & truth.feasible
    assert (found.objective[both] <= truth.objective[both] + 1e-9).all()
    assert (found.bound >= np.where(truth.feasible, truth.objective, -np.inf) - 1e-9).all()


def test_rounds_by_the_time_there_is():
    """As many as fit into a share of the time, within bounds; none where tables are large and time
    is short: single moves are quicker there."""
    problem, evidence = many_rows(side=8, rows=4)
    layout = begun(problem, evidence).shared.pool.layout
    each = SETTINGS.message_seconds * float(
        (np.diff(layout.offsets) * (1 + np.diff(layout.starts))).sum()
    )
    assert rounds_within(layout, Budget(), 4) == SETTINGS.rounds
    for seconds, rounds in (
        (1e-9, SETTINGS.least_rounds),
        (10.5 * each / SETTINGS.rounds_share, 10),
        (1.0, SETTINGS.rounds),
    ):
        assert rounds_within(layout, Budget(seconds=seconds / 4), 4) == rounds
    larger = layout._replace(offsets=SETTINGS.cheap_messages * layout.offsets)
    assert rounds_within(larger, Budget(seconds=each), 4) == 0
    assert rounds_within(larger, Budget(seconds=1e3), 4) == SETTINGS.rounds


def test_rows_have_room_for_themselves():
    problem, evidence = many_rows(side=6, rows=2)
    layout = begun(problem, evidence).shared.pool.layout
    room = message_room(layout, 2)
    assert len(room.beliefs) == layout.cards.sum()
    assert len(room.messages) == layout.cards[layout.variables].sum()
    assert len(room.work) >= np.diff(layout.offsets).max() + layout.cards.max()
    assert room.gram.shape[:2] == (2, 2)


def test_every_other_replica_begins_with_single_moves():
    problem, evidence = many_rows(side=8, rows=2)
    block = begun(problem, evidence)
    lanes = block.state.z.T.reshape(-1, 2, len(block.state.z))  # (replica, row, variable)
    for row in range(2):
        own = {z.tobytes() for z in lanes[::2, row]}
        others = {z.tobytes() for z in lanes[1::2, row]}
        assert len(own) == 1
        assert len(others) > 1


def test_a_start_is_not_replaced():
    problem, evidence = many_rows(side=8, rows=3)
    best = cmpe.solve(problem, evidence, method="exact")
    begin = Running(start=best.assignments)
    found = ask(Search(passes=0), problem, evidence, running=begin)
    np.testing.assert_allclose(found.objective, best.objective, atol=1e-9)


def test_one_variable_is_left():
    model = grid(4, 4, seed=2)
    problem = Problem(model, (), tuple(range(1, model.variables)))
    rows = cmpe.sample(model, 2, seed=1).assignments[:, 1:]
    found = ask(Search(passes=0), problem, rows)
    truth = cmpe.solve(problem, rows, method="exhaustive")
    np.testing.assert_allclose(found.objective, truth.objective)
