"""The refinement of a band: valid however bad the answers are, and never held up by one place."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe.tradeoffs.wide.pricing as pricing
from cmpe import Limits, Problem
from cmpe.core.compiler import timing
from cmpe.generation import grid
from cmpe.solution import Solutions
from cmpe.tradeoffs.wide.questions import Kind
from cmpe.tradeoffs.wide.refinement import KindAccount, Refinement
from tests.problems import Shape, random_problem, seeds
from tests.tradeoffs.truth import enumerated

EVERYWHERE = (-np.inf, np.inf)
QUESTIONS = 12


def careless(rng):
    """A solver that answers with anything feasible, or not at all, and bounds loosely."""

    def solve(problem, evidence, *_):
        truth = enumerated(problem, evidence)[0]
        good = np.flatnonzero(truth.satisfied())
        best = truth.h[good].max(initial=-np.inf)
        rows = np.full((1, problem.variables), -1, dtype=np.int32)
        if len(good) and rng.random() < 0.8:
            rows = truth.rows[[rng.choice(good)]]
        bound = np.inf if rng.random() < 0.1 else best + rng.choice([0.0, rng.uniform(0.0, 3.0)])
        return Solutions.of(problem, rows, bound=float(bound), infeasible=bound == -np.inf)

    return solve


@settings(max_examples=60)
@given(seeds)
def test_the_band_holds_however_bad_the_answers_are(seed):
    problem, evidence = random_problem(seed, Shape(constraints=3))
    if not problem.constraints:
        return
    over, rng = seed % len(problem.constraints), np.random.default_rng(seed)
    truth = enumerated(problem, evidence)[0]
    good = truth.satisfied(over)
    h, t = truth.h[good], truth.t[good, over]
    own = t[np.isfinite(t)]
    q = np.unique([*own, *(own - 1e-7), *(own + 0.05), -1e4, 1e4])
    best = np.array([h[t <= limit].max(initial=-np.inf) for limit in q])
    room = np.where(np.isfinite(best), 1e-6 * np.maximum(1.0, np.abs(best)), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pricing, "answer", careless(rng))
        instances = problem.given(evidence).take(slice(0, 1))
        refinement = Refinement(instances, over, EVERYWHERE, Limits(seconds=5.0))
        for _ in zip(range(QUESTIONS), refinement.run(), strict=False):
            traced = refinement.band.traced(EVERYWHERE, 0.0)
            assert (traced.bound(q) >= best - room).all()
            assert (refinement.band.lower(q) <= best + room).all()
            if traced.complete:
                np.testing.assert_allclose(traced.h, truth.front(over)[0], atol=1e-5)


def test_a_place_that_does_not_move_does_not_hold_up_the_others(monkeypatch):
    model = grid(4, 4, seed=1)
    problem = Problem(model, [model.perturb(0.5, 1) <= 0.0])
    right, clock = pricing.answer, [0.0]

    def stuck(problem, evidence, method, limits):
        """As `answer`, but nothing is ever proved of most functions; each call takes 10 ms."""
        clock[0] += 0.01
        found = right(problem, evidence, method, limits)
        if not problem.constraints and problem.objective is not model:
            found.bound[:] += 5.0
        return found

    monkeypatch.setattr(pricing, "answer", stuck)
    monkeypatch.setattr(timing, "now", lambda: clock[0])
    refinement = Refinement(problem.given(), 0, EVERYWHERE, Limits(seconds=20.0))
    asked = [q for _, q in zip(range(30), refinement.run(), strict=False)]
    places = {(q.kind, round(q.at, 6)) for q in asked}
    assert len(places) > 8
    assert sum(q.kind is Kind.LIMIT for q in asked) > 5


def test_slices_double_when_the_same_is_asked_again():
    model = grid(4, 4, seed=1)
    problem = Problem(model, [model.perturb(0.5, 1) <= 0.0])
    refinement = Refinement(problem.given(), 0, EVERYWHERE, Limits(seconds=50.0))
    first = next(refinement.run())
    assert refinement.seconds_of(first) == pytest.approx(2.0 * 0.1)


def test_accounts_follow_what_came_out():
    account = KindAccount()
    account.note(0.0, 2.0)
    assert account.gain < 1.0 < account.use
