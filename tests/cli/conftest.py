"""The command in this process."""

from __future__ import annotations

import os
import sys

import pytest

from cmpe.cli.main import main
from tests.refusals import only_line


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


@pytest.fixture
def refused(call, tmp_path):
    """The one line of a command that must fail, print nothing else and leave no new file."""

    def calling(*words):
        before = sorted(os.walk(tmp_path))
        code, out, err = call(*words)
        assert (code, out) == (2, "")
        assert sorted(os.walk(tmp_path)) == before
        return only_line(err)

    return calling
