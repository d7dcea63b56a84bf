"""The command line as tests call it: in this process, or as others do in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from cmpe.cli.main import COMMANDS, make_app

COMMAND = str(Path(sys.executable).with_name("cmpe"))
MODEL = "MARKOV 2 2 3 2 1 0 2 0 1 2 1 2 6 1 2 3 4 5 6"  # the table of (0, 1) is 1 to 6
SOLVE = ["solve", "--objective", "m.uai"]
FILES = ["constraint.uai", "objective.uai", "problem.json", "test.npy", "train.npy"]

app = make_app(COMMANDS)


def run(*arguments, **options):
    """The installed command in a process of its own: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def output(*arguments):
    """What a command that succeeds prints, without a process."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


def as_process(*arguments, **options):
    """With output buffered, so that the end of the process must flush it."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def generated(model, folder, seed=3):
    options = ["--samples", 60, "--percentile", 30, "--evidence-fraction", 0.5, "--seed", seed]
    return "generate", model, "--out", folder, *options
