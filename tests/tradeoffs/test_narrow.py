"""Fronts by elimination: the space for states, and the bound where it is too small."""

import numpy as np

import cmpe
from cmpe.generation import Recipe, generate, grid
from cmpe.tradeoffs import narrow


def test_too_little_space_leaves_a_valid_band(monkeypatch):
    made = generate(grid(6, 6, seed=1), Recipe(samples=40, percentile=30))
    whole = cmpe.front(made.problem, made.test[:1])[0]
    monkeypatch.setattr(narrow, "TRADEOFFS", narrow.TRADEOFFS._replace(front_spaces=(1 << 7,)))
    front = cmpe.front(made.problem, made.test[:1])[0]
    assert not front.complete
    assert len(front) > 2
    marks = np.concatenate([whole.values, whole.values - 1e-3, [whole.values[-1] + 5.0]])
    for q in marks:
        best = whole.at(q).objective if q >= whole.values[0] - 1e-9 else -np.inf
        assert front.bound(q) >= best - 1e-9
    assert set(front.values) <= {*front.values}
    known = dict(zip(whole.values, whole.objective, strict=True))
    assert all(
        known.get(t, np.inf) >= h for t, h in zip(front.values, front.objective, strict=True)
    )
    assert len(front.plot().axes) == 1


def test_a_larger_space_is_taken_when_one_is_too_small(monkeypatch):
    made = generate(grid(6, 6, seed=1), Recipe(samples=40, percentile=30))
    whole = cmpe.front(made.problem, made.test[:1])[0]
    monkeypatch.setattr(
        narrow, "TRADEOFFS", narrow.TRADEOFFS._replace(front_spaces=(1 << 7, 1 << 16))
    )
    front = cmpe.front(made.problem, made.test[:1])[0]
    assert front.complete
    np.testing.assert_array_equal(front.objective, whole.objective)


def test_one_front_answers_every_limit():
    made = generate(grid(6, 6, seed=4), Recipe(samples=40, percentile=30))
    front = cmpe.front(made.problem, made.test[:1])[0]
    own = made.problem.constraints[0].function
    rng = np.random.default_rng(0)
    for q in rng.uniform(front.values[0] - 0.5, front.values[-1] + 0.5, 25):
        problem = cmpe.Problem(made.problem.objective, [own <= q], made.problem.evidence_variables)
        solved = cmpe.solve(problem, made.test[:1], method="exact")[0]
        assert front.at(q).status is solved.status
        np.testing.assert_allclose(front.at(q).objective, solved.objective, rtol=1e-9)


def test_a_space_beyond_the_memory_is_not_taken(monkeypatch):
    made = generate(grid(6, 6, seed=1), Recipe(samples=40, percentile=30))
    monkeypatch.setattr(
        narrow, "TRADEOFFS", narrow.TRADEOFFS._replace(front_spaces=(1 << 7, 1 << 16))
    )
    monkeypatch.setattr(narrow, "allowed_bytes", lambda _: 1 << 20)
    front = cmpe.front(made.problem, made.test[:1])[0]
    assert not front.complete


def test_a_time_limit_beyond_all_clocks_is_none():
    problem = cmpe.Problem(grid(2, 2, seed=1), [cmpe.count({0: 1, 1: 1}) <= 1])
    for ask in (cmpe.front, cmpe.best):
        with_limit, without = (ask(problem, time_limit=t)[0] for t in (1e30, None))
        assert with_limit.objective.tolist() == without.objective.tolist()
