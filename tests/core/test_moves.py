"""Moves of one row: gains, penalties and local optima against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.compiler.functions import njit
from cmpe.core.moves import SLOT, climb, load, move, penalty, polish
from tests.core.cases import Moving, examples
from tests.problems import Shape, seeds

PAIRS = Shape(variables=5, values=3, arity=2, factors=9)


@njit(cache=False)
def moved(slots, graph, rules, point):
    load(graph, point)
    for slot in slots:
        move(slot, graph, point)
    return penalty(len(graph.owner), rules, point)


@njit(cache=False)
def climbed(sweeps, graph, rules, point, notes):
    load(graph, point)
    if sweeps == 0:
        climb(graph, rules, point)
    else:
        polish(sweeps, graph, rules, point, notes)


def is_better(case, row, after, before):
    """Whether some of the assignments `after` beat `before` (n,) by more than rounding."""
    z = np.concatenate([before[np.newaxis], after])
    away, h = case.penalties(row, z), case.channels(row, z)[0][:, 0]
    higher = h[1:] - h[0] > case.rules.gain + 1e-9
    return ((away[1:] < away[0] - 1e-9) | ((away[1:] <= away[0]) & higher)).any()


def end_of(case, z, slots):
    """Where moves lead: a slot is a value of a free variable."""
    z = z.copy()
    for slot in slots:
        v = int(case.graph.owner[slot])
        z[case.free[v]] = int(slot) - int(case.graph.variables[v, SLOT])
    return z


@given(seeds)
@examples(150)
def test_gains_and_penalties_are_those_of_the_assignments(seed):
    case = Moving.random(seed)
    for row, z in enumerate(case.start()):
        point, _ = case.point(row, z)
        slots = case.rng.integers(0, len(case.graph.owner), 6) if case.free else []
        away = moved(np.array(slots, dtype=np.uint64), case.graph, case.rules, point)
        here = end_of(case, z, slots)
        assert np.array_equal(point.z, here[case.free])
        after = np.array([end_of(case, here, [s]) for s in range(len(case.graph.owner))] + [here])
        assert np.isclose(away, case.penalties(row, after)[-1], rtol=1e-9, atol=1e-9)
        finite, zeros = case.channels(row, after)
        totals = point.total + point.delta
        assert np.allclose(totals[:, : finite.shape[1]], finite, rtol=1e-12, atol=1e-9)
        for k, channel in enumerate(case.rules.zeros):
            assert channel < 0 or np.array_equal(totals[:, channel], zeros[:, k])


@given(seeds)
@examples(150)
def test_climbs_end_where_no_single_move_is_better(seed):
    case = Moving.random(seed)
    for row, z in enumerate(case.start()):
        point, notes = case.point(row, z)
        climbed(0, case.graph, case.rules, point, notes)
        end = z.copy()
        end[case.free] = point.z
        assert not is_better(case, row, case.neighbours(end), end)
        before, after = case.penalties(row, np.stack([z, end]))
        assert after <= before + 1e-9


@given(seeds)
@examples(150)
def test_polished_points_have_no_better_pair_of_neighbours_and_no_better_exchange(seed):
    case = Moving.random(seed, PAIRS, least=3)
    for row, z in enumerate(case.start()):
        point, notes = case.point(row, z)
        climbed(0, case.graph, case.rules, point, notes)
        end = z.copy()
        end[case.free] = point.z
        if case.penalties(row, end[np.newaxis])[0] > 0.0:
            continue
        climbed(30, case.graph, case.rules, point, notes)
        end[case.free] = point.z
        for first in case.neighbours(end):
            v = np.flatnonzero(first != end)[0]
            seconds = case.neighbours(first)
            near = {u for scope in case.structure.scopes if v in scope for u in scope} - {v}
            joined = [np.flatnonzero(one != first)[0] in near for one in seconds]
            h = case.channels(row, np.stack([end, first]))[0][:, 0]
            rises = h[1] > h[0] + 1e-9
            assert not is_better(case, row, seconds if rises else seconds[joined], end)
