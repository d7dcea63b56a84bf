"""A block of rows: passes are exact given the rest, beginnings are what they claim."""

import itertools
import threading
from dataclasses import replace

import numpy as np
from hypothesis import given, settings

import cmpe
from cmpe import Problem
from cmpe.generation import grid
from cmpe.solvers.search import BEGINNINGS, SearchBatch
from cmpe.solvers.search.block import SearchBlock
from cmpe.solvers.search.pool import MemberKind, subgraphs
from tests.problems import Shape, random_problem, random_start, seeds, worked_example
from tests.solvers.search.cases import many_rows, member_variables

FINITE = Shape(variables=7, values=4, arity=4, factors=10, constraints=2, zeros=False)


@settings(max_examples=60)
@given(seeds)
def test_a_pass_is_an_exact_optimum_given_the_rest(seed):
    """h - sum mu_j t_j over the member's variables, against enumeration."""
    problem, evidence = random_problem(seed, FINITE)
    instances = problem.given(evidence)
    free = list(instances.conditioning.free)
    if not free:
        return
    rng = np.random.default_rng(seed)
    start = random_start(problem, len(evidence), seed)
    start[:, list(problem.evidence_variables)] = evidence
    batch = SearchBatch(instances, start.copy(), 0)
    kinds = (MemberKind(2.0, 0, 3), MemberKind(3.0, 4, 3))
    pool = subgraphs(instances.conditioning, kinds, seed % 7)
    fixed = replace(batch.shared, pool=pool, scratch=threading.local())
    block = SearchBlock(fixed, instances, batch.random[: len(start)])
    block.begin(start, "random")
    state, mu = block.state, rng.uniform(0, 2, len(problem.constraints))
    m = int(rng.integers(len(pool.pool.members)))
    state.multipliers[:] = mu[:, np.newaxis]
    one = np.array([m]), np.zeros(1), np.zeros(1)
    block.go(one, repair=1)
    after = instances.complete(state.z[:, : len(start)].T)
    moved = [free[v] for v in member_variables(pool, m)]
    others = [v for v in range(problem.variables) if v not in moved]
    np.testing.assert_array_equal(after[:, others], start[:, others])

    def worth(rows):
        return problem.objective.value(rows) - problem.constraint_values(rows) @ mu

    cards = [problem.objective.cardinalities[v] for v in moved]
    choices = np.array(list(itertools.product(*map(range, cards))))
    for before, found in zip(start, after, strict=True):
        rows = np.repeat(before[np.newaxis], len(choices), axis=0)
        rows[:, moved] = choices
        assert worth(found[np.newaxis])[0] >= worth(rows).max() - 1e-4
    totals = np.column_stack([problem.objective.value(after), problem.constraint_values(after)])
    np.testing.assert_allclose(state.totals[:, : len(start)].T, totals, atol=1e-4)


def block_of(problem, evidence, rows=None):
    """A block of all rows, from a batch that has only begun."""
    instances = problem.given(evidence)
    if rows is None:
        rows = np.full((len(instances), problem.variables), -1, dtype=np.int32)
    batch = SearchBatch(instances, rows, 0)
    return SearchBlock(batch.shared, instances, batch.random[: len(instances)])


def begun(begin, problem, evidence):
    """Where the lanes of a block stand before the first pass."""
    rows = np.full((len(evidence), problem.variables), -1, dtype=np.int32)
    block = block_of(problem, evidence, rows)
    block.begin(rows, begin)
    return problem.given(evidence).complete(block.state.z[:, : len(evidence)].T)


def test_messages_are_exact_on_trees():
    """On a chain without constraints, max-product finds the optimum."""
    problem = Problem(grid(1, 30, values=3, seed=2), (), (0, 7))
    evidence = np.array([[0, 1], [2, 2], [1, 0]])
    truth = cmpe.solve(problem, evidence, method="exact")
    np.testing.assert_array_equal(begun("messages", problem, evidence), truth.assignments)


def test_icm_stops_where_no_move_raises_h():
    problem, evidence = many_rows(rows=5)
    rows = begun("icm", problem, evidence)
    best = problem.objective.value(rows)
    for v in problem.conditioning.free:
        other = rows.copy()
        other[:, v] = 1 - other[:, v]
        assert (problem.objective.value(other) <= best + 1e-9).all()


def test_better_beginnings_are_better():
    """Without constraints: messages beat single moves, these a random assignment."""
    problem, evidence = many_rows(side=12, rows=16)
    free = Problem(problem.objective, (), problem.evidence_variables)
    values = [problem.objective.value(begun(begin, free, evidence)).mean() for begin in BEGINNINGS]
    assert values[0] > values[1] > values[2]


def test_a_block_stands_where_its_rows_start():
    """Spare lanes hold replicas of the rows, in turn; totals are h and t of where they stand."""
    problem, evidence = worked_example(), [[1, 1], [0, 1]]
    start = np.array([[1, 1, 0, 1], [0, 1, 1, 0]], dtype=np.int32)
    block = block_of(problem, evidence, start)
    block.begin(start, "icm")
    state = block.state
    lanes = np.arange(state.z.shape[1])
    np.testing.assert_array_equal(state.z[:, lanes], start[lanes % 2][:, 2:].T)
    expected = [problem.objective.value(start), problem.constraint_values(start)[:, 0]]
    np.testing.assert_allclose(state.totals[:, :2], expected)
    assert len(set(state.random.tolist())) == len(lanes)  # replicas go their own ways
