"""The pool of subgraphs: widths, balls, and structures that share one."""

import numpy as np
from hypothesis import given, settings

from cmpe import LogLinearModel, Problem
from cmpe.generation import grid
from cmpe.solvers.base import Limits
from cmpe.solvers.search import KINDS, Search
from cmpe.solvers.search import pool as pools
from cmpe.solvers.search.pool import MemberKind, adjacency, subgraphs, tables_of
from tests.problems import Shape, ask, random_problem, seeds
from tests.solvers.search.cases import member_variables


@settings(max_examples=60)
@given(seeds)
def test_members_respect_their_width(seed):
    problem, _ = random_problem(seed, Shape(variables=9, arity=3, factors=14))
    structure = problem.conditioning
    kinds = (MemberKind(2.0, 0, 3), MemberKind(4.0, 5, 3))
    pool = subgraphs(structure, kinds, seed % 5)
    buckets = pool.pool.buckets
    for kind, group in zip(kinds, pool.groups, strict=True):
        for m in group:
            low, high = pool.pool.members[m, :2]
            assert (buckets[low:high, 5] <= 2**kind.bits + 1e-9).all()  # message sizes
            assert len(set(buckets[low:high, 0])) == high - low
            if kind.vertices:
                assert high - low <= kind.vertices
    assert subgraphs(structure, kinds, seed % 5) is pool


def test_a_narrow_graph_is_one_member():
    problem = Problem(grid(3, 20), ())
    pool = subgraphs(problem.conditioning, (MemberKind(4.0, 0, 10),))
    assert len(pool.pool.members) == 1
    assert len(member_variables(pool, 0)) == 60


def test_hubs_and_variables_of_very_many_values():
    """They are in no member of the whole graph; moves of `local` still reach them."""
    rng = np.random.default_rng(0)
    cards = (300, *[2] * 300)
    tables = [((0, v), rng.normal(size=(300, 2))) for v in range(1, 301)]
    problem = Problem(LogLinearModel.from_tables(cards, tables), ())
    pool = subgraphs(problem.conditioning, KINDS)
    held = {v for m in range(len(pool.pool.members)) for v in member_variables(pool, m)}
    assert 0 not in held
    assert len(held) == 300
    found = ask(Search(passes=20), problem)
    assert found.feasible.all()
    hub = found.assignments[0, 0]
    best = sum(table[hub].max() for _, table in tables)
    np.testing.assert_allclose(found.objective, best)


def test_neighbours_of_a_chain_with_an_observed_end():
    """Of 0 - 1 - 2 - 3 the last is observed, so that the free ones are a shorter chain."""
    structure = Problem(grid(1, 4), (), (3,)).conditioning
    starts, near = adjacency(structure)
    assert starts.tolist() == [0, 1, 3, 4]
    assert near.tolist() == [1, 0, 2, 1]


def test_tables_by_free_variable():
    model = LogLinearModel.from_tables(
        [2, 3, 2], [((0, 1), np.zeros((2, 3))), ((1,), np.zeros(3)), ((2,), np.zeros(2))]
    )
    structure = Problem(model, (), (0,)).conditioning
    assert structure.scopes == ((), (1,), (2,))
    layout = tables_of(structure)
    assert layout.cards.tolist() == [3, 2]
    assert layout.offsets.tolist() == [0, 1, 4, 6]
    assert layout.variables.tolist() == [0, 1]


def test_balls_stay_near_and_the_whole_graph_ends_a_kind():
    structure = Problem(grid(6, 6)).conditioning
    pool = subgraphs(structure, (MemberKind(20.0, 0, 9), MemberKind(20.0, 5, 4)))
    whole, balls = pool.groups
    assert len(whole) == 1
    assert len(member_variables(pool, whole[0])) == 36
    assert len(balls) == 4
    starts, near = adjacency(structure)
    for m in balls:
        inside = set(member_variables(pool, m).tolist())
        assert 1 <= len(inside) <= 5
        if len(inside) > 1:  # every vertex of a ball is next to another
            assert all(inside & set(near[starts[v] : starts[v + 1]].tolist()) for v in inside)


def test_no_free_variable_has_no_member():
    structure = Problem(grid(1, 2), (), (0, 1)).conditioning
    pool = subgraphs(structure, KINDS)
    assert len(pool.pool.members) == 0
    assert [len(group) for group in pool.groups] == [0, 0, 0]
    assert pool.sizes.tolist() == [1, 1, 1]


def test_structures_are_shared_and_the_oldest_is_forgotten():
    kinds = (MemberKind(4.0, 0, 1),)
    structures = [Problem(grid(1, n)).conditioning for n in range(2, 3 + pools.SETTINGS.pools)]
    first = subgraphs(structures[0], kinds)
    assert subgraphs(Problem(grid(1, 2, seed=9)).conditioning, kinds) is first
    assert subgraphs(structures[0], kinds, seed=1) is not first
    for structure in structures[1:]:
        subgraphs(structure, kinds)
    assert subgraphs(structures[0], kinds) is not first


def test_a_pool_that_was_cut_short_is_completed_and_then_the_same():
    """A first call in a hurry must not leave later ones with a pool of three members."""
    structure = Problem(grid(12, 12)).conditioning
    at_once = subgraphs(structure, KINDS)
    for length in range(2, 3 + pools.SETTINGS.pools):  # others, until it is forgotten
        subgraphs(Problem(grid(1, length)).conditioning, (MemberKind(4.0, 0, 1),))
    hurried = subgraphs(structure, KINDS, until=-np.inf)
    assert [len(group) for group in hurried.groups] == [1, 1, 1]
    later = subgraphs(structure, KINDS)
    assert [len(group) for group in later.groups] == [kind.number for kind in KINDS]
    for ours, theirs in zip(later.pool, at_once.pool, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_search_goes_on_with_its_pool_where_a_call_was_short():
    """It gave every later answer of the structure what a first one of 1 ms had time for."""
    instances = Problem(grid(13, 11, seed=3)).given()
    limits = Limits(seconds=1e-3)
    Search().answer(instances, limits)
    found = Search(passes=40).answer(instances, Limits())
    fresh = Search(passes=40).answer(Problem(grid(13, 11, seed=3)).given(), Limits())
    assert found.objective[0] == fresh.objective[0]
