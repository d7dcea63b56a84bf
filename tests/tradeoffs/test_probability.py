"""Probabilities against enumeration: evidence, marginals, answers, under counts and costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.special import logsumexp

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.arrays import FREE
from cmpe.errors import EvidenceError, MethodError
from tests.problems import (
    Shape,
    all_assignments,
    random_model,
    random_network_problem,
    seeds,
    worked_example,
)


def asia():
    """Lauritzen and Spiegelhalter's network, with other numbers."""
    names = ["asia", "tub", "smoke", "lung", "bronc", "either", "xray", "dysp"]
    parents = {"tub": ["asia"], "lung": ["smoke"], "bronc": ["smoke"], "either": ["tub", "lung"]}
    parents |= {"xray": ["either"], "dysp": ["either", "bronc"]}
    rng = np.random.default_rng(8)
    tables = []
    for name in names:
        table = rng.dirichlet([1.0, 1.0], [2] * len(parents.get(name, [])))
        tables.append(([*parents.get(name, []), name], np.log(table)))
    return LogLinearModel.from_tables([2] * 8, tables, names, [("yes", "no")] * 8)


class Truth:
    """Every assignment of a problem with its weight in one row."""

    def __init__(self, problem, row, own=0.0, limits=None):
        self.z = all_assignments(problem.domain.cardinalities)
        weights = problem.objective.value(self.z) + own
        values = problem.constraint_values(self.z)
        most = np.broadcast_to(problem.limits if limits is None else limits, values.shape)
        inside = problem.are_feasible(weights, values, most)
        inside &= ((row == FREE) | (self.z == row)).all(axis=1)
        self.weights = np.where(inside, weights, -np.inf)
        self.possible = bool(inside.any())
        self.total = logsumexp(self.weights) if self.possible else -np.inf
        self.share = np.exp(self.weights - self.total) if self.possible else np.zeros(len(self.z))

    def marginal(self, variable, states):
        return np.bincount(self.z[:, variable], self.share, states)

    def of(self, partial):
        agrees = ((partial == FREE) | (self.z == partial)).all(axis=1)
        return self.share[agrees].sum() if self.possible else np.nan


def random_costs(rng, cards):
    step = rng.choice([1.0, 1.0, 0.5, 0.1])
    model = random_model(rng, cards, Shape(arity=2, factors=4, zeros=rng.random() < 0.3))
    return LogLinearModel.from_tables(
        cards, [(f.scope, np.round(f.log_table) * step) for f in model.factors]
    )


def counted_problem(rng):
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
    constraints = []
    for _ in range(int(rng.integers(0, 3))):
        t = random_costs(rng, cards)
        values = t.value(all_assignments(cards))
        known = np.append(values[np.isfinite(values)], 0.0)
        limit = float(rng.choice(known)) + rng.choice([0.0, 0.3, -1.0])
        kind = int(rng.integers(0, 3))
        constraints.append([t <= limit, t >= limit, cmpe.between(t, limit - 1, limit)][kind])
    return Problem(random_model(rng, cards, Shape()), constraints), cards


def random_rows(rng, cards, count=3):
    rows = np.stack([rng.integers(0, k, count) for k in cards], axis=1)
    return np.where(rng.random(rows.shape) < 0.4, rows, FREE)


@given(seeds)
@settings(max_examples=120)
def test_probabilities_are_those_of_enumeration(seed):
    rng = np.random.default_rng(seed)
    problem, cards = counted_problem(rng)
    rows, partial = random_rows(rng, cards), random_rows(rng, cards)
    found = cmpe.probability(problem, rows)
    assert not found.estimated
    shares = found.of(partial)
    for i, row in enumerate(rows):
        truth = Truth(problem, row)
        assert found.log_evidence[i] == pytest.approx(truth.total, abs=1e-9)
        for v, k in enumerate(cards):
            assert np.allclose(found.marginals[v][i], truth.marginal(v, k), atol=1e-11)
        if (partial[i] != FREE).any():
            assert shares[i] == pytest.approx(truth.of(partial[i]), abs=1e-11, nan_ok=True)


@given(seeds)
@settings(max_examples=60)
def test_rows_with_numbers_of_their_own(seed):
    rng = np.random.default_rng(seed)
    problem, cards = counted_problem(rng)
    rows = random_rows(rng, cards)
    own = {v: rng.normal(size=(3, k)) for v, k in enumerate(cards)}
    own[0][rng.random(own[0].shape) < 0.2] = -np.inf
    if len(cards) > 1:
        own[0, 1] = rng.normal(size=(3, cards[0], cards[1]))
    shifts = rng.integers(-1, 2, (3, len(problem.constraints))).astype(float)
    limits = (problem.limits + shifts) * problem.signs
    found = cmpe.probability(problem, rows, potentials=own, limits=limits if shifts.size else None)
    for i, row in enumerate(rows):
        z = all_assignments(cards)
        added = sum(own[v][i, z[:, v]] for v in range(len(cards)))
        if len(cards) > 1:
            added = added + own[0, 1][i, z[:, 0], z[:, 1]]
        truth = Truth(problem, row, added, problem.limits + shifts[i])
        assert found.log_evidence[i] == pytest.approx(truth.total, abs=1e-9)
        for v, k in enumerate(cards):
            assert np.allclose(found.marginals[v][i], truth.marginal(v, k), atol=1e-11)


def random_rules(rng, count):
    """Rules of many binary variables, which become tables with more variables, and small ones."""
    every = {v: int(rng.integers(0, 2)) for v in range(count)}
    some = {int(v): 1 for v in rng.choice(count, 3, replace=False)}
    rules = [
        cmpe.parity(every, odd=bool(rng.integers(0, 2))),
        cmpe.at_most_one(every),
        cmpe.exactly_one(every),
        cmpe.at_least_one(every),
        cmpe.implies(some, {0: 1}),
        cmpe.at_most_one(every, weight=0.7),
    ]
    return [rules[k] for k in rng.choice(len(rules), 2, replace=False)]


@given(seeds)
@settings(max_examples=25)
def test_rules_of_many_variables(seed):
    rng = np.random.default_rng(seed)
    cards = [2] * 9
    limit = cmpe.count(dict.fromkeys(range(5), 1)) <= 3
    problem = Problem(random_model(rng, cards, Shape(arity=3)), [*random_rules(rng, 9), limit])
    rows = random_rows(rng, cards, 2)
    own = rng.normal(size=(2, 9, 2))
    found = cmpe.probability(problem, rows, potentials=own)
    for i, row in enumerate(rows):
        z = all_assignments(cards)
        truth = Truth(problem, row, own[i][np.arange(9), z].sum(axis=1))
        assert found.log_evidence[i] == pytest.approx(truth.total, abs=1e-9)
        for v in range(9):
            assert np.allclose(found.marginals[v][i], truth.marginal(v, 2), atol=1e-11)
    again = cmpe.probability(problem, rows)
    expected = Truth(problem, rows[0])
    assert again.log_evidence[0] == pytest.approx(expected.total, abs=1e-9)
    if expected.possible:
        drawn = cmpe.sample(problem, 20, seed, evidence=rows[:1]).assignments
        assert problem.is_feasible(drawn).all()


def test_soft_evidence_and_names():
    net = asia()
    found = cmpe.probability(net, {"smoke": "yes", "xray": [0.9, 0.1]})
    truth = cmpe.probability(net, {"smoke": "yes"})
    yes = truth.of({"xray": net.domain.states_of(net.domain.variable("xray"))[0]})
    expected = truth.log_evidence + np.log(0.9 * yes + 0.1 * (1 - yes))
    assert found.log_evidence == pytest.approx(expected)
    assert truth.marginals["smoke"].sum() == 1.0
    assert "log P(evidence)" in repr(found)
    assert "xray" in found._repr_html_()


def test_an_answer_and_its_rival():
    problem = Problem(asia())
    row = {"xray": "yes", "dysp": "yes"}
    (ranked,) = cmpe.best(problem, row, k=3)
    shares = cmpe.probability(problem, row).of(ranked.answers)
    assert shares.shape == (3,)
    assert (np.diff(shares) <= 0).all()
    assert shares.sum() < 1
    one = cmpe.probability(problem, row).of(cmpe.solve(problem, row))
    assert one == pytest.approx(shares[:1])


def test_many_patterns_of_evidence_share_a_plan():
    rng = np.random.default_rng(3)
    net = asia()
    cards = net.domain.cardinalities
    rows = random_rows(rng, cards, 40)
    problem = Problem(net, [cmpe.count({"tub": "yes", "lung": "yes", "bronc": "yes"}) <= 1])
    found = cmpe.probability(problem, rows)
    for i in range(0, 40, 5):
        truth = Truth(problem, rows[i])
        assert found.log_evidence[i] == pytest.approx(truth.total, abs=1e-9)
        for v, name in enumerate(net.domain.names):
            assert np.allclose(found.marginals[name][i], truth.marginal(v, cards[v]), atol=1e-11)


def test_no_rows():
    found = cmpe.probability(worked_example(), [])
    assert (len(found), found.summary(0)) == (0, "no rows")
    assert [m.shape for m in found.marginals.values()] == [(0, 2)] * 4


def test_constraints_can_be_left_out():
    net = asia()
    problem = Problem(net, [cmpe.count({"tub": "yes", "lung": "yes"}) >= 1])
    bare = cmpe.probability(net, {"smoke": "yes"})
    left_out = cmpe.probability(problem, {"smoke": "yes"}, given="evidence")
    assert left_out.log_evidence == pytest.approx(bare.log_evidence)
    assert cmpe.probability(problem, {"smoke": "yes"}).log_evidence < bare.log_evidence


@given(seeds)
@settings(max_examples=25)
def test_cutset_networks(seed):
    problem, evidence = random_network_problem(seed)
    problem = Problem(problem.objective, (), problem.evidence_variables)
    found = cmpe.probability(problem, evidence)
    full = problem.given(evidence).full()
    for i, row in enumerate(full):
        truth = Truth(problem, row)
        assert found.log_evidence[i] == pytest.approx(truth.total, abs=1e-9)
        for v, k in enumerate(problem.domain.cardinalities):
            assert np.allclose(found.marginals[v][i], truth.marginal(v, k), atol=1e-11)


def real_problem(rng):
    """A constraint of real numbers: no count."""
    cards = [2, 3, 2, 2]
    h = random_model(rng, cards, Shape(zeros=False))
    t = LogLinearModel.from_tables(
        cards, [((0, 1), rng.normal(size=(2, 3))), ((2,), rng.normal(size=2))]
    )
    values = t.value(all_assignments(cards))
    return Problem(h, [t <= float(np.quantile(values, 0.5))]), cards


def test_estimates_have_intervals_that_hold():
    """Of 40 x 13 intervals at 95 %, few miss; Clopper-Pearson covers at least that much."""
    missed = count = 0
    for seed in range(40):
        problem, cards = real_problem(np.random.default_rng(seed))
        found = cmpe.probability(problem, {0: seed % 2}, samples=400, seed=seed)
        assert found.estimated
        truth = Truth(problem, np.array([seed % 2, FREE, FREE, FREE]))
        pairs = [(found.log_evidence_interval[0], truth.total)]
        for v, k in enumerate(cards):
            pairs += list(zip(found.marginal_intervals[v][0], truth.marginal(v, k), strict=True))
        for partial in ([FREE, 1, 1, FREE], [seed % 2, 1, 0, 1]):
            assignment = np.array([partial])
            low, high = found.interval(assignment)[0]
            (share,) = found.of(assignment)
            assert low <= share <= high or np.isnan(share)
            pairs.append(((low, high), truth.of(assignment[0])))
        missed += sum(not low - 1e-12 <= value <= high + 1e-12 for (low, high), value in pairs)
        count += len(pairs)
    assert missed <= 0.06 * count


def test_an_estimate_without_a_sample_is_unknown():
    h = LogLinearModel.from_tables([2, 2], [((0,), [0.0, 40.0])])
    t = LogLinearModel.from_tables([2, 2], [((0, 1), [[0.1, 0.73], [9.11111, 9.2]])])
    found = cmpe.probability(Problem(h, [t <= 1.0]), samples=100)
    low, high = found.log_evidence_interval[0]
    assert low == -np.inf
    assert np.log(2) <= high < 40
    assert np.isnan(found.of({1: 0})).all()
    assert found.interval({1: 0}).tolist() == [[0.0, 1.0]]


def test_infeasible_rows():
    net = asia()
    problem = Problem(net, [cmpe.count({"tub": "yes"}) >= 1])
    found = cmpe.probability(problem, {"tub": ["no", "yes"]})
    assert np.isneginf(found.log_evidence[0])
    assert found.marginals["smoke"][0].tolist() == [0.0, 0.0]
    assert np.isnan(found.of({"smoke": "yes"})[0])
    assert found.of({"tub": "yes"})[1] == pytest.approx(1.0)


def test_frames_have_a_line_for_each_state():
    frame = cmpe.probability(asia(), {"smoke": "yes"}).to_frame()
    assert list(frame.columns) == ["row", "variable", "state", "probability"]
    assert len(frame) == 16


def test_bars_of_the_least_certain_variables():
    problem = Problem(asia())
    row = {"xray": "yes"}
    found = cmpe.probability(problem, row)
    figure = found.plot(explanation=cmpe.solve(problem, row), most=3)
    assert len(figure.axes[0].get_yticklabels()) == 3
    assert len(found.plot(explanation={"tub": "no"}).axes[0].get_yticklabels()) == 7
    assert len(found.plot().axes[0].patches) == 14


def test_samples_given_evidence_and_counts_follow_the_posterior():
    net = asia()
    limit = cmpe.count({"tub": "yes", "lung": "yes", "bronc": "yes"}) >= 2
    drawn = cmpe.sample(net, 20_000, 0, evidence={"smoke": "yes"}, constraints=[limit]).assignments
    found = cmpe.probability(Problem(net, [limit]), {"smoke": "yes"})
    for v, name in enumerate(net.domain.names):
        seen = np.bincount(drawn[:, v], minlength=2) / len(drawn)
        assert np.allclose(seen, found.marginals[name][0], atol=0.02)


def test_samples_under_a_real_constraint_satisfy_it():
    problem, _ = real_problem(np.random.default_rng(1))
    drawn = cmpe.sample(problem, 50, 3).assignments
    assert problem.is_feasible(drawn).all()
    assert len(drawn) == 50
    again = cmpe.sample(problem, 50, 3).assignments
    assert np.array_equal(drawn, again)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: cmpe.probability(p, given="x"), MethodError, "given must be one of"),
        (lambda p: cmpe.sample(p, 5, evidence={0: [0, 1]}), EvidenceError, "one row of evidence"),
        (
            lambda p: cmpe.sample(p, 5, evidence={0: 0}, time_limit=1.0),
            MethodError,
            "time_limit go with samples without evidence",
        ),
        (
            lambda p: cmpe.probability(p, {0: [0, 1]}).of({1: [0, 1, 1]}),
            EvidenceError,
            "as many as rows of evidence",
        ),
    ],
)
def test_refusals(call, error, message):
    problem = Problem(LogLinearModel.from_tables([2, 2], [((0, 1), [[0.0, 1.0], [2.0, 3.0]])]))
    with pytest.raises(error, match=message):
        call(problem)
