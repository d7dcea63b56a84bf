import itertools

import numpy as np
import pytest
from hypothesis import given

import cmpe
from cmpe import LogLinearModel, Status, queries, solve
from cmpe.domain import Domain
from cmpe.errors import ModelError
from tests.problems import Shape, all_assignments, random_model, seeds


def setting(seed, zeros=True):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 4, int(rng.integers(1, 6)))]
    model = random_model(rng, cards, Shape(zeros=zeros))
    second = random_model(rng, cards, Shape(zeros=zeros))
    everything = np.array(list(itertools.product(*map(range, cards))), dtype=int)
    reference = everything[rng.integers(len(everything))]
    return model, second, everything, reference


def best(candidates, score):
    return score[candidates].max() if candidates.any() else None


def assert_answers(problem, expected):
    for method in ("exhaustive", "milp:highs"):
        answer = cmpe.solve(problem, method=method)
        if expected is None or np.isneginf(expected):
            assert answer.status[0] == Status.INFEASIBLE
        else:
            assert answer.status[0] == Status.OPTIMAL
            assert answer.objective[0] == pytest.approx(expected)


@given(seeds)
def test_mpe(seed):
    model, _, everything, _ = setting(seed)
    assert_answers(queries.mpe(model), model.value(everything).max())


@given(seeds)
def test_nearest_assignment(seed):
    model, _, everything, reference = setting(seed)
    changes = (everything != reference).sum(axis=1)
    value = model.value(everything)
    finite = value[np.isfinite(value)]
    threshold = float(np.median(finite)) if len(finite) else 0.0
    problem = queries.nearest_assignment(model, reference.tolist(), threshold)
    tolerance = 1e-6 * max(1.0, abs(threshold))
    assert_answers(problem, best(value >= threshold - tolerance, -changes.astype(float)))


@given(seeds)
def test_decision_preserving_mpe(seed):
    model, decision, everything, _ = setting(seed)
    value, score = decision.value(everything), model.value(everything)
    for positive in (True, False):
        keeps = (value > 0) == positive
        problem = queries.decision_preserving_mpe(model, decision, positive)
        assert_answers(problem, best(keeps, score))


@given(seeds)
def test_smallest_flip(seed):
    _, decision, everything, reference = setting(seed)
    changes = (everything != reference).sum(axis=1)
    value = decision.value(everything)
    flipped = (value > 0) != (decision.value(reference)[0] > 0)
    problem = queries.smallest_flip(decision, reference.tolist())
    assert_answers(problem, best(flipped, -changes.astype(float)))


def test_evidence_variables_are_passed_on():
    model, _, _, reference = setting(1)
    assert queries.mpe(model, (0,)).evidence_variables == (0,)
    assert queries.nearest_assignment(model, reference.tolist(), 0.0, (0,)).evidence_variables == (
        0,
    )


def test_a_wrong_reference_is_said():
    with pytest.raises(ModelError, match="needs 2 values, found 1"):
        queries.minus_hamming(Domain((2, 2)), [0])
    with pytest.raises(ModelError, match="variable 1 must be below 2, found 2"):
        queries.minus_hamming(Domain((2, 2)), [0, 2])


# --- by name ---

NAMES, STATES = ("a", "b", "c", "d"), (("no", "yes"),) * 3 + (("low", "mid", "high"),)
CARDS = (2, 2, 2, 3)


def named_model(seed, zeros=False):
    rng = np.random.default_rng(seed)
    tables = [((u, v), rng.normal(size=(CARDS[u], CARDS[v]))) for u, v in ((0, 1), (1, 2), (2, 3))]
    if zeros:
        tables[0][1][0, 0] = -np.inf
    return LogLinearModel.from_tables(CARDS, tables, NAMES, STATES)


def assert_best(problem, evidence, allowed, objective):
    """The answer's objective against the best of all assignments that are allowed."""
    rows = all_assignments(CARDS)
    keep = allowed(rows)
    for name, state in evidence.items():
        v = NAMES.index(name)
        keep &= rows[:, v] == STATES[v].index(state)
    values = objective(rows)[keep]
    values = values[np.isfinite(values)]
    answer = solve(problem, evidence)
    if not len(values):
        assert answer.labels == ["infeasible"]
    else:
        assert answer.labels == ["optimal"]
        assert answer.objective[0] == pytest.approx(values.max())


@pytest.mark.parametrize("seed", range(4))
def test_few_findings_and_budgets(seed):
    model = named_model(seed, zeros=seed % 2 == 0)
    findings = {"a": "yes", "b": "yes", "d": ("mid", "high")}
    few = queries.explanation_with_few(model, findings, 1)
    counted = lambda z: z[:, 0] + z[:, 1] + (z[:, 3] > 0) <= 1  # noqa: E731
    assert_best(few, {"c": "yes"}, counted, model.value)
    budget = queries.explanation_within_budget(model, {"a": {"yes": 2}, "d": {"high": 1.5}}, 2.0)
    cost = lambda z: 2 * (z[:, 0] == 1) + 1.5 * (z[:, 3] == 2) <= 2.0  # noqa: E731
    assert_best(budget, {"b": "no"}, cost, model.value)


@pytest.mark.parametrize("seed", range(4))
def test_two_experts(seed):
    model, other = named_model(seed), named_model(seed + 10, zeros=True)
    problem = queries.agreeable_explanation(model, other, 0.5)
    assert_best(problem, {}, lambda z: other.value(z) >= -0.5 - 1e-6, model.value)


@pytest.mark.parametrize("seed", range(6))
def test_counterfactuals(seed):
    model = named_model(seed, zeros=seed % 2 == 0)
    case = {"a": "no", "b": "yes", "c": "no"}
    costs = {"b": 2.0, "c": 0.5, "d": 1.0} if seed % 3 == 0 else None
    tau = float(np.median(model.value(all_assignments(CARDS))))
    immutable = ["a"] if costs is None else []
    query = queries.counterfactual(model, case, {"d": "high"}, tau, costs, immutable)
    prices = {"b": 1.0, "c": 1.0} if costs is None else costs
    said = {"b": 1, "c": 0}

    def cost(z):
        return -sum(prices[v] * (z[:, NAMES.index(v)] != s) for v, s in said.items())

    assert_best(*query, lambda z: (model.value(z) >= tau - 1e-6) & (z[:, 0] == 0), cost)
    assert query.evidence["d"] == "high"
    assert query.evidence["a"] == "no"


def test_queries_take_references_by_name():
    model = named_model(1)
    reference = {"a": "no", "b": "yes", "c": "no", "d": "low"}
    by_name = solve(queries.nearest_assignment(model, reference, 0.0))
    by_number = solve(queries.nearest_assignment(model, [0, 1, 0, 0], 0.0))
    assert by_name.objective[0] == by_number.objective[0]
    flips = solve(queries.smallest_flip(model, reference))
    assert flips.labels == ["optimal"]
    for wrong, message in (
        (lambda: queries.nearest_assignment(model, {"a": "no"}, 0.0), "a state of variable 'b'"),
        (
            lambda: queries.nearest_assignment(model, [0, 9, 0, 0], 0.0),
            "'b' must be below 2",
        ),
        (lambda: queries.counterfactual(model, {"a": "no"}, {}, 0.0), "a target names variables"),
        (
            lambda: queries.counterfactual(model, {"a": "no"}, {"d": "low"}, 0.0, None, ["b"]),
            "the case must have a state of variable 'b'",
        ),
    ):
        with pytest.raises(ModelError, match=message):
            wrong()
