"""The study's command line in this process."""

from __future__ import annotations

import os
import sys

import pytest

from study.__main__ import main
from tests.refusals import only_line


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command: (exit code, stdout, stderr)."""

    def calling(*words):
        monkeypatch.setattr(sys, "argv", ["study", *map(str, words)])
        monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
        with pytest.raises(SystemExit) as stop:
            main()
        return stop.value.code, *capsys.readouterr()

    return calling


@pytest.fixture
def refused(call, tmp_path, monkeypatch):
    """The one line of a command that must fail, print nothing else and leave no new file."""
    monkeypatch.chdir(tmp_path)

    def calling(*arguments):
        before = sorted(os.walk("."))
        code, out, err = call(*arguments)
        assert (code, out) == (2, "")
        assert sorted(os.walk(".")) == before
        return only_line(err)

    return calling
