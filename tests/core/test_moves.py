"""Gains of single moves against values of whole assignments."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.core import moves
from cmpe.core.compiler.functions import njit
from cmpe.core.moves import Point
from cmpe.solvers.local.graph import Graph
from tests.core.enumerated import EnumeratedRows
from tests.problems import Shape

seeds = st.integers(0, 2**32 - 1)


@njit(cache=False)
def make_moves(graph, point, slots):
    moves.load(graph, point)
    for i in range(len(slots)):
        moves.move(slots[i], graph, point)


@given(seeds)
@settings(max_examples=80, deadline=None)
def test_gains_follow_moves(seed):
    """After any moves each gain is the difference of two values of the model."""
    case = EnumeratedRows(seed, Shape(variables=5, values=3, zeros=False, constraints=0))
    structure, rng = case.instances.conditioning, np.random.default_rng(seed)
    graph = Graph.of(structure)
    slots, free = len(graph.owner), len(graph.free)
    if free == 0:
        return
    values = np.zeros((len(structure.layout.values), 2))
    values[:, 0] = case.instances.tables(0, slice(0, 1))[0]
    point = Point(
        values, np.zeros(free, np.uint64), np.zeros(len(graph.offsets) - 1, np.uint64),
        np.zeros(2), np.zeros((slots + 1, 2)),
    )  # fmt: skip
    make_moves(graph, point, rng.integers(0, slots, 6).astype(np.uint64))
    row = case.instances.complete(np.zeros((case.count, len(case.problem.free))))[0]
    row[graph.free.astype(int)] = point.z
    h = case.problem.objective.value(row[np.newaxis])[0]
    assert abs(point.total[0] - h) <= 1e-9
    first = graph.variables[:, moves.SLOT].astype(int)
    for slot in range(slots):
        v = int(graph.owner[slot])
        other = row.copy()
        other[int(graph.free[v])] = slot - first[v]
        gain = case.problem.objective.value(other[np.newaxis])[0] - h
        assert abs(point.delta[slot, 0] - gain) <= 1e-9
    assert (point.delta[slots] == 0).all()
