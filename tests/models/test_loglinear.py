import itertools

import numpy as np
import pytest
from hypothesis import given

from cmpe import Factor, LogLinearModel
from cmpe.errors import ModelError
from tests.problems import Shape, random_model, seeds


def all_assignments(model):
    return np.array(list(itertools.product(*map(range, model.cardinalities))), dtype=int)


def by_hand(model, row):
    return sum((f.log_table[tuple(row[v] for v in f.scope)] for f in model.factors), 0.0)


def made(seed, **shape):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 5, int(rng.integers(1, 6)))]
    return random_model(rng, cards, Shape(**shape))


@given(seeds)
def test_value_is_the_sum_of_table_entries(seed):
    model = made(seed)
    rows = all_assignments(model)
    np.testing.assert_allclose(model.value(rows), [by_hand(model, r) for r in rows], atol=1e-12)


def test_value_of_many_rows_crosses_the_blocks_of_lanes():
    model = made(3)
    rows = np.random.default_rng(0).integers(0, model.cardinalities, (1000, model.variables))
    np.testing.assert_allclose(model.value(rows), [by_hand(model, r) for r in rows], atol=1e-12)


@given(seeds)
def test_condition_keeps_the_value(seed):
    model = made(seed)
    rows = all_assignments(model)
    evidence = {0: int(rows[-1, 0])}
    kept = rows[rows[:, 0] == evidence[0]]
    conditioned = model.condition(evidence)
    np.testing.assert_allclose(conditioned.value(kept), model.value(kept), atol=1e-12)
    assert all(0 not in f.scope for f in conditioned.factors)


@given(seeds)
def test_add_scale_merge_and_negate(seed):
    model, rows = made(seed), all_assignments(made(seed))
    value = model.value(rows)
    np.testing.assert_allclose((model + model).value(rows), 2 * value, atol=1e-12)
    np.testing.assert_allclose(model.scale(2.5).value(rows), 2.5 * value, atol=1e-12)
    np.testing.assert_allclose(model.merged().value(rows), value, atol=1e-12)
    minus, support = model.negated()
    finite = np.isfinite(value)
    np.testing.assert_allclose(minus.value(rows[finite]), -value[finite], atol=1e-12)
    np.testing.assert_array_equal(np.isfinite(support.value(rows)), finite)
    scopes = [frozenset(f.scope) for f in model.merged().factors]
    assert len(set(scopes)) == len(scopes)


@given(seeds)
def test_ceiling_is_above_every_finite_value(seed):
    model = made(seed)
    value = model.value(all_assignments(model))
    assert (value <= model.ceiling() + 1e-9).all()


def test_scaling_by_zero_keeps_what_is_forbidden():
    model = LogLinearModel.from_tables([2], [((0,), [0.5, -np.inf])])
    np.testing.assert_array_equal(model.scale(0).value([[0], [1]]), [0.0, -np.inf])
    with pytest.raises(ModelError, match="negative"):
        model.scale(-1)


def test_perturb_is_reproducible_and_has_the_variance():
    model = LogLinearModel.from_tables([100, 100], [((0, 1), np.zeros((100, 100)))])
    first, again = model.perturb(0.1, 7), model.perturb(0.1, 7)
    assert first == again
    assert first != model.perturb(0.1, 8)
    assert np.var(first.factors[0].log_table) == pytest.approx(0.1, rel=0.05)
    zero = LogLinearModel.from_tables([2], [((0,), [0.0, -np.inf])]).perturb(0.1, 0)
    assert np.isneginf(zero.factors[0].log_table[1])


def test_one_assignment_empty_scope_and_unused_variables():
    model = LogLinearModel.from_tables([1, 3], [((), 2.5), ((0,), [1.0])])
    np.testing.assert_array_equal(model.value([0, 2]), [3.5])
    assert LogLinearModel((2, 2)).value([[0, 1]]).tolist() == [0.0]


def test_tables_are_copied_and_read_only():
    table = np.zeros(2)
    factor = Factor((0,), table)
    table[0] = 1.0
    assert factor.log_table[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        factor.log_table[0] = 1.0


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Factor((0, 0), np.zeros((2, 2))), "distinct variables"),
        (lambda: Factor((-1,), np.zeros(2)), "distinct variables"),
        (lambda: Factor((0,), np.zeros((2, 2))), "needs 1 table axes, found 2"),
        (lambda: Factor((0,), np.array([0.0, np.nan])), "finite or -inf"),
        (lambda: Factor((0,), np.array([0.0, np.inf])), "finite or -inf"),
        (lambda: LogLinearModel((2, 0)), "at least 1, found 0"),
        (lambda: LogLinearModel((2,), (Factor((1,), np.zeros(2)),)), "below 1, found 1"),
        (lambda: LogLinearModel((2,), (Factor((0,), np.zeros(3)),)), r"shape \(2,\), found \(3,\)"),
        (lambda: LogLinearModel((2,), names=("a", "b")), "as many names"),
        (lambda: LogLinearModel((2,)) + LogLinearModel((3,)), "same variables"),
        (lambda: LogLinearModel((2,)).value([[0, 1]]), r"\(B, 1\), found \(1, 2\)"),
        (lambda: LogLinearModel((2,)).value([[0], [2]]), "row 1, variable 0: .* found 2"),
        (lambda: LogLinearModel((2,)).value([[-1]]), "found -1"),
        (lambda: LogLinearModel((3,)).value([[0.5]]), "a whole number below 3"),
        (lambda: LogLinearModel((2,)).value([[1.5]]), "from 0 to 1"),
        (lambda: LogLinearModel((2,)).condition({3: 0}), "below 1"),
        (lambda: LogLinearModel((2,)).condition({0: 2}), "below 2, found 2"),
        (lambda: LogLinearModel((2,)).perturb(-1, 0), "at least 0"),
        (lambda: LogLinearModel((2,)).scale(np.inf), "finite"),
    ],
)
def test_what_is_wrong_is_said(build, message):
    with pytest.raises(ModelError, match=message):
        build()
