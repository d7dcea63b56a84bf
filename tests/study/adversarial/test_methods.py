"""The attacks by name: how each is trained, what each answers, and what is refused early."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cmpe.errors import MethodError, MissingExtra
from cmpe.learning.losses.catalogue import PAPER_LOSSES
from study.adversarial.attacked_sets import parts_of
from study.adversarial.classifier import FEW, train_classifier
from study.adversarial.methods import (
    EVERY,
    METHODS,
    StudyEffort,
    answer,
    check,
    config_of,
    run_of,
)
from tests.study.adversarial.cases import few_digits

EFFORT = StudyEffort(epochs=1, few=3)


@pytest.fixture(scope="module")
def part():
    data = few_digits()
    (found,) = parts_of(data, train_classifier(data.train, data.train_labels, FEW), 12)
    return found


def test_every_name_is_known():
    assert len(set(EVERY)) == len(EVERY)
    assert set(METHODS) <= set(EVERY)
    check(METHODS)
    for method in METHODS:
        needs = method in (*PAPER_LOSSES, "copy", "residual")
        assert (run_of(method) is not None) == needs
        if needs:
            config = config_of(method, StudyEffort(epochs=7, seed=3))
            assert (config.epochs, config.seed) == (7, 3)


def test_the_copy_is_told_nothing_of_the_constraint():
    config = config_of("copy", EFFORT)
    assert (config.penalty_start, config.rho) == (0.0, 0.0)


@pytest.mark.parametrize("method", ["copy", "ilp", "attack"])
def test_answers_stay_in_the_box(part, tmp_path, method):
    found = answer(method, part, EFFORT, tmp_path, None)
    assert found.changed.shape == (3 if method == "ilp" else len(part.test), 64)
    assert ((found.changed >= 0.0) & (found.changed <= 1.0)).all()
    assert (found.bound >= 0.0).all()
    assert (found.train_seconds > 0.0) == (run_of(method) is not None)


def test_proofs_tell_how_far_they_are(part, tmp_path):
    seen = []
    answer("ilp", part, EFFORT, tmp_path, seen.append)
    assert seen == [{"image": k, "images": 3} for k in (1, 2, 3)]


@pytest.mark.parametrize("method", ["ilp", "attack", "residual"])
def test_no_test_images_no_answers(part, tmp_path, method):
    from dataclasses import replace

    empty = replace(part, test=part.test[:0], rows=part.rows[:0])
    found = answer(method, empty, EFFORT, tmp_path, None)
    assert found.changed.shape == (0, 64)
    assert found.bound.shape == (0,)


def test_an_attack_of_foolbox(part, tmp_path):
    pytest.importorskip("foolbox")
    found = answer("foolbox:fast_gradient", part, EFFORT, tmp_path, None)
    classes = part.network.decide(part.test[:3])
    assert (part.network.margins(found.changed, classes) <= -1e-3).all()


def test_a_missing_extra_is_named_before_any_work(monkeypatch):
    monkeypatch.setitem(sys.modules, "foolbox", None)
    with pytest.raises(MissingExtra, match=r"pip install 'cmpe\[study\]'"):
        check(("attack", "foolbox:ead"))
    check(("attack",))


@pytest.mark.parametrize(
    "changes", [{"epochs": 0}, {"few": 0}, {"threads": 0}, {"seconds": 0.0}, {"seconds": np.nan}]
)
def test_efforts_that_cannot_be(changes):
    with pytest.raises(MethodError):
        StudyEffort(**changes)


@pytest.mark.parametrize("method", ["magic", "foolbox:magic"])
def test_unknown_methods(part, tmp_path, method):
    with pytest.raises(MethodError, match=f"found '{method}'"):
        answer(method, part, EFFORT, tmp_path, None)
    with pytest.raises(MethodError, match=f"found '{method}'"):
        config_of(method, EFFORT)
