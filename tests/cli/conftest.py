"""The command in this process, and a small model and problem as files."""

from __future__ import annotations

import sys

import pytest

from cmpe.cli.main import main
from cmpe.formats.uai import write_uai
from cmpe.generation import grid


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command: (exit code, stdout, stderr)."""

    def calling(*words):
        monkeypatch.setattr(sys, "argv", ["cmpe", *map(str, words)])
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    return calling


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.grid.uai.gz"
    write_uai(grid(3, 4, seed=1), path)
    return path


@pytest.fixture(scope="module")
def problem(model, tmp_path_factory):
    from tests.cli.test_cli import generated, run

    folder = tmp_path_factory.mktemp("generated") / "new" / "problem"
    code, out, err = run(*generated(model, folder))
    assert (code, err) == (0, "")
    assert out.startswith(f"{folder}: 12 variables, 6 observed, ")
    assert out.count("\n") == 1
    return folder
