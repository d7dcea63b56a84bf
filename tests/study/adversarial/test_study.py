"""The study: what its table says is so, and it can be stopped, continued and repeated."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, replace

import numpy as np
import pytest

import cmpe
from cmpe.errors import FormatError, MethodError
from cmpe.formats.directory import read_directory
from cmpe.learning.solver import NeuralSolver
from cmpe.solvers.flips.attack import round_outward
from study.adversarial import study as module
from study.adversarial.classifier import accuracy
from study.adversarial.methods import answer, run_of
from study.adversarial.study import AttackOutcome, AttackStudy, StudyConfig
from tests.refusals import refused
from tests.study.adversarial.cases import ROWS, few_digits, quick

MANY = ("ilp", "mse", "residual", "attack", "attack+8bit")
FIELDS = {
    "method", "label", "objective", "objective_std", "objective_flipped", "gap", "ratio_proved",
    "proved_rows", "violation", "violation_8bit", "train_seconds", "seconds", "rows", "device",
    "classifier", "note",
}  # fmt: skip
TRAINED = {"mse", "residual"}


@pytest.fixture(scope="module", params=[False, True], ids=["multi-class", "one-vs-all"])
def done(request, tmp_path_factory):
    """A finished study and its outcomes by method."""
    methods = ("ilp", "mse", "residual", "attack") if request.param else MANY
    whole = quick(tmp_path_factory.mktemp("study"), methods, one_vs_all=request.param)
    return whole, {o.method: o for o in whole.run()}


def numbers(outcomes):
    """All that must not depend on the clock."""
    kept = ("method", "rows", "distance", "margin", "margin_8bit", "bound", "pictured")
    return [{name: np.asarray(getattr(o, name)).tolist() for name in kept} for o in outcomes]


def same(first, second):
    assert json.dumps(numbers(first)) == json.dumps(numbers(second))  # NaN equals itself here


def test_every_number_is_the_networks_own(done):
    """Ask each method again and measure its images by the network in float64."""
    whole, outcomes = done
    share = replace(whole.config.effort, few=-(-whole.config.effort.few // len(whole.parts)))
    for method, outcome in outcomes.items():
        place = 0
        for part in whole.parts:
            folder = module.run_of(method) or "none"
            found = answer(method, part, share, whole.out / "runs" / folder / part.name, None)
            count = len(found.changed)
            images, changed = part.test[:count], found.changed
            known = slice(place, place + count)
            place += count
            assert outcome.rows[known].tolist() == part.rows[:count].tolist()
            np.testing.assert_allclose(images, whole.data.test[outcome.rows[known]])
            length = np.abs(changed - images).sum(axis=1)
            np.testing.assert_allclose(outcome.distance[known], length, atol=1e-9)
            classes = part.network.decide(images)
            left = part.network.decide(changed) != classes
            assert (left <= outcome.flipped[known]).all()  # a tie is a flip, too
            np.testing.assert_allclose(
                outcome.margin[known], part.network.margins(changed, classes), atol=1e-9
            )
            rounded = round_outward(images, changed)
            assert (rounded == np.rint(rounded)).all()
            np.testing.assert_allclose(
                outcome.margin_8bit[known], part.network.margins(rounded / 255.0, classes)
            )
        assert place == len(outcome.rows)


def test_only_images_that_are_decided_rightly_are_attacked(done):
    whole, outcomes = done
    rows = np.sort(outcomes["attack"].rows)
    assert len(rows) > 0.7 * ROWS
    assert rows.max() < ROWS
    labels = whole.data.test_labels[rows]
    if len(whole.networks) == 1:
        right = np.flatnonzero(
            whole.classify(whole.data.test[:ROWS]) == whole.data.test_labels[:ROWS]
        )
    else:
        test = whole.data.test[:ROWS]
        yes = np.column_stack([network.decide(test) for network in whole.networks])
        right = np.flatnonzero(yes[np.arange(ROWS), whole.data.test_labels[:ROWS]])
    assert rows.tolist() == right.tolist()
    assert len(labels) == len(set(rows.tolist()))


def test_proofs_stand_below_everything(done):
    whole, outcomes = done
    ilp = outcomes["ilp"]
    share = -(-whole.config.effort.few // len(whole.parts))
    assert len(ilp.rows) == sum(min(share, len(part.rows)) for part in whole.parts)
    assert (ilp.bound <= ilp.distance + 1e-9).all()
    assert (ilp.bound > 0.0).all()
    assert ilp.flipped.all()
    for other in outcomes.values():
        found = zip(other.distance, other.margin, strict=True)
        nearest = dict(zip(other.rows.tolist(), found, strict=True))
        for row, bound in zip(ilp.rows.tolist(), ilp.bound, strict=True):
            distance, margin = nearest.get(row, (np.inf, 0.0))
            assert distance >= bound - 1e-6 or margin > -1e-3
    attacks = outcomes["attack"]
    assert attacks.flipped.all()
    assert (attacks.margin <= -1e-3 + 1e-9).all()


def test_eight_bits_hold(done):
    _, outcomes = done
    if "attack+8bit" in outcomes:
        assert (outcomes["attack+8bit"].margin_8bit <= 0.0).all()
        assert outcomes["attack+8bit"].flipped.all()


def test_the_table_on_disk_is_the_table(done):
    whole, outcomes = done
    table = whole.table(list(outcomes.values()))
    lines = (whole.out / module.TABLE).read_text().splitlines()
    assert [json.loads(line) for line in lines] == table
    for row in table:
        assert set(row) == FIELDS
        o = outcomes[row["method"]]
        assert row["objective"] == pytest.approx(o.distance.mean())
        assert row["violation"] == pytest.approx((o.margin > 0).mean())
        assert row["violation_8bit"] == pytest.approx((o.margin_8bit > 0).mean())
        assert (row["train_seconds"] > 0) == (row["method"] in TRAINED)
        assert row["seconds"] > 0
        assert row["rows"] == len(o.rows)
        assert row["classifier"] == f"64-16-{1 if len(whole.networks) > 1 else 10}"
    by_name = {row["method"]: row for row in table}
    assert by_name["ilp"]["ratio_proved"] == pytest.approx(1.0)
    assert by_name["ilp"]["proved_rows"] == len(outcomes["ilp"].rows)
    assert by_name["attack"]["gap"] >= 0.0


def test_gaps_and_ratios_by_hand(tmp_path):
    """Two methods, three images, one without an answer, one not flipped, one proved."""
    whole = quick(tmp_path, ("ilp", "attack"))
    none = np.zeros((0, 64))

    def outcome(method, distance, margin, bound):
        arrays = (np.array(a, dtype=float) for a in (distance, margin, margin, bound))
        return AttackOutcome(method, np.arange(3), *arrays, none, 1.0, 2.0)

    first = outcome("ilp", [1.0, 2.0, np.nan], [-1.0, -1.0, np.nan], [1.0, 1.5, 0.0])
    second = outcome("attack", [1.5, 1.8, 0.5], [-1.0, -1.0, 0.25], [0.0, 0.0, 0.0])
    one, two = whole.table([first, second])
    assert one["objective"] == pytest.approx(1.5)
    assert one["violation"] == pytest.approx(1 / 3)
    assert one["gap"] == pytest.approx(3.0 / 2.8 - 1.0)
    assert (one["ratio_proved"], one["proved_rows"]) == (1.0, 1)
    assert two["objective"] == pytest.approx(3.8 / 3)
    assert two["objective_flipped"] == pytest.approx(1.65)
    assert two["gap"] == pytest.approx(3.3 / 2.8 - 1.0)
    assert (two["ratio_proved"], two["proved_rows"]) == (1.5, 1)
    assert two["violation"] == pytest.approx(1 / 3)
    lost = outcome("attack", [np.nan] * 3, [np.nan] * 3, [0.0] * 3)
    (row,) = whole.table([lost])
    assert [row[k] for k in ("objective", "gap", "ratio_proved")] == [None] * 3
    assert row["violation"] == 1.0


def test_a_finished_study_is_not_done_again(done, monkeypatch):
    whole, outcomes = done
    kept = ("runs", "problems")
    before = {p: p.stat().st_mtime_ns for k in kept for p in (whole.out / k).rglob("*")}
    for name in ("answer", "train_classifier"):
        monkeypatch.setattr(module, name, None)
    again = AttackStudy(whole.data, whole.config, whole.out)
    same(again.run(), outcomes.values())
    assert again.table(again.run()) == whole.table(list(outcomes.values()))
    assert {p: p.stat().st_mtime_ns for p in before} == before


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """Two methods, never interrupted."""
    whole = quick(tmp_path_factory.mktemp("short"), ("attack", "residual"))
    return whole, whole.run()


def test_one_seed_decides_everything(short, tmp_path):
    whole, outcomes = short
    same(quick(tmp_path / "again", whole.config.methods).run(), outcomes)
    other = quick(tmp_path / "other", whole.config.methods, seed=1).run()
    assert numbers(other) != numbers(outcomes)


@pytest.mark.parametrize("how", ["between methods", "ctrl-c in training", "killed in training"])
def test_a_stopped_study_continues_to_the_same_end(short, tmp_path, monkeypatch, how):
    whole, outcomes = short
    stopped = quick(tmp_path, whole.config.methods)

    def stop(method, record):
        if how == "between methods" and (method, record) == ("attack", None):
            raise KeyboardInterrupt
        if method == "residual" and record and record["epoch"] == 1:
            if how == "killed in training":
                raise SystemExit
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        stopped.run(stop)
    if how == "between methods":  # its images had come, but nothing was measured
        assert not (tmp_path / "results").exists()
    else:
        table = (tmp_path / module.TABLE).read_text().splitlines()
        assert [json.loads(line)["method"] for line in table] == ["attack"]
        monkeypatch.setattr(module, "train_classifier", None)  # it is kept
    same(quick(tmp_path, whole.config.methods).run(), outcomes)


def test_a_table_keeps_the_methods_that_are_done(tmp_path):
    """A run that stops at a method between others loses none of them."""
    quick(tmp_path, ("attack",)).run()

    def stop(method, record):
        if method == "residual":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(tmp_path, ("residual", "attack")).run(stop)
    (line,) = (tmp_path / module.TABLE).read_text().splitlines()
    assert json.loads(line)["method"] == "attack"


def test_other_settings_need_another_directory(short):
    whole, outcomes = short
    before = (whole.out / module.SETTINGS).read_text()
    other = quick(whole.out, whole.config.methods, epochs=3)
    said = refused(other.run)
    assert said.endswith("effort.epochs was 2 here and is now 3; take another directory")
    deeper = replace(whole.config, classifier=replace(whole.config.classifier, hidden=(9,)))
    assert "classifier.hidden was [16] here and is now [9]" in refused(
        AttackStudy(whole.data, deeper, whole.out).run
    )
    images = replace(whole.data, test=1.0 - whole.data.test)
    assert "sha256 was" in refused(AttackStudy(images, whole.config, whole.out).run)
    assert (whole.out / module.SETTINGS).read_text() == before
    same(quick(whole.out, whole.config.methods).run(), outcomes)


def test_more_methods_may_join(short):
    whole, outcomes = short
    more = quick(whole.out, ("attack+8bit", *whole.config.methods)).run()
    same(more[1:], outcomes)
    same(quick(whole.out, whole.config.methods).run(), outcomes)


def test_a_device_that_is_not_there_leaves_nothing_behind(tmp_path):
    out = tmp_path / "study"
    said = refused(quick(out, ("attack",), device="nowhere").run, kind=MethodError)
    assert "nowhere" in said
    assert not out.exists()


@pytest.mark.parametrize("name", ["results/attack.npz", "classifier.npz", "study.json"])
@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"[1]"])
def test_damaged_files_are_named(tmp_path, name, content):
    quick(tmp_path, ("attack",)).check_settings()
    place = tmp_path / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(content)
    assert refused(quick(tmp_path, ("attack",)).run, kind=FormatError).startswith(str(place))


def test_arrays_of_something_else_are_refused(tmp_path):
    whole = quick(tmp_path, ("attack",))
    np.savez(tmp_path / "classifier.npz", weights_0_0=np.eye(2), other=np.eye(2))
    assert "a classifier" in refused(lambda: whole.networks, kind=FormatError)


def test_deep_classifiers_come_back_in_order(tmp_path):
    config = quick(tmp_path, ("attack",)).config
    deep = replace(config, classifier=replace(config.classifier, hidden=(3,) * 11, epochs=1))
    first = AttackStudy(few_digits(), deep, tmp_path).networks
    again = AttackStudy(few_digits(), deep, tmp_path).networks
    for one, two in zip(first[0].weights, again[0].weights, strict=True):
        np.testing.assert_array_equal(one, two)


def test_without_a_pictured_digit(tmp_path):
    data = few_digits()
    chosen = data.test_labels == 3
    threes = replace(data, test=data.test[chosen], test_labels=data.test_labels[chosen])
    whole = AttackStudy(threes, quick(tmp_path, ("attack",)).config, tmp_path)
    (outcome,) = whole.run()
    assert whole.pictured.dtype == np.int64
    assert outcome.pictured.shape == (0, 64)
    assert outcome.flipped.all()


def test_nothing_to_attack_is_said(tmp_path):
    data = few_digits()
    wrong = replace(data, test_labels=(data.test_labels + 1) % 10)
    whole = AttackStudy(wrong, quick(tmp_path, ("attack",)).config, tmp_path)
    rows = np.flatnonzero(whole.classify(wrong.test) != wrong.test_labels)
    lost = replace(wrong, test=wrong.test[rows], test_labels=wrong.test_labels[rows])
    said = refused(AttackStudy(lost, whole.config, tmp_path).run)
    assert said == "the classifier decides none of the test images rightly; take more"


@pytest.mark.parametrize("one_vs_all", [False, True])
def test_the_classifier_of_the_embedded_digits_is_good_enough(one_vs_all):
    """The paper asks for more than 95 %."""
    from cmpe.formats.images import read_images
    from study.adversarial.classifier import FEW, train_classifier

    data = read_images("digits")
    networks = train_classifier(data.train, data.train_labels, replace(FEW, one_vs_all=one_vs_all))
    assert len(networks) == (10 if one_vs_all else 1)
    assert accuracy(networks, data.test, data.test_labels) > 0.95


def test_settings_that_cannot_be():
    base = StudyConfig()
    assert "found 'magic'" in refused(lambda: replace(base, methods=("magic",)))
    assert replace(base, methods=("attack", "ilp", "attack")).methods == ("attack", "ilp")
    assert asdict(base)["effort"]["few"] == 10


def test_a_user_gets_the_studys_answers(done):
    """What the table quotes comes out of `NeuralSolver` and `cmpe.solve`, from the run's files."""
    whole, outcomes = done
    learned = TRAINED & set(outcomes)
    assert len(learned) >= 2
    for method in learned:
        stages = {"certificate": "none", "repair": False}
        outcome, place = outcomes[method], 0
        for part in whole.parts:
            run = whole.out / "runs" / str(run_of(method)) / part.name
            asked = read_directory(whole.out / "problems" / part.name)
            np.testing.assert_array_equal(asked.test, part.test)
            solver = NeuralSolver.load(run, asked.problem).with_stages(**stages)
            known = slice(place, place + len(part.rows))
            place += len(part.rows)
            for found in (
                solver.solve(part.problem, part.test),
                cmpe.solve(asked.problem, asked.test, method=solver),
            ):
                np.testing.assert_array_equal(outcome.rows[known], part.rows)
                np.testing.assert_allclose(-found.objective, outcome.distance[known], atol=1e-12)
                flipped = found.constraint_values[:, 0] <= 0.0
                np.testing.assert_array_equal(flipped, outcome.flipped[known])
