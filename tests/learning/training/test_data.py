"""Splits, labels and bounds that training reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cmpe
from cmpe.bounds.lagrangian import dual_bound, lagrangian_dual
from cmpe.bounds.loss import loss_bounds, printed_bounds
from cmpe.errors import EvidenceError, FormatError, MethodError, TooLarge
from cmpe.flip import adversarial
from cmpe.formats.labels import fingerprint
from cmpe.learning.losses.catalogue import LOSS_KINDS
from cmpe.learning.settings import TRAINING
from cmpe.learning.training import data as data_module
from cmpe.learning.training.data import FreshRows, draw, folds, prepare, split, with_margin
from cmpe.solvers.base import Running
from tests.learning.cases import mixed_problem, quick, small_grid
from tests.learning.losses.test_functions import small_network


def one():
    return small_grid(samples=30)


@given(st.integers(1, 200), st.integers(0, 50), st.floats(0, 0.99))
def test_the_split_is_disjoint_covers_and_repeats(count, seed, share):
    config = quick(seed=seed, validation_share=share)
    train, held = split(count, config)
    assert sorted([*train, *held]) == list(range(count))
    assert len(held) == min(count - 1, round(share * count))
    for a, b in zip((train, held), split(count, config), strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_seed_is_another_split():
    assert split(100, quick(seed=1))[1].tolist() != split(100, quick(seed=2))[1].tolist()


@given(st.integers(2, 60), st.integers(2, 6), st.integers(0, 50))
def test_folds_are_disjoint_and_of_one_size(count, parts, seed):
    found = folds(count, parts, seed)
    assert len(found) == parts
    for train, held in found:
        assert sorted([*train, *held]) == list(range(count))
        assert len(held) == count // parts
    measured = np.concatenate([held for _, held in found])
    assert len(set(measured.tolist())) == len(measured)
    assert count - len(measured) < parts  # all but what does not fill them
    for (_, a), (_, b) in zip(found, folds(count, parts, seed), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("loss", LOSS_KINDS)
def test_labels_and_bounds_are_made_where_they_are_needed(loss):
    whole = one()
    config = quick(loss)
    found = prepare(whole.problem.given(whole.train), config)
    truth = cmpe.solve(whole.problem, whole.train, method="exhaustive")
    rows = np.arange(len(whole.train)) if LOSS_KINDS[loss].labels else split(len(found), config)[1]
    others = np.setdiff1d(np.arange(len(found)), rows)
    np.testing.assert_allclose(found.reference[rows], truth.objective[rows])
    assert whole.problem.is_feasible(found.labels[rows, 0]).all()
    np.testing.assert_allclose(
        whole.problem.objective.value(found.labels[rows, 0]), truth.objective[rows]
    )
    assert (found.labels[others] == -1).all()
    assert np.isnan(found.reference[others]).all()
    assert np.isnan(found.p_upper).all() == (not LOSS_KINDS[loss].alpha)
    instances = whole.problem.given(whole.train)
    if LOSS_KINDS[loss].alpha:
        bounds = loss_bounds(instances)
        np.testing.assert_allclose(found.p_upper[:, 0], bounds.p_upper)
        np.testing.assert_allclose(found.q_lower[:, 0], bounds.q_lower)
    np.testing.assert_allclose(
        found.multipliers[:, 0], lagrangian_dual(instances).multipliers, atol=1e-6
    )


def test_measured_rows_replace_the_validation_rows():
    whole = one()
    found = prepare(whole.problem.given(whole.train), quick(), measured=np.array([0, 3]))
    assert np.flatnonzero(~np.isnan(found.reference)).tolist() == [0, 3]


def test_a_margin_lowers_every_limit():
    problem = mixed_problem()
    shifted = with_margin(problem, 0.75)
    np.testing.assert_allclose(shifted.limits, problem.limits - 0.75)
    assert shifted.objective is problem.objective
    assert with_margin(problem, 0.0) is problem
    assert shifted.plan == problem.plan


def test_labels_of_a_margin_keep_it():
    whole = one()
    margins = (-1.0, 0.0, 0.5, 50.0)
    found = prepare(whole.problem.given(whole.train), quick("mse", margins=margins))
    limit = whole.problem.limits[0]
    for k, margin in enumerate(margins[:3]):
        known = found.usable[:, k]
        assert known.any()
        labels = found.labels[known, k]
        values = whole.problem.constraint_values(labels)[:, 0]
        assert (values <= limit - margin + 1e-5).all()
        truth = cmpe.solve(with_margin(whole.problem, margin), whole.train, method="exhaustive")
        np.testing.assert_array_equal(known, truth.feasible)
        np.testing.assert_allclose(whole.problem.objective.value(labels), truth.objective[known])
    assert not found.usable[:, 3].any()  # nothing keeps 50 nats
    assert (found.labels[:, 3] == -1).all()
    truth = cmpe.solve(whole.problem, whole.train, method="exhaustive")
    np.testing.assert_allclose(found.reference, truth.objective)


def test_infeasible_rows_are_not_usable_with_any_loss():
    problem = with_margin(one().problem, 50.0)
    for loss in ("mse", "ss_cmpe", "ssl_pen"):
        found = prepare(problem.given(one().train), quick(loss))
        assert not found.usable.any()
        assert np.isnan(found.p_upper).all()


def test_no_rows_are_refused():
    with pytest.raises(EvidenceError, match="at least one row of evidence, found none"):
        prepare(one().problem.given(one().train[:0]), quick())


def test_bounds_stay_missing_where_elimination_is_too_wide(monkeypatch):
    def refuse(*_, **__):
        raise TooLarge("too wide")

    monkeypatch.setattr(data_module, "lagrangian_dual", refuse)
    with pytest.warns(UserWarning, match="no bounds for alpha_x: too wide"):
        found = prepare(one().problem.given(one().train), quick())
    for missing in (found.p_upper, found.q_lower, found.multipliers):
        assert np.isnan(missing).all()
    assert found.usable.all()


def test_wide_rows_get_the_multipliers_of_a_split(monkeypatch):
    monkeypatch.setattr(data_module, "TRAINING", TRAINING._replace(quick_bytes=0))
    problem, rows = one().problem, one().train
    assert np.isnan(prepare(problem.given(rows), quick()).multipliers).all()
    found = prepare(problem.given(rows), quick(predict_multiplier=True)).multipliers[:, 0]
    least = lagrangian_dual(problem.given(rows)).bound
    here = dual_bound(problem.given(rows), found)
    assert (here >= least - 1e-9).all()
    assert (here - least).mean() < 0.05


def problem_optima(instances):
    """f of the best answers."""
    problem = instances.problem
    return problem.shift - cmpe.solve(problem, instances.evidence).objective


@pytest.mark.parametrize("form", ["paper", "precomputed", "fixed"])
def test_wide_rows_have_the_bounds_of_mini_buckets_or_an_answer(monkeypatch, form):
    monkeypatch.setattr(data_module, "TRAINING", TRAINING._replace(quick_bytes=0))
    instances = one().problem.given(one().train)
    found = prepare(instances, quick(alpha=form))
    exact = printed_bounds(instances)
    if form == "fixed":
        tight = loss_bounds(instances)
        assert (found.p_upper[:, 0] <= tight.p_upper + 0.1).all()
        assert (found.p_upper[:, 0] >= problem_optima(instances) - 1e-6).all()
        return
    assert (found.p_upper[:, 0] >= exact.p_upper - 1e-6).all()
    known = ~np.isnan(exact.q_lower)  # elsewhere nothing violates
    assert (found.q_lower[known, 0] <= exact.q_lower[known] + 1e-6).all()
    assert np.nanmean(found.p_upper[:, 0] / exact.p_upper) < 1.2
    assert np.nanmean(found.q_lower[:, 0] / exact.q_lower) > 0.8


# The cache of labels.


def nobody(*_, **__):
    raise AssertionError("the labels were known")


@pytest.mark.parametrize("loss", ["mse", "ss_cmpe"])
def test_labels_are_kept_and_read_again(loss, tmp_path, monkeypatch):
    whole = one()
    config = quick(loss, margins=(0.0, 0.5))
    first = prepare(whole.problem.given(whole.train), config, cache=tmp_path)
    files = sorted(tmp_path.iterdir())
    assert len(files) == (2 if loss == "mse" else 1)
    monkeypatch.setattr(data_module, "answer", nobody)
    again = prepare(whole.problem.given(whole.train), config, cache=tmp_path)
    for name in ("labels", "usable", "reference"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    assert sorted(tmp_path.iterdir()) == files


def test_labels_are_made_in_blocks_and_what_is_kept_is_not_made_again(tmp_path, monkeypatch):
    whole = one()
    given, config = whole.problem.given(whole.train), quick("mse")
    wanted = prepare(given, config)
    monkeypatch.setattr(data_module, "TRAINING", data_module.TRAINING._replace(label_rows=10))
    sizes, engine = [], data_module.answer

    def interrupted(problem, evidence, *how):
        if len(sizes) == 2:
            raise KeyboardInterrupt
        sizes.append(len(evidence))
        return engine(problem, evidence, *how)

    monkeypatch.setattr(data_module, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        prepare(given, config, cache=tmp_path)
    assert (sizes, len(list(tmp_path.iterdir()))) == ([10, 10], 2)
    sizes[:] = []
    found = prepare(given, config, cache=tmp_path)
    assert sizes == [len(given) - 20], "only the last block was missing"
    for name in ("labels", "usable", "reference"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))


def test_other_questions_do_not_read_them(tmp_path, monkeypatch):
    whole = one()
    prepare(whole.problem.given(whole.train), quick("mse"), cache=tmp_path)
    monkeypatch.setattr(data_module, "answer", nobody)
    for problem, rows, config in (
        (with_margin(whole.problem, 0.1), whole.train, quick("mse")),
        (whole.problem, whole.train[:-1], quick("mse")),
        (whole.problem, whole.train, quick("mse", label_method="exhaustive")),
        (replace(whole.problem, constraints=()), whole.train, quick("mse")),
    ):
        with pytest.raises(AssertionError, match="were known"):
            prepare(problem.given(rows), config, cache=tmp_path)


def test_without_evidence_the_number_of_rows_counts(tmp_path):
    problem = one().problem.observing(())
    for count in (3, 1):
        found = prepare(
            problem.given(np.zeros((count, 0), dtype=int)), quick("mse"), cache=tmp_path
        )
        assert found.labels.shape == (count, 1, 9)


def test_a_corrupt_cache_is_refused(tmp_path):
    whole = one()
    prepare(whole.problem.given(whole.train), quick("mse"), cache=tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(FormatError, match=f"{file.name}: expected the arrays"):
        prepare(whole.problem.given(whole.train), quick("mse"), cache=tmp_path)


@pytest.mark.parametrize("wrong", ["rows", "columns"])
def test_labels_of_another_shape_are_refused(wrong, tmp_path):
    whole = one()
    n, count = whole.problem.variables, len(whole.train)
    key = fingerprint(whole.problem, whole.train, "exact")
    shape = {"rows": (count - 1, n), "columns": (count, n - 1)}[wrong]
    arrays = {"assignments": np.zeros(shape, dtype=np.int32), "bound": np.zeros(shape[0])}
    np.savez(tmp_path / f"labels-{key}.npz", **arrays)
    with pytest.raises(FormatError, match="labels"):
        prepare(whole.problem.given(whole.train), quick("mse"), cache=tmp_path)


def test_drawn_rows_have_one_margin_each_and_its_label():
    whole, margins = one(), (0.0, 1.0, 2.0)
    config = quick("distill", margins=margins, rows=30)
    rows = np.concatenate([whole.train, draw(whole.problem, 30, config.seed)])
    held = split(len(whole.train), config)[1]
    assert len(held) == len(whole.train)  # given rows validate where others are drawn
    data = prepare(whole.problem.given(rows), config, measured=held)
    assert data.margins.shape == data.usable.shape == (len(rows), 1)
    assert (data.margins[held] == 0.0).all()
    assert set(data.margins[len(whole.train) :, 0]) == set(margins)
    for row in range(len(rows)):
        asked = with_margin(whole.problem, float(data.margins[row, 0]))
        best = cmpe.solve(asked, rows[row : row + 1], method="exhaustive")
        assert data.usable[row, 0] == best.feasible[0]
        if best.feasible[0]:
            found = asked.objective.value(data.labels[row].astype(np.int32))
            assert found[0] == pytest.approx(best.objective[0])
    assert data.answerable[held].all()
    assert (data.plain_labels(np.flatnonzero(data.margins[:, 0] > 0)) == -1).all()


def test_the_seed_and_the_epoch_decide_which_rows_are_drawn():
    problem = one().problem
    first = draw(problem, 20, 3)
    assert first.shape == (20, len(problem.evidence_variables))
    np.testing.assert_array_equal(first, draw(problem, 20, 3))
    assert (first != draw(problem, 20, 3, epoch=1)).any()
    assert (first != draw(problem, 20, 4)).any()


def test_rows_are_drawn_from_tables_only():
    with pytest.raises(MethodError, match="rows can be drawn from tables only"):
        draw(adversarial(small_network()), 3, 0)


def test_fresh_rows_are_the_same_in_any_order():
    config = quick("distill", rows=12, fresh=True, epochs=3)
    rows = FreshRows(one().problem, config, Running())
    found = [rows(epoch) for epoch in (1, 2, 1)]
    rows.close()
    np.testing.assert_array_equal(found[0].evidence, found[2].evidence)
    assert (found[0].evidence != found[1].evidence).any()
    assert rows.seconds > 0.0
