import itertools

import numpy as np
import pytest
from hypothesis import given

import cmpe
from cmpe import Status, queries
from cmpe.errors import ModelError
from tests.problems import Shape, random_model, seeds


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
        queries.minus_hamming((2, 2), [0])
    with pytest.raises(ModelError, match="variable 1 must be below 2, found 2"):
        queries.minus_hamming((2, 2), [0, 2])
