"""The command itself: its help, its one-line errors, and what happens to its output."""

from __future__ import annotations

import ctypes
import inspect
import os
import pkgutil
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import cmpe.cli
from cmpe.cli.main import COMMANDS
from tests.cli.commands import COMMAND, MODEL, SOLVE, as_process, output, run

UNKNOWN = "error: No such command 'nonsense'.\n"


def commands():
    """Every command of `cmpe.cli`, by name: modules that hold a function of their own name."""
    found = {}
    for part in pkgutil.walk_packages(cmpe.cli.__path__, "cmpe.cli."):
        name = part.name.rpartition(".")[2]
        function = getattr(import_module(part.name), name, None)
        if inspect.isfunction(function) and name != "main":
            found[name] = function
    return found


def test_every_command_is_listed():
    assert sorted(COMMANDS) == sorted(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_sentence_of_a_command_is_its_own(name):
    paragraph = inspect.getdoc(commands()[name]).split("\n\n")[0]
    assert COMMANDS[name] == " ".join(paragraph.split())


def test_help_without_arguments_shows_every_command():
    code, out, err = run()
    assert (code, err) == (0, "")
    words = " ".join(out.replace("│", " ").split())
    for name, about in COMMANDS.items():
        assert f"{name} {about}" in words


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command(call, name):
    code, out, err = call(name, "--help")
    assert (code, err) == (0, "")
    assert f"Usage: cmpe {name} " in out
    assert COMMANDS[name] in " ".join(out.split())


def test_the_version_is_that_of_the_package():
    assert output("--version") == f"cmpe {version('cmpe')}\n"


@pytest.mark.parametrize("arguments", [["--help"], [], ["--version"], ["nonsense"]])
def test_help_loads_nothing_heavy(arguments):
    script = (
        "import sys\n"
        "from cmpe.cli.main import main\n"
        f"sys.argv = ['cmpe', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'torch', 'scipy', 'matplotlib', 'numba', 'highspy'}\n"
        "sys.stderr.write(' '.join(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.replace(UNKNOWN, "")) == (0, "")


def test_an_unknown_command_is_one_line():
    assert run("nonsense") == (2, "", UNKNOWN)


@pytest.mark.parametrize("name", ["report", "adversarial"])
def test_a_command_that_moved_says_where(refused, name):
    assert refused(name, "--out", "x") == (
        f"`cmpe {name}` is now `python -m study {name}`, run in a checkout of cmpe"
    )


@pytest.mark.parametrize("what", [["solve", "{}", "--method", "exhaustive"], ["--help"]])
def test_a_reader_that_goes_away_is_no_error(problem, what):
    arguments = [COMMAND, *(word.format(problem) for word in what)]
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, env=buffered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


USAGE = [
    (["nonsense"], "No such command 'nonsense'"),
    (["solve", "--nonsense"], "No such option: --nonsense"),
    (["info"], "Missing argument"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_arguments(refused, arguments, message):
    assert message in refused(*arguments)


def test_out_of_memory(refused, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr("cmpe.solving.answer", exhausted)
    assert refused(*SOLVE) == "out of memory: Unable to allocate 8 TiB"


def test_processes_say_it_in_one_line_too(tmp_path):
    (tmp_path / "cut.uai").write_text(MODEL[:-4])
    for arguments, message in (
        (["info", "cut.uai"], r"error: cut\.uai: line 1, word 15: expected 6 x a table entry, .*"),
        (["solve", "--objective", "cut.uai", "--method", "magic"], "error: a method is one of .*"),
        (["solve", "--seed", "x"], "error: Invalid value for '--seed': .*"),
    ):
        done = as_process(*arguments, cwd=tmp_path, stdout=subprocess.PIPE)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(f"{message}\n", done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout(tmp_path):
    (tmp_path / "m.uai").write_text(MODEL)
    with open("/dev/full", "w") as full:
        for arguments in ([*SOLVE, "--method", "exhaustive"], ["info", "m.uai"]):
            done = as_process(*arguments, cwd=tmp_path, stdout=full)
            assert done.returncode == 2
            assert done.stderr == "error: output: No space left on device\n"


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_nothing_half_written(refused):
    for arguments in (["convert", "m.uai", "o.LG.gz"], ["generate", "m.uai", "--out", "new"]):
        assert refused(*arguments).endswith("cannot be written: No space left on device")


def test_ctrl_c_before_anything_is_solved(refused, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("cmpe.formats.uai.read_uai", interrupted)
    assert refused(*SOLVE, "--output", "out.json") == "interrupted"


def test_ctrl_c_lost_in_a_callback_is_sent_again(refused, monkeypatch):
    def loading(*_):
        """Be interrupted where Python cannot raise, as while compiled code is loaded."""
        callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
        callback()
        time.sleep(10)

    monkeypatch.setattr("cmpe.formats.uai.read_uai", loading)
    assert refused("info", "m.uai") == "interrupted"
