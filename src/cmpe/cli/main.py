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
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

import typer

from cmpe.cli.compiling.bars import CompilingBar
from cmpe.core.compiler.notices import telling
from cmpe.errors import CmpeError, MissingExtra

COMPLETING = "_CMPE_COMPLETE"  # how a shell that completes a command line calls it
# A command lives in the module of its name, or where HOMES says. It is imported when it is called,
# so that `--help` is quick; the sentences are the first lines of the commands' own docstrings (a
# test compares).
COMMANDS = {
    "solve": "Maximise h(x, y) subject to t(x, y) <= q for every row x of evidence.",
    "front": "Find every trade-off between h and one constraint, for every row of evidence.",
    "best": "List the k best feasible assignments of every row of evidence, in order.",
    "probability": "Compute probabilities of evidence, states and the best explanations, by row.",
    "bound": "Bound every row by one method or by all, with the multipliers of the best bound.",
    "conflict": "Name the constraints and findings of every row that contradict each other.",
    "relax": "Find the cheapest change of findings and limits that gives each row an answer.",
    "sensitivity": (
        "Say how much limits, states and tables may change before the answer of each row does."
    ),
    "check": "Verify the proofs of a certificate, or name the first step that fails.",
    "generate": (
        "Make a constrained problem from a model as the paper does, and write it to a directory."
    ),
    "problem": (
        "Write a problem directory from models, counts and rules, with rows to train and test on."
    ),
    "learn": "Learn a tractable model from data and report its mean log-likelihood, in nats.",
    "info": "Show counts, sizes, zeros, induced width, and for a directory its rows and limits.",
    "convert": "Convert the file IN to the format named by the suffix of OUT.",
    "train": "Train a network on the directory's training rows; Ctrl-C leaves a usable checkpoint.",
    "evaluate": "Measure regret, violations, certified gap and time on test rows or on others.",
    "compile": "Compile everything in advance, on all cores, so that no later call waits for it.",
    "serve": "Answer rows over HTTP, with certificates, and serve a page to explore the problem.",
    "demo": "Diagnose a patient, draw what a budget costs, and race HiGHS on a wide problem.",
}
QUIET = "--quiet"  # silences progress (`options.is_quiet`), before or after the command
VALUES = "--evidence-values"  # takes many
MOVED = ("adversarial", "report")  # commands of earlier versions, now in the study
HOMES = {
    "best": "tradeoffs.best",
    "compile": "compiling.compile",
    "conflict": "tradeoffs.conflict",
    "front": "tradeoffs.front",
    "probability": "tradeoffs.probability",
    "relax": "tradeoffs.relax",
    "sensitivity": "tradeoffs.sensitivity",
}


def make_app(arguments: Sequence[str]) -> typer.Typer:
    """The command line, with the sub-command that `arguments` name and stubs for the others."""
    app = typer.Typer(
        name="cmpe",
        help="Constrained most probable explanation in graphical models: fast, batched, certified.",
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, about in COMMANDS.items():
        app.command(name, help=None if name in arguments else about)(
            getattr(import_module(f"cmpe.cli.{HOMES.get(name, name)}"), name)
            if name in arguments
            else _stub
        )
    return app


def _stub() -> None:
    """Stand for a command that was not called."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cmpe {version('cmpe')}")
        raise typer.Exit


def _root(
    _version: bool = typer.Option(
        False, "--version", help="Show the version.", callback=_show_version, is_eager=True
    ),
    _quiet: bool = typer.Option(
        False, QUIET, help="Show no progress on stderr; may stand before or after the command."
    ),
) -> None:
    """Constrained most probable explanation in graphical models: fast, batched, certified."""


def main() -> None:
    """Run the command line; never a traceback for what a user can mend."""
    if COMPLETING in os.environ:  # a shell asks for words: it needs the options of every command
        make_app(list(COMMANDS))(prog_name="cmpe")
    if sys.argv[1:] and sys.argv[1] in MOVED:
        name = sys.argv[1]
        sys.exit(_fail(f"`cmpe {name}` is now `python -m study {name}`, run in a checkout of cmpe"))
    run("cmpe", make_app)


def run(name: str, make: Callable[[Sequence[str]], typer.Typer]) -> NoReturn:
    """Run the command line `name`, made from its arguments, and exit."""
    warnings.showwarning = _one_line_warning
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the same as Ctrl-C
    sys.unraisablehook = partial(_interrupt_again, sys.unraisablehook)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without box characters shows "?"
    sys.exit(_exit_code(name, make))


def _exit_code(name: str, make: Callable[[Sequence[str]], typer.Typer]) -> int:
    arguments = with_each_value([w for w in sys.argv[1:] if w != QUIET]) or ["--help"]
    try:
        code = _run(name, make(arguments), arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away: not our error
        _forget_output()
        return 0
    except SystemExit as stop:  # rich answers a reader that went away with exit code 1
        if isinstance(stop.__context__, BrokenPipeError):
            return 0
        raise
    except (CmpeError, MemoryError, OSError, KeyboardInterrupt) as error:
        return _fail(_sentence(error))
    except ModuleNotFoundError as error:
        missing = MissingExtra.behind(error)
        if missing is error:
            raise
        return _fail(str(missing))
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        return _fail(_of_usage(error))
    return code


def with_each_value(words: Sequence[str]) -> list[str]:
    """The words with `--evidence-values A=1 B=2` as an option for each value."""
    out: list[str] = []
    is_list = False
    for word in words:
        is_value = "=" in word and not word.startswith("-")
        if is_list and is_value and out[-1] != VALUES:
            out.append(VALUES)
        is_list = word == VALUES or (is_list and is_value)
        out.append(word)
    return out


def _run(name: str, app: typer.Typer, arguments: list[str]) -> int:
    """Not `app()`: its own loop would swallow Ctrl-C and what the command says of it."""
    command, bar = typer.main.get_command(app), CompilingBar()
    try:
        with (
            telling(bar),
            closing(bar),
            command.make_context(name, arguments, obj=tuple(arguments)) as context,
        ):
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


def _of_usage(error: Any) -> str:
    """What the option parser says of a mistake, and the value that it does not say."""
    reasons: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    found = f"; found {reasons[0]['input']!r}" if reasons and "input" in reasons[0] else ""
    return f"{error.format_message()}{found}"


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
