"""Rules over a few variables against plain Python."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cmpe.models import logic
from cmpe.models.logic import Automaton, occurrences, outside, tabulated
from tests.problems import all_assignments


@pytest.mark.parametrize("shape", [(), (3,), (2, 1, 3), (2, 3, 2, 2)])
def test_tables_hold_the_rule_of_every_assignment(monkeypatch, shape):
    monkeypatch.setattr(logic, "ROWS", 5)
    table = tabulated(shape, lambda rows: rows @ (10.0 ** np.arange(len(shape))))
    assert table.shape == shape
    for row in itertools.product(*map(range, shape)):
        assert table[row] == sum(v * 10.0**k for k, v in enumerate(row))


def test_counts_and_distances():
    rows = all_assignments((3, 3, 2))
    assert occurrences(rows, (1, 2)).tolist() == [sum(v > 0 for v in row) for row in rows.tolist()]
    assert outside(np.arange(6.0), 2, 3).tolist() == [2, 1, 0, 0, 1, 2]
    assert outside(np.arange(3.0), -math.inf, 1).tolist() == [0, 0, 1]


@pytest.mark.parametrize("seed", range(30))
def test_automata_by_all_their_paths(monkeypatch, seed):
    monkeypatch.setattr(logic, "REACHED", 20)
    rng = np.random.default_rng(seed)
    states, length = int(rng.integers(1, 4)), int(rng.integers(0, 4))

    def some(items):
        return {item: float(rng.integers(-2, 5)) for item in items if rng.random() < 0.6}

    steps = some(itertools.product(range(states), range(2), range(states)))
    automaton = Automaton(states, some(range(states)), some(range(states)), steps)
    paths = [((), q, cost) for q, cost in automaton.starts.items()]
    for _ in range(length):
        paths = [
            ((*word, v), r, cost + c)
            for word, q, cost in paths
            for (p, v, r), c in steps.items()
            if p == q
        ]
    words = [(word, cost + automaton.ends[q]) for word, q, cost in paths if q in automaton.ends]
    rows = np.array(list(itertools.product(range(2), repeat=length))).reshape(2**length, length)
    for row, cost, changes in zip(
        rows.tolist(), automaton.cost(rows), automaton.changes(rows), strict=True
    ):
        own = [c for word, c in words if list(word) == row]
        gaps = [sum(a != b for a, b in zip(row, word, strict=True)) for word, _ in words]
        assert cost == min(own, default=math.inf)
        assert changes == min(gaps, default=math.inf)
