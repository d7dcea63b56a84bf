"""The command `cmpe`: its sub-commands, its exit codes, its one-line errors.

Exit code 0: done. 1: the question has no answer. 2: bad input, one line `error: ...`.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from importlib.metadata import version

import typer

from cmpe.cli.convert import convert
from cmpe.cli.demo import demo
from cmpe.cli.generate import generate
from cmpe.cli.info import info
from cmpe.cli.solve import solve
from cmpe.errors import CmpeError

app = typer.Typer(
    name="cmpe",
    help="Constrained most probable explanation in graphical models: fast, batched, certified.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(solve)
app.command()(generate)
app.command()(info)
app.command()(convert)
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
    try:
        sys.exit(_run() or 0)
    except BrokenPipeError:  # the reader of our output went away: not our error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (CmpeError, MemoryError, OSError, KeyboardInterrupt) as error:
        if isinstance(error, OSError) and error.errno == errno.EPIPE:
            sys.exit(0)
        _fail(_sentence(error))


def _run() -> int | None:
    try:
        code: int | None = app(standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        _fail("interrupted")
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        _fail(error.format_message())  # a usage error of the option parser
    return code


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return str(error) or "interrupted"
    if isinstance(error, MemoryError):
        return f"out of memory: {error}"
    if isinstance(error, OSError):
        return f"{error.filename or 'output'}: {error.strerror or error}"
    return str(error)


def _fail(message: str) -> None:
    line = " ".join(message.split())
    sys.stdout.flush()
    print(f"error: {line}", file=sys.stderr)
    sys.exit(2)


def _one_line_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
