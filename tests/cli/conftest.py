"""The command in this process, and files that several commands read."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from cmpe.cli.main import main
from cmpe.flip import adversarial
from cmpe.formats.directory import ProblemDirectory, write_directory
from cmpe.formats.uai import write_uai
from cmpe.generation import grid
from cmpe.models.relu import ReluNetwork
from tests.cli.commands import MODEL, generated, output
from tests.refusals import fill_disk, only_line


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command: (exit code, stdout, stderr without notices of compiling)."""

    def calling(*words):
        monkeypatch.setattr(sys, "argv", ["cmpe", *map(str, words)])
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        with pytest.raises(SystemExit) as stop:
            main()
        out, err = capsys.readouterr()
        lines = [line for line in err.splitlines(True) if not line.startswith("cmpe: compiling ")]
        return stop.value.code, out, "".join(lines)

    return calling


@pytest.fixture
def beside_model(tmp_path, monkeypatch):
    """An empty current directory, but for a model of two variables."""
    monkeypatch.chdir(tmp_path)
    Path("m.uai").write_text(MODEL)


@pytest.fixture
def refused(call, beside_model):
    """The one line of a command that must fail, print nothing else and leave no new file."""

    def calling(*arguments):
        before = sorted(os.walk("."))
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        assert sorted(os.walk(".")) == before
        return only_line(err)

    return calling


@pytest.fixture
def full_disk(monkeypatch):
    fill_disk(monkeypatch)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.grid.uai.gz"
    write_uai(grid(3, 4, seed=1), path)
    return path


@pytest.fixture(scope="session")
def problem(model, tmp_path_factory):
    """A problem directory of that model: 12 variables, 6 of them observed, 6 test rows."""
    folder = tmp_path_factory.mktemp("generated") / "new" / "problem"
    output(*generated(model, folder))
    return folder


@pytest.fixture(scope="session")
def flips(tmp_path_factory):
    """A problem directory without tables: the least change that flips a network of 3 inputs."""
    rng = np.random.default_rng(1)
    layers = (rng.normal(size=(5, 3)), rng.normal(size=(2, 5)))
    problem = adversarial(ReluNetwork(layers, (np.zeros(5), np.zeros(2))))
    folder = tmp_path_factory.mktemp("flips") / "problem"
    write_directory(ProblemDirectory(problem, np.zeros((0, 3)), rng.random((4, 3))), folder)
    return folder
