"""`best` over chosen variables, within so many nats, and with the others summed out."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, LogLinearModel, Problem
from cmpe.errors import MethodError, TooLarge
from cmpe.generation import grid
from cmpe.tradeoffs import summed
from tests.problems import all_assignments, seeds
from tests.refusals import refused
from tests.tradeoffs.test_own_numbers import each_row

TOLERANCE = 1e-6


def some_variables(problem, seed):
    rng = np.random.default_rng([seed, 7])
    count = problem.variables
    return sorted(rng.choice(count, rng.integers(1, count + 1), replace=False).tolist())


def projections(truth, over):
    """The best h of each feasible assignment of `over`, falling."""
    rows, h = truth.ranked()
    best = {}
    for row, value in zip(rows, h, strict=True):
        best.setdefault(tuple(row[over].tolist()), value)
    return best, np.array(sorted(best.values(), reverse=True))


@settings(max_examples=60)
@given(seeds)
def test_assignments_of_some_variables_each_once(seed):
    case, options, truths = each_row(seed)
    over = some_variables(case[0], seed)
    found = cmpe.best(*case, 3, over=over, **options)
    everything = cmpe.best(*case, 10**6, over=over, **options)
    for ranked, whole, truth in zip(found, everything, truths, strict=True):
        best, h = projections(truth, over)
        assert ranked.complete
        assert whole.complete
        np.testing.assert_allclose(ranked.objective, h[:3], atol=1e-9)
        np.testing.assert_allclose(whole.objective, h, atol=1e-9)
        missing = h[3] if len(h) > 3 else -np.inf
        assert ranked.bound == pytest.approx(missing, abs=1e-9)
        assert whole.bound == -np.inf
        keys = [tuple(row[over].tolist()) for row in whole.assignments]
        assert len(set(keys)) == len(keys)
        assert all(
            abs(best[key] - value) < TOLERANCE
            for key, value in zip(keys, whole.objective, strict=True)
        )


@settings(max_examples=60)
@given(seeds)
def test_everything_within_a_distance(seed):
    case, options, truths = each_row(seed)
    over = some_variables(case[0], seed)
    nats = float(np.random.default_rng(seed).choice([0.0, 0.5, 3.0]))
    every = cmpe.best(*case, within=nats, **options)
    distinct = cmpe.best(*case, within=nats, over=over, **options)
    for ranked, chosen, truth in zip(every, distinct, truths, strict=True):
        rows, h = truth.ranked()
        assert ranked.complete
        assert chosen.complete
        if not len(h):
            assert not len(ranked)
            assert not len(chosen)
            continue
        near = h >= h[0] - nats - TOLERANCE * max(1.0, abs(h[0]))
        np.testing.assert_array_equal(ranked.assignments, rows[near])
        assert ranked.bound <= (h[~near].max() if (~near).any() else -np.inf) + 1e-9
        _, best = projections(truth, over)
        assert len(chosen) == (best >= h[0] - nats - TOLERANCE * max(1.0, abs(h[0]))).sum()


def test_at_most_k_within_a_distance():
    problem = Problem(grid(3, 3, seed=1))
    assert [len(r) for r in cmpe.best(problem, {0: 1}, 5, within=100.0)] == [5]
    longer = cmpe.best(problem, {0: 1}, within=100.0)[0]
    assert len(longer) == 256
    assert longer.complete
    assert longer.bound == -np.inf


@settings(max_examples=60)
@given(seeds)
def test_the_others_are_summed_out(seed):
    case, options, _ = each_row(seed)
    problem, evidence = case
    over = some_variables(problem, seed)
    evidence = np.where((evidence >= 0).all(axis=0), evidence, -1)
    observed = np.flatnonzero((evidence >= 0).all(axis=0)).tolist()
    objective = problem.objective
    posed = Problem(objective, [of_variables(seed, objective.cardinalities, over)])
    if options["limits"] is not None:
        options["limits"] = options["limits"][:, :1]
        if not options["limits"].shape[1]:
            options["limits"] = None
    found = cmpe.best(posed, evidence, 4, over=over, rest="sum", **options)
    every = all_assignments(objective.cardinalities)
    for row, ranked in enumerate(found):
        h, t = objective.value(every), posed.constraint_values(every)[:, 0]
        for key, table in options["potentials"].items():
            scope = list(key) if isinstance(key, tuple) else [key]
            h = h + table[row][tuple(every[:, v] for v in scope)]
        most = posed.limits[0] if options["limits"] is None else options["limits"][row, 0]
        good = (t - most <= 1e-6 * max(1.0, abs(most))) & np.isfinite(h)
        good &= ((evidence[row] < 0) | (every == evidence[row])).all(axis=1)
        score = {}
        for each, value in zip(every[good], h[good], strict=True):
            key = tuple(each[over].tolist())
            score[key] = np.logaddexp(score.get(key, -np.inf), value)
        wanted = np.array(sorted(score.values(), reverse=True))
        assert ranked.complete
        np.testing.assert_allclose(ranked.objective, wanted[:4], atol=1e-9)
        kept = sorted({*over, *observed})
        for answer, value in zip(ranked.assignments, ranked.objective, strict=True):
            key = tuple(answer[[kept.index(v) for v in over]].tolist())
            assert score[key] == pytest.approx(value, abs=1e-9)


@settings(max_examples=40)
@given(seeds)
def test_mini_buckets_bound_what_memory_does_not_hold(seed):
    """Buckets are divided; sums of single assignments fit. Lists are those of elimination."""
    rng = np.random.default_rng(seed)
    problem = Problem(grid(3, 4, seed=seed), [cmpe.count(dict.fromkeys((0, 3, 5), 1)) <= 2])
    over, within = [0, 3, 5, 6, 11], [None, 1.0][seed % 2]
    evidence = {8: 1} if rng.random() < 0.5 else None
    expected = cmpe.best(problem, evidence, 5, over=over, rest="sum", within=within)[0]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(summed, "MEMORY_LIMIT", 24 * 2**7)
        small = summed.TRADEOFFS._replace(part_bytes=24 * 2**3, first_scored=4)
        patched.setattr(summed, "TRADEOFFS", small)
        ranked = cmpe.best(problem, evidence, 5, over=over, rest="sum", within=within)[0]
    assert ranked.complete
    assert ranked.answers.feasible.all()
    np.testing.assert_allclose(ranked.objective, expected.objective, atol=1e-9)
    assert ranked.bound >= expected.bound - 1e-9


def test_a_hidden_cause_of_many_variables():
    """2^36 joint values of its effects: too many for a table, but not for mini-buckets."""
    rng = np.random.default_rng(3)
    tables = [((0, v), 0.3 * rng.normal(size=(3, 2))) for v in range(1, 37)]
    problem = Problem(LogLinearModel.from_tables((3, *[2] * 36), tables))
    ranked = cmpe.best(problem, None, 2, over=range(1, 37), rest="sum", time_limit=5.0)[0]
    z = ranked.assignments[0]
    scores = sum(table[:, a] for (_, table), a in zip(tables, z, strict=True))
    assert ranked.objective[0] == pytest.approx(np.logaddexp.reduce(scores), abs=1e-9)
    best = max(np.logaddexp.reduce(sum(t[:, t[c].argmax()] for _, t in tables)) for c in range(3))
    assert max(ranked.bound, ranked.objective[0]) >= best - 1e-9
    assert not ranked.complete or ranked.objective[0] >= best - 1e-9


def of_variables(seed, cards, over):
    """A constraint that reads some variables only."""
    rng = np.random.default_rng([seed, 9])
    tables = [((v,), rng.normal(size=cards[v])) for v in over]
    return Constraint(LogLinearModel.from_tables(cards, tables), at_most=float(rng.normal()))


def test_names_are_shown():
    problem = Problem(cmpe.read_model(cmpe.example("alarm")))
    row = {"HRBP": "HIGH", "CVP": "LOW"}
    over = ["LVFAILURE", "HYPOVOLEMIA"]
    for rest in ("max", "sum"):
        ranked = cmpe.best(problem, row, over=over, rest=rest)[0]
        assert len(ranked) == 4
        assert set(over) <= set(ranked[0].free)
    assert set(ranked[0].free) == set(over)


def test_wide_rows_have_bounds():
    problem = Problem(grid(30, 30, seed=3))
    ranked = cmpe.best(problem, None, 3, over=[0, 1, 2], time_limit=1.0)[0]
    assert len({tuple(row[:3].tolist()) for row in ranked.assignments}) == len(ranked)
    # The bound is on what is not listed: below the last answer where the list is proved.
    assert np.isfinite(ranked.bound)
    refused(
        lambda: cmpe.best(problem, None, 3, over=[0, 1, 2], rest="sum"),
        "rest='sum' needs tables of",
        TooLarge,
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"over": "A"}, "over lists variables"),
        ({"over": []}, "over lists variables"),
        ({"rest": "sum"}, 'rest is "max"'),
        ({"rest": "mean", "over": [0]}, 'rest is "max"'),
        ({"within": -1.0}, "within must be at least 0 nats"),
        ({"within": "1"}, "within must be a number"),
        ({"within": 1.0, "distance": 2}, "distance does not go with"),
        ({"over": [0], "rest": "sum"}, "which constraint 0 reads"),
    ],
)
def test_refusals(options, words):
    problem = Problem(grid(3, 3, seed=1), [grid(3, 3, seed=2) <= 1.0])
    refused(lambda: cmpe.best(problem, None, 3, **options), words, MethodError)


@pytest.mark.parametrize("rest", ["max", "sum"])
def test_under_rules_of_many_variables(rest):
    model = grid(3, 4, seed=5)
    literals = [{v: 1} for v in range(12)]
    problem = Problem(model, [cmpe.parity(literals), cmpe.exactly_one(literals[:9])])
    ranked = cmpe.best(problem, {11: 1}, 9, over=[0, 1, 2], rest=rest)[0]
    every = all_assignments(model.cardinalities)
    h = problem.objective.value(every)
    best = {}
    for row, value in zip(every[every[:, 11] == 1], h[every[:, 11] == 1], strict=True):
        if value > -np.inf:
            best.setdefault(tuple(row[:3].tolist()), []).append(value)
    join = np.max if rest == "max" else np.logaddexp.reduce
    wanted = sorted((join(values) for values in best.values()), reverse=True)
    assert ranked.complete
    np.testing.assert_allclose(ranked.objective, wanted[:9], atol=1e-9)
    assert len(cmpe.best(problem, {11: 1}, within=1e6)[0]) == sum(map(len, best.values()))
