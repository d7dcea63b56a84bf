"""What is written of one row."""

import numpy as np

from cmpe.bounds.base import Bounds, Work
from cmpe.cli.streaming.jobs import BoundJob
from cmpe.cli.streaming.rows import bound_values, bounds_by_name, front_values, rank_lines
from cmpe.generation import Recipe, generate, grid
from cmpe.problem.rows import Rows
from cmpe.tradeoffs.best import best
from cmpe.tradeoffs.front import front

MADE = generate(grid(3, 3, seed=2), Recipe(samples=20, percentile=60))


def test_the_best_of_several_bounds_is_named():
    bounds = {"a": Bounds.empty(1, 1), "b": Bounds.empty(1, 1)}
    bounds["b"].upper[0] = 3.0
    row = bound_values(0, bounds, ("a", "b", "c"), {"id": ["first"]})
    assert row["id"] == "first"
    assert (row["method"], row["bound"]) == ("b", 3.0)
    assert row["bounds"] == {"a": None, "b": 3.0, "c": None}


def test_bounds_of_all_methods_asked_for():
    job = BoundJob(MADE.problem, ("lagrangian", "minibucket"), Work(), None, "cpu")
    found = bounds_by_name(job, Rows.of(MADE.problem, MADE.test))
    assert list(found) == ["lagrangian", "minibucket"]
    assert np.isfinite(found["lagrangian"].upper).all()


def test_rows_are_counted_from_where_they_begin():
    ranked = best(MADE.problem, MADE.test, 2)
    lines = list(rank_lines(MADE.problem, ranked, 7))
    assert lines[0].startswith('{"index": 7, "rank": 1, ')
    traced = front(MADE.problem, MADE.test[:1])[0]
    assert front_values(7, traced, {})["index"] == 7
    assert front_values(7, traced, {"id": 3})["points"]
