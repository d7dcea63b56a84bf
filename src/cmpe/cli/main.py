"""The command `cmpe`: its sub-commands, its exit codes, its one-line errors.

Exit code 0: done. 1: the question has no answer. 2: bad input, one line `error: ...`.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import typer

from cmpe.cli.adversarial import adversarial
from cmpe.cli.bound import bound
from cmpe.cli.convert import convert
from cmpe.cli.demo import demo
from cmpe.cli.evaluate import evaluate
from cmpe.cli.generate import generate
from cmpe.cli.info import info
from cmpe.cli.learn import learn
from cmpe.cli.report import report
from cmpe.cli.solve import solve
from cmpe.cli.train import train
from cmpe.errors import CmpeError

app = typer.Typer(
    name="cmpe",
    help="Constrained most probable explanation in graphical models: fast, batched, certified.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(solve)
app.command()(bound)
app.command()(generate)
app.command()(learn)
app.command()(info)
app.command()(convert)
app.command()(train)
app.command()(evaluate)
app.command()(adversarial)
app.command()(report)
app.command()(demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cmpe {version('cmpe')}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = typer.Option(
        False, "--version", help="Show the version.", callback=_show_version, is_eager=True
    ),
) -> None:
    """Constrained most probable explanation in graphical models: fast, batched, certified."""


def main() -> None:
    """Run the command line; never a traceback for what a user can mend."""
    warnings.showwarning = _one_line_warning
    sys.unraisablehook = partial(_interrupt_again, sys.unraisablehook)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without box characters shows "?"
    sys.exit(_exit_code())


def _exit_code() -> int:
    try:
        code = _run(sys.argv[1:] or ["--help"])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away: not our error
        _forget_output()
        return 0
    except (CmpeError, MemoryError, OSError, KeyboardInterrupt) as error:
        return _fail(_sentence(error))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _fail(error.format_message())  # a usage error of the option parser
    return code


def _run(arguments: list[str]) -> int:
    """Not `app()`: its own loop would swallow Ctrl-C and what the command says of it."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("cmpe", arguments) as context:
            return int(command.invoke(context) or 0)
    except typer.Exit as stop:
        return stop.exit_code


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    return str(error)


def _fail(message: str) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # a full disk: what is still buffered cannot be saved
        _forget_output()
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return 2


def _forget_output() -> None:
    """Let the flush at exit succeed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _interrupt_again(otherwise: Callable[[Any], object], lost: Any) -> None:
    """Ctrl-C inside a callback from C (a kernel being loaded) is lost there: send it once more."""
    if lost.exc_type is KeyboardInterrupt:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    else:
        otherwise(lost)


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
