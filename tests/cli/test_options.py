"""What commands share: models and problems, methods by name or by run, devices, progress."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.main import get_command

from cmpe import CutsetNetwork, LogLinearModel, write_network
from cmpe.cli import options
from cmpe.cli.main import make_app
from cmpe.cli.options import (
    DEVICE_HELP,
    METHOD_HELP,
    STAGES_HELP,
    THREADS_HELP,
    WORKERS_HELP,
    read_tables,
)
from cmpe.errors import InputError, how_to_install
from cmpe.formats.registry import read_model
from cmpe.learning.pipeline import Pipeline
from cmpe.solvers import METHODS
from cmpe.solving import chosen
from tests.cli.commands import MODEL, SOLVE
from tests.problems import all_assignments, random_cutset, worked_example

NAMES = ", ".join(METHODS)
MODELS = {
    "cut.uai": (MODEL[:-4], "line 1, word 15: expected 6 x a table entry, found only 4 more words"),
    "text.uai": (MODEL.replace("6 1 2", "6 1 two"), "word 16: expected a table entry, found 'two'"),
    "size.uai": (MODEL.replace(" 6 1", " 5 1"), "expected the table size 6 of factor 1, found 5"),
    "huge.uai": ("MARKOV 999999999 2 2", "expected 999999999 x a cardinality, found only 2 more"),
    "minus.uai": (MODEL[:-1] + "-6", "expected a finite potential of at least 0, found '-6'"),
    "nan.uai": (MODEL[:-1] + "nan", "expected a finite potential of at least 0, found 'nan'"),
    "twice.uai": (MODEL.replace("2 0 1 2 1", "2 1 1 2 1"), "expected distinct variables in factor"),
    "none.uai": (None, "cannot be read: No such file or directory"),
    "m.uai.gz": ("no gzip", "expected a whole .gz file, found"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_bad_model(refused, name):
    content, message = MODELS[name]
    if content is not None:
        Path(name).write_text(content)
    for arguments in (
        ["solve", "--objective", name, "--output", "out.json"],
        ["solve", "--objective", "m.uai", "--constraint", name, "--at-most", 1],
        ["info", name],
        ["convert", name, "out.LG"],
        ["convert", name, "out.cfn"],
        ["generate", name, "--out", "new"],
    ):
        line = refused(*arguments)
        assert line.startswith(f"{name}: ")
        assert message in line


USAGE = [
    (["solve"], "give either a problem directory or --objective MODEL; found neither"),
    (["solve", "d", "--objective", "m.uai"], "give either a problem directory or --objective"),
    (
        ["solve", "d", "--constraint", "m.uai", "--at-most", "1"],
        "--constraint goes with --objective, not with a directory",
    ),
    (["solve", "nowhere"], "nowhere: expected a problem directory, found nothing"),
    (["solve", "m.uai"], "m.uai: expected a problem directory, found a file; a model is given by"),
    (["bound", "nowhere"], "nowhere: expected a problem directory, found nothing"),
    (
        [*SOLVE, "--constraint", "m.uai"],
        "needs one --at-most or --at-least: found 1 and 0",
    ),
    ([*SOLVE, "--constraint", "m.uai", "--at-most", "nan"], "at_most must be a finite number"),
    (
        [*SOLVE, "--constraint", "t.uai", "--at-most", "1"],
        "t.uai must have the same variables",
    ),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_arguments(refused, arguments, message):
    Path("t.uai").write_text("MARKOV 2 2 2 0")
    assert message in refused(*arguments)


WRITTEN = [
    ([*SOLVE, "--output", "a.parquet"], ".parquet", "frames"),
    ([*SOLVE, "--output", "a/", "--format", "parquet"], ".parquet", "frames"),
    ([*SOLVE, "--trace", "a.svg"], ".svg", "report"),
    (["front", *SOLVE[1:], "--output", "a.png"], ".png", "report"),
]


@pytest.mark.parametrize(("arguments", "suffix", "extra"), WRITTEN)
def test_what_only_an_extra_can_write_is_refused_before_anything_is_solved(
    refused, monkeypatch, arguments, suffix, extra
):
    assert options.WRITERS[suffix][1] == extra
    monkeypatch.setitem(options.WRITERS, suffix, ("nowhere", extra))
    monkeypatch.setattr("cmpe.solving.solve", None)
    line = refused(*arguments)
    assert line == f"nowhere is not installed; {how_to_install(extra)}"


def test_a_front_needs_a_constraint(refused):
    assert "a front needs a --count, or --constraint MODEL" in refused(
        "front", "--objective", "m.uai"
    )


@pytest.mark.parametrize(("value", "said"), [("three", "found 'three'"), ("", "found ''")])
def test_a_value_of_another_type_is_shown(refused, value, said):
    line = refused(*SOLVE, "--constraint", "m.uai", "--at-most", value)
    assert line.startswith("Invalid value for '--at-most'")
    assert line.endswith(said)


def test_a_learned_model_may_be_named_without_its_suffix(tmp_path):
    network = random_cutset(3)
    write_network(network, tmp_path / "tree.json")
    found = read_model(tmp_path / "tree")
    assert isinstance(found, CutsetNetwork)
    rows = all_assignments(network.cardinalities)
    np.testing.assert_array_equal(found.value(rows), network.value(rows))


def test_only_a_network_that_is_not_small_stays_one(tmp_path, monkeypatch):
    network = random_cutset(5)
    write_network(network, tmp_path / "tree.json")
    tables = read_tables(tmp_path / "tree.json")
    assert isinstance(tables, LogLinearModel)
    rows = all_assignments(network.cardinalities)
    np.testing.assert_allclose(tables.value(rows), network.value(rows))
    monkeypatch.setattr(options, "SMALL_EXPANSION", 0)
    assert isinstance(read_tables(tmp_path / "tree.json"), CutsetNetwork)


def test_model_files_become_one_problem(tmp_path):
    first, second = tmp_path / "h.uai", tmp_path / "t.LG"
    first.write_text(MODEL)
    second.write_text("MARKOV 2 2 3 1 1 0 2 0 1")
    context = typer.Context(get_command(make_app([])), obj=())
    models = options.ProblemOptions(None, first, [second, second], [0.5, 1.5])
    problem, directory = models.read(context)
    assert directory is None
    assert (problem.name, problem.limits.tolist()) == ("h", [0.5, 1.5])
    assert problem.evidence_variables == ()
    assert problem.constraint_values([[1, 2]]).tolist() == [[1.0, 1.0]]
    assert problem.objective.value([[1, 2]])[0] == pytest.approx(np.log(2 * 6))


def test_progress_is_a_bar_on_terminals(monkeypatch, capsys):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    with options.progress_bar("solving") as progress:
        assert progress is not None
        progress(2, 3)
    assert capsys.readouterr().err == ""  # a line follows after half a minute
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with options.progress_bar("solving") as progress:
        assert progress is not None
        progress(2, 3)
    assert "solving" in terminal.getvalue()
    assert "2/3" in terminal.getvalue()


@pytest.mark.parametrize(
    ("device", "message"),
    [("tpu", "--device must be cpu or cuda, found 'tpu'"), ("cuda:1", "torch finds no GPU here")],
)
def test_a_device_that_is_not_there(monkeypatch, device, message):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    options.check_device("cpu")
    with pytest.raises(InputError, match=message):
        options.check_device(device)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    options.check_device("cuda:1")


def test_the_help_lists_the_registry(call):
    assert f"One of {NAMES}; or the directory of a trained run." == METHOD_HELP
    code, out, _ = call("solve", "--help")
    assert code == 0
    shown = "".join(c for c in out if not c.isspace() and c not in "│")
    for sentence in (METHOD_HELP, STAGES_HELP, WORKERS_HELP, THREADS_HELP, DEVICE_HELP):
        assert sentence.replace(" ", "") in shown


def test_the_help_says_what_workers_and_threads_are_for():
    """The methods that it names are the ones that work row by row in processes."""
    assert "in processes by milp, toulbar2, exhaustive" in WORKERS_HELP
    assert "within a row for milp, more rows at the same time for the others" in THREADS_HELP
    devices = [name for name, row in METHODS.items() if row.takes_device]
    assert f"cpu, or cuda for {', '.join(devices)} and trained runs." == DEVICE_HELP


def test_an_unknown_method_is_one_line_with_the_registry(refused):
    line = refused("solve", "--objective", "nowhere.uai", "--method", "magic")
    assert line == f"a method is one of {NAMES}; found 'magic'"


@pytest.mark.usefixtures("beside_model")
def test_a_folder_called_exact_is_not_the_method(call):
    Path("exact").mkdir()
    (Path("exact") / "config.json").write_text("{}")
    code, out, err = call(*SOLVE, "--method", "exact")
    assert (code, err) == (0, "")
    assert json.loads(out)["method"] == "exact"
    assert chosen("exact", worked_example()) == "exact"


@pytest.mark.parametrize("kind", ["empty", "problem"])
def test_a_folder_that_is_no_run(refused, problem, kind):
    Path("empty").mkdir()
    folder = "empty" if kind == "empty" else str(problem)
    line = refused("solve", "--objective", "nowhere.uai", "--method", folder)
    assert line == (
        f"a method is one of {NAMES}, or the directory of a trained run; found the directory "
        f"{folder!r}, which holds no run"
    )


def test_a_folder_with_another_config(refused):
    Path("other").mkdir()
    (Path("other") / "config.json").write_text('{"format_version": 99}')
    line = refused(*SOLVE, "--method", "other")
    assert line == "other/config.json: field 'format_version': expected 1, found 99"


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if not row.takes_device])
def test_a_device_for_a_method_without_one_is_refused_before_files_are_read(refused, method):
    line = refused("solve", "--objective", "nowhere.uai", "--method", method, "--device", "cuda")
    assert line == (
        "only method lagrangian and trained networks take a device; found "
        f"{method!r} with device 'cuda'"
    )


def test_a_gap_for_another_method_is_refused_before_files_are_read(refused):
    line = refused("solve", "--objective", "nowhere.uai", "--method", "milp", "--gap", "1")
    assert line == "only method auto takes a gap, found 'milp' with gap 1.0"


@pytest.mark.parametrize(
    ("package", "method", "extra"),
    [("pytoulbar2", "toulbar2", "toulbar2"), ("pyscipopt", "milp:scip", "scip"),
     ("gurobipy", "milp:gurobi", "gurobi")],
)  # fmt: skip
def test_a_missing_extra_is_named(refused, monkeypatch, package, method, extra):
    monkeypatch.setitem(sys.modules, package, None)
    line = refused(*SOLVE, "--method", method)
    assert f"pip install 'cmpe[{extra}]'" in line


def test_the_help_names_every_stage():
    assert all(stage.name in STAGES_HELP for stage in fields(Pipeline))


def test_stages_go_with_a_run(refused):
    line = refused("solve", "--objective", "nowhere.uai", "--stages", "repair=no")
    assert line == (
        "--stages (margins, repair, certificate, search_passes, sweeps) goes "
        "with a trained run, found method auto"
    )


def test_stages_are_refused_before_files_are_read(refused, monkeypatch):
    monkeypatch.setattr("cmpe.learning.runs.is_run", lambda folder: True)
    Path("run").mkdir()
    line = refused("solve", "nowhere", "--method", "run", "--stages", "magic=1")
    assert line == (
        "stages are NAME=VALUE, each NAME once of margins, repair, certificate, search_passes, "
        "sweeps; found 'magic=1'"
    )
