"""Contestants, each alone on a small problem, find the optimum or bound it."""

from dataclasses import replace

import numpy as np
import pytest

import cmpe
from cmpe import Limits
from cmpe.core.compiler import timing
from cmpe.generation import grid
from cmpe.solvers.incumbent import Incumbent
from cmpe.solvers.reduction import Splits
from cmpe.solvers.wide import turns
from cmpe.solvers.wide.network import NetworkShape, RowNetwork
from cmpe.solvers.wide.reduced import Reduced

MODEL = grid(5, 5, seed=4)
FREE = cmpe.Problem(MODEL)
OPTIMUM = cmpe.solve(FREE).assignments[0]
LIMITED = cmpe.Problem(MODEL, (cmpe.Constraint(MODEL.perturb(0.1, 1), 20.0),))


def contestants(problem, until):
    reduced, best = Reduced.of(problem.given(), 0), Incumbent(problem, 0.0)
    shape = NetworkShape(reduced.instances.conditioning)
    prices = np.full(len(problem.constraints), 0.5)
    network = RowNetwork(shape, reduced.instances, 0, prices)
    yield turns.SearchTurns(reduced, best, Limits()), best
    yield turns.ConsistencyTurns(reduced, best, network.copied()), best
    yield turns.BranchTurns(reduced, best, network.copied()), best
    yield turns.SplitTurns(reduced, best, Splits(problem, 0), turns.Patience(1.0)), best
    yield turns.MilpTurns(reduced, best, Limits()), best
    yield turns.EliminationTurns(reduced, best, until), best


@pytest.mark.parametrize("problem", [FREE, LIMITED])
def test_bounds_hold_and_the_optimum_is_found(problem):
    truth = float(cmpe.solve(problem).objective[0])
    until = timing.now() + 60.0
    found = -np.inf
    for contestant, best in contestants(problem, until):
        bound = contestant.play(timing.now() + 1.0)
        assert bound >= truth - 1e-9
        assert best.objective >= found
        found = best.objective
    assert found == pytest.approx(truth)


def test_what_does_not_fit_is_not_begun(monkeypatch):
    monkeypatch.setattr(turns, "SETTINGS", replace(turns.SETTINGS, milp_entries=10))
    reduced, best = Reduced.of(FREE.given(), 0), Incumbent(FREE, 0.0)
    assert not turns.MilpTurns.suits(reduced)
    assert turns.MilpTurns(reduced, best, Limits()).play(timing.now() + 0.1) == np.inf
    late = turns.EliminationTurns(reduced, best, timing.now() + 1e3)
    assert not late.finished
    monkeypatch.setattr(turns.timing, "now", lambda: np.inf)
    assert late.play(0.0) == np.inf
    assert late.finished
    assert turns.EliminationTurns(reduced, best, 0.0).finished
    assert turns.SearchTurns(reduced, best, Limits()).play(0.0) == np.inf
    assert best.assignment is None


def test_a_split_that_takes_too_long_ends_splitting():
    problem = cmpe.Problem(grid(40, 40, seed=1))
    reduced, best = Reduced.of(problem.given(), 0), Incumbent(problem, 0.0)
    splitting = turns.SplitTurns(reduced, best, Splits(problem, 0), turns.Patience(-1.0))
    assert splitting.play(timing.now() + 1e-3) == np.inf
    assert splitting.finished


def segmentation(side, at_most):
    """Binary, neighbours like to agree, and the ones are counted."""
    rng = np.random.default_rng(5)
    number = np.arange(side * side).reshape(side, side)
    tables = [((v,), [0.0, g]) for v, g in enumerate(rng.normal(0.5, 1.5, side * side).tolist())]
    for one, two in ((number[:, :-1], number[:, 1:]), (number[:-1], number[1:])):
        pairs = zip(one.ravel().tolist(), two.ravel().tolist(), strict=True)
        tables += [(pair, [[0.8, 0.0], [0.0, 0.8]]) for pair in pairs]
    model = cmpe.LogLinearModel.from_tables([2] * side * side, tables)
    area = cmpe.count(dict.fromkeys(range(side * side), 1))
    return cmpe.Problem(model, [area <= at_most])


def test_consistency_leaves_prices_that_are_far_off():
    """Prices of the first moment were kept for good: gaps of hundreds of nats (issue 17)."""
    problem = segmentation(16, 100)
    reduced, best = Reduced.of(problem.given(), 0), Incumbent(problem, 0.0)
    shape = NetworkShape(reduced.instances.conditioning)

    def bound(price):
        network = RowNetwork(shape, reduced.instances, 0, np.array([price]))
        network.tighten(np.inf, 200, -1.0)
        return network.now

    least = min(bound(price) for price in np.arange(0.0, 4.0, 0.25))
    assert bound(0.0) > least + 20.0
    network = RowNetwork(shape, reduced.instances, 0, np.zeros(1))
    consistency = turns.ConsistencyTurns(reduced, best, network)
    assert consistency.play(np.inf) <= least + 0.5
    assert best.assignment is not None


def test_lengths_of_runs():
    assert [turns.luby(k) for k in range(1, 16)] == [1, 1, 2, 1, 1, 2, 4, 1, 1, 2, 1, 1, 2, 4, 8]


class Runs:
    """Stands in for `Search`: given answers, on a clock that only runs advance."""

    def __init__(self, monkeypatch, problem, answers, overrun=1.0):
        self.problem, self.answers, self.clock, self.overrun = problem, iter(answers), 0.0, overrun
        self.starts, self.kinds, self.lengths = [], [], []
        monkeypatch.setattr(turns, "Search", self.kind)
        monkeypatch.setattr(turns.timing, "now", lambda: self.clock)

    def kind(self, bounds, heat, begin):
        self.kinds.append((begin, heat))
        return self

    def answer(self, instances, limits):
        self.starts.append(limits.start is None)
        self.lengths.append(limits.seconds)
        self.clock += self.overrun * limits.seconds
        return cmpe.Solutions.of(self.problem, next(self.answers)[np.newaxis])


def test_runs_begin_from_scratch_after_one_in_vain(monkeypatch):
    best = Incumbent(FREE, 0.0)
    best.offer(np.zeros(FREE.variables, dtype=np.int32))
    runs = Runs(monkeypatch, FREE, 18 * [OPTIMUM])
    player = turns.SearchTurns(Reduced.of(FREE.given(), 0), best, Limits())
    while len(runs.starts) < 18:
        player.play(runs.clock + 0.4)
    assert runs.starts[:3] == [False, False, True]  # the first run improves, the second is in vain
    assert sum(runs.starts[2:]) == 12  # then three of four, for they come close
    by_start = {True: [], False: []}
    for is_scratch, kind in zip(runs.starts, runs.kinds, strict=True):
        by_start[is_scratch].append(kind)
    assert by_start[True] == 4 * list(turns.SCRATCHES)
    assert set(by_start[False]) == {turns.USUAL}


def test_a_run_from_scratch_that_improves_is_followed_by_another(monkeypatch):
    rows = np.random.default_rng(0).integers(0, 2, (64, FREE.variables), dtype=np.int32)
    rows = rows[np.argsort(FREE.objective.value(rows))]
    runs = Runs(monkeypatch, FREE, rows[[-2, -2, -1, 0, 0]])
    player = turns.SearchTurns(Reduced.of(FREE.given(), 0), Incumbent(FREE, 0.0), Limits())
    while len(runs.starts) < 5:
        player.play(runs.clock + 0.4)
    # without an answer, in vain from one, better from scratch, far off, and from the best again
    assert runs.starts == [True, False, True, True, False]


def test_a_turn_is_one_run_at_least_and_a_short_rest_is_none(monkeypatch):
    runs = Runs(monkeypatch, FREE, 2 * [OPTIMUM], overrun=2.4)
    player = turns.SearchTurns(Reduced.of(FREE.given(), 0), Incumbent(FREE, 0.0), Limits())
    player.play(1.0)  # the run ends at 0.96: 0.04 s are left
    player.play(runs.clock + 0.01)
    assert runs.lengths == [pytest.approx(0.4), pytest.approx(0.01)]
