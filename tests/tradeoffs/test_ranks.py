"""The k best by elimination: ties, long lists, and too little room."""

import numpy as np

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.generation import grid
from cmpe.tradeoffs import ranks


def test_ties_are_broken_by_the_assignment():
    flat = LogLinearModel.from_tables([2] * 6, [((0, 1), np.zeros((2, 2)))])
    ranked = cmpe.best(Problem(flat), k=5)[0]
    assert ranked.assignments[:, 3:].tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0]
    ]  # fmt: skip
    assert ranked[4].status is cmpe.Status.OPTIMAL


def test_a_cut_search_leaves_a_bound(monkeypatch):
    made = cmpe.generate(grid(6, 6, seed=1), cmpe.Recipe(samples=40, percentile=30))
    whole = cmpe.best(made.problem, made.test[:1], 51)[0]
    monkeypatch.setattr(ranks, "SPACES", (1 << 7,))
    ranked = cmpe.best(made.problem, made.test[:1], 50)[0]
    assert not ranked.complete
    assert ranked.bound >= whole.objective[len(ranked)]
    assert "a missing one" in repr(ranked)


def test_ten_answers_begin_a_hundred():
    made = cmpe.generate(grid(7, 7, seed=3), cmpe.Recipe(samples=40, percentile=30))
    many = cmpe.best(made.problem, made.test[:4], 100)
    for few, more in zip(cmpe.best(made.problem, made.test[:4], 10), many, strict=True):
        np.testing.assert_array_equal(few.assignments, more.assignments[:10])
        assert few.bound == more.objective[10]
        assert more.complete


def test_the_time_of_a_row_may_be_over():
    made = cmpe.generate(grid(7, 7, seed=3), cmpe.Recipe(samples=40, percentile=30))
    ranked = cmpe.best(made.problem, made.test[:1], 5000, time_limit=1e-6)[0]
    assert not ranked.complete
    assert ranked.bound > -np.inf
