"""`cmpe learn` and what its models are good for: generate, info, convert, solve."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from cmpe import read_directory, read_network, read_uai
from cmpe.cli.main import COMMANDS, make_app
from cmpe.formats.debd import read_debd
from tests.cli.commands import output, rows_of, run
from tests.models.tractable.test_learning import clusters

app = make_app(COMMANDS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    for seed, name in enumerate(("train", "valid", "test")):
        np.savetxt(folder / f"{name}.data.gz", clusters(seed), fmt="%d", delimiter=",")
    return folder


def options(data):
    return (
        data / "train.data.gz",
        "--valid",
        data / "valid.data.gz",
        "--test",
        data / "test.data.gz",
    )


@pytest.mark.parametrize("kind", ["chow-liu", "cutset"])
def test_learn_reports_what_it_wrote(data, tmp_path, kind):
    out = tmp_path / "model.json"
    text = output("learn", *options(data), "--model", kind, "--out", out, "--format", "json")
    (report,) = rows_of(text)
    network = read_network(out)
    for name in ("train", "valid", "test"):
        rows = read_debd(data / f"{name}.data.gz")
        assert report[name] == pytest.approx(network.log_likelihood(rows).mean())
    assert report["model"] == kind
    assert json.loads(out.read_text())["log_likelihood"]["test"] == report["test"]
    table = output("learn", *options(data), "--model", kind, "--out", out, "--format", "table")
    assert f"{report['test']:.4f}" in table
    assert "leaves" in output("info", out)
    assert output("info", tmp_path / "model") == output("info", out)


def test_cutset_beats_chow_liu(data, tmp_path):
    found = {}
    for kind, more in (("chow-liu", []), ("cutset", ["--candidates", 8])):
        command = ["learn", *options(data), "--model", kind, "--out", tmp_path / kind, *more]
        found[kind] = rows_of(output(*command, "--format", "json"))[0]["test"]
    assert found["cutset"] > found["chow-liu"] + 0.4


@pytest.mark.parametrize("kind", ["chow-liu", "cutset"])
def test_a_learned_model_becomes_a_problem(data, tmp_path, kind, monkeypatch):
    model = tmp_path / "model.json"
    output("learn", *options(data), "--model", kind, "--out", model, "--candidates", 8)
    small = ["--samples", 40, "--percentile", 30, "--evidence-fraction", 0.4]
    output("generate", model, "--out", tmp_path / "tables", *small)
    assert (tmp_path / "tables" / "objective.uai").exists()
    monkeypatch.setattr("cmpe.cli.options.SMALL_EXPANSION", 0)
    output("generate", model, "--out", tmp_path / "native", *small)
    is_native = (tmp_path / "native" / "objective.npz").exists()
    assert is_native == (kind == "cutset")
    content = read_directory(tmp_path / "native")
    assert content.problem.is_log_linear == (kind == "chow-liu")
    assert "free variables" in output("info", tmp_path / "native")
    answers = rows_of(output("solve", tmp_path / "native", "--format", "json"))
    oracle = rows_of(output("solve", tmp_path / "native", "--method", "exhaustive"))
    for ours, theirs in zip(answers, oracle, strict=True):
        assert ours["status"] == theirs["status"]
        if theirs["objective"] is not None:
            assert ours["objective"] == pytest.approx(theirs["objective"], abs=1e-6)


def test_a_learned_model_becomes_tables(data, tmp_path):
    model, tables = tmp_path / "model.json", tmp_path / "model.LG"
    output("learn", data / "train.data.gz", "--out", model, "--depth", 2)
    output("learn", data / "train.data.gz", "--out", tables, "--depth", 2)
    output("convert", model, tmp_path / "converted.LG")
    assert tables.read_bytes() == (tmp_path / "converted.LG").read_bytes()
    rows = clusters(1)
    values = read_network(model).value(rows)
    np.testing.assert_allclose(read_uai(tables).value(rows), values, rtol=1e-12)


def test_npy_data(data, tmp_path):
    np.save(tmp_path / "train.npy", clusters(0))
    first = output(
        "learn", tmp_path / "train.npy", "--out", tmp_path / "a.json", "--format", "json"
    )
    second = output(
        "learn", data / "train.data.gz", "--out", tmp_path / "b.json", "--format", "json"
    )
    assert first == second


def test_progress_is_for_terminals_only(data, tmp_path):
    code, stdout, stderr = run("learn", *options(data), "--out", tmp_path / "m.json")
    assert (code, stderr) == (0, "")
    assert stdout.splitlines()[0].endswith("depth")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"0,1\n0\n", "line 2"),
        (b"0,x\n", "whole numbers"),
        (b"", "empty file"),
        (b"0,1,1\n", "columns"),
    ],
)
def test_bad_data(data, tmp_path, content, message):
    bad = tmp_path / "bad.data"
    bad.write_bytes(content)
    arguments = ["learn", data / "train.data.gz", "--valid", bad, "--out", tmp_path / "m.json"]
    code, stdout, stderr = run(*arguments)
    assert (code, stdout) == (2, "")
    assert stderr.startswith(f"error: {bad}")
    assert message in stderr
    assert not (tmp_path / "m.json").exists()


def test_bad_arrays(tmp_path):
    for rows, message in (
        (np.full((2, 2), -1), "from 0 to 255"),
        (np.zeros((0, 3), dtype=int), "rows of data"),
    ):
        np.save(tmp_path / "bad.npy", rows)
        arguments = ["learn", str(tmp_path / "bad.npy"), "--out", str(tmp_path / "m.json")]
        result = CliRunner().invoke(app, arguments)
        assert message in str(result.exception)
