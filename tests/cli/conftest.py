"""The command in this process."""

from __future__ import annotations

import sys

import pytest

from cmpe.cli.main import main


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
