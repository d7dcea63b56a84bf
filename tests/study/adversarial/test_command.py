"""`study adversarial`: a table, a picture, a directory that can be continued, one-line errors."""

from __future__ import annotations

import gzip
import json
import re
import struct
import sys
from functools import partial

import numpy as np
import pytest

from cmpe.formats.images import read_images
from study.adversarial import study as module
from tests.cli.commands import output
from tests.refusals import only_line

QUICK = ("--rows", "12", "--few", "2", "--epochs", "1")


@pytest.fixture
def refused(refused):
    """The same of this command."""
    return partial(refused, "adversarial")


def rows_in(out):
    return [json.loads(line) for line in (out / "adversarial.jsonl").read_text().splitlines()]


@pytest.fixture
def small(tmp_path):
    """MNIST's four files with some of the embedded digits in them."""
    data, folder = read_images("digits"), tmp_path / "small"
    folder.mkdir()
    for part, images, labels in (
        ("train", data.train[:300], data.train_labels[:300]),
        ("t10k", data.test[:40], data.test_labels[:40]),
    ):
        pixels = np.rint(255 * images).astype(np.uint8)
        head = struct.pack(">4B3I", 0, 0, 8, 3, len(pixels), 8, 8)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
        whole = struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + labels.astype(np.uint8).tobytes()
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(whole))
    return folder


def test_a_table_and_a_picture(call, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "study"
    methods = "ilp, mse, attack, attack+8bit"
    code, text, err = call("adversarial", "--out", out, "--methods", methods, *QUICK)
    assert (code, err) == (0, "")
    lines = text.splitlines()
    percent = re.match(r"Classifier 64-32-10 on digits: (\d+\.\d+)% of 359 test images", lines[0])
    assert float(percent[1]) > 95.0
    (head,) = [k for k, line in enumerate(lines) if line.startswith("method")]
    assert [line.split()[0] for line in lines[head + 1 : -1]] == methods.split(", ")
    assert lines[-1] == f"The picture is {out / 'adversarial.png'}."
    assert (out / "adversarial.png").read_bytes().startswith(b"\x89PNG")
    picture = (out / "adversarial.svg").read_text()
    assert picture.rstrip().endswith("</svg>")
    assert all(f"<!-- {name} -->" in picture for name in ("original", "ilp", "attack+8bit"))
    assert not [p for p in out.rglob("*") if p.name.startswith(".")]
    again = call("adversarial", "--out", out, "--methods", methods, *QUICK)
    assert again == (0, text, "")


def test_json_is_one_object_a_line(call, tmp_path):
    words = ("--out", tmp_path, "--methods", "residual,attack", "--format", "json")
    code, text, err = call("adversarial", *words, "--classifier", "one-vs-all", *QUICK)
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["method"] for row in rows] == ["residual", "attack"]
    assert rows == rows_in(tmp_path)
    assert {row["classifier"] for row in rows} == {"64-32-1"}
    assert rows[1]["violation"] == 0.0
    assert rows[1]["train_seconds"] == 0.0 < rows[0]["train_seconds"]
    assert rows[0]["objective"] > 0.0


def test_idx_files(call, small, tmp_path):
    words = ("--data", small, "--methods", "attack", "--hidden", "12,6", "--format", "json")
    code, text, _ = call("adversarial", *words, "--out", tmp_path / "study")
    assert code == 0
    (row,) = map(json.loads, text.splitlines())
    assert row["classifier"] == "64-12-6-10"
    assert row["violation"] == 0.0


def test_solve_gives_the_studys_figures(call, small, tmp_path):
    """`cmpe solve PROBLEM --method RUN --stages ...` on what the study left behind."""
    out = tmp_path / "study"
    words = ("--data", small, "--hidden", "12", "--methods", "mse,residual")
    assert call("adversarial", *words, "--out", out)[0] == 0
    rows = {row["method"]: row for row in rows_in(out)}
    for method in ("mse", "residual"):
        kept = np.load(out / "results" / f"{method}.npz")
        run = ("--method", out / "runs" / method / "all", "--stages", "repair=no")
        text = output("solve", out / "problems" / "all", *run)
        found = [json.loads(line) for line in text.splitlines()]
        distances = [-row["objective"] for row in found]
        np.testing.assert_allclose(distances, kept["distance"], rtol=1e-14, atol=0)
        margins = [row["constraints"][0]["value"] for row in found]
        np.testing.assert_allclose(margins, kept["margin"], rtol=0, atol=1e-12)
        assert np.mean(distances) == pytest.approx(rows[method]["objective"], rel=1e-14)
        assert np.mean(np.array(margins) > 0.0) == rows[method]["violation"]
        images = {tuple(row["assignment"][64:]) for row in found}
        assert len(kept["pictured"]) > 1
        assert {tuple(image) for image in kept["pictured"].tolist()} <= images  # bit for bit


def test_bad_options(refused, tmp_path, monkeypatch):
    out = ("--out", tmp_path / "study")
    assert "found 'magic'" in refused(*out, "--methods", "attack,magic")
    assert "found ''" in refused(*out, "--methods", "")
    assert "missing: expected 'digits'" in refused(*out, "--data", tmp_path / "missing")
    assert "train-images-idx3-ubyte: not there" in refused(*out, "--data", tmp_path)
    for hidden in ("x", "", "3.5", "8,,8"):
        assert refused(*out, "--hidden", hidden).startswith("--hidden is whole numbers")
    assert "hidden sizes" in refused(*out, "--hidden", "0")
    assert "above 0 seconds" in refused(*out, "--time-limit", "0")
    assert "--format is json or table" in refused(*out, "--format", "uai")
    assert "--device must be cpu or cuda" in refused(*out, "--device", "tpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "torch finds no GPU" in refused(*out, "--device", "cuda")
    monkeypatch.setitem(sys.modules, "foolbox", None)
    assert "pip install 'cmpe[study]'" in refused(*out, "--methods", "attack,foolbox:ead")


@pytest.mark.parametrize(
    "words", [("--rows", "0"), ("--few", "0"), ("--epochs", "0"), ("--seed", "-1"), ()]
)
def test_numbers_out_of_range(refused, tmp_path, words):
    assert refused(*(("--out", tmp_path / "study") if words else ()), *words)


def test_a_file_in_the_way(call, tmp_path):
    (tmp_path / "study").write_text("mine")
    code, out, err = call("adversarial", "--out", tmp_path / "study", "--methods", "attack")
    assert (code, out) == (2, "")
    assert "cannot be written" in only_line(err)
    assert (tmp_path / "study").read_text() == "mine"


def test_other_settings_are_refused(call, small, tmp_path):
    words = ("adversarial", "--data", small, "--methods", "attack", "--out", tmp_path / "study")
    assert call(*words)[0] == 0
    code, out, err = call(*words, "--seed", "1")
    assert (code, out) == (2, "")
    assert "classifier.seed was 0 here and is now 1; take another directory" in only_line(err)
    assert call(*words)[0] == 0


def test_ctrl_c_says_how_to_go_on(call, small, tmp_path, monkeypatch):
    out = tmp_path / "study"
    words = ("adversarial", "--data", small, "--out", out, "--format", "json", *QUICK)
    words += ("--methods", "attack,mse")
    answer = module.answer

    def stopping(method, *rest):
        if method == "mse":
            raise KeyboardInterrupt
        return answer(method, *rest)

    monkeypatch.setattr(module, "answer", stopping)
    code, _, err = call(*words)
    assert code == 2
    assert only_line(err) == f"interrupted; {out} holds what is done, the same command continues"
    (first,) = rows_in(out)
    monkeypatch.setattr(module, "answer", answer)
    code, text, err = call(*words)
    assert (code, err) == (0, "")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["method"] for row in rows] == ["attack", "mse"]
    assert {**rows[0], "gap": 0} == {**first, "gap": 0}  # another method may be nearer


def test_without_matplotlib_there_is_a_table(call, small, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    out = tmp_path / "study"
    code, text, err = call("adversarial", "--data", small, "--out", out, "--methods", "attack")
    assert (code, err) == (0, "")
    assert text.splitlines()[-1].startswith("attack ")
    assert not (out / "adversarial.png").exists()
