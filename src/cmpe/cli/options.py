"""Words that several commands share, how they become a problem, and progress."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

from cmpe.cli.compiling.bars import display
from cmpe.errors import InputError, MethodError, MissingExtra, ModelError
from cmpe.solvers import METHODS, method_named
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import refuse_options
from cmpe.solving import run_directory

if TYPE_CHECKING:
    from cmpe.arrays import Values
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.formats.numbers import OwnNumbers
    from cmpe.formats.tables.columns import ExtraColumns, FileRows
    from cmpe.models.loglinear import LogLinearModel
    from cmpe.models.tractable.cutset import CutsetNetwork
    from cmpe.problem import Problem
    from cmpe.solvers.base import Progress


# What the output calls its own columns.
FIELDS = (
    "index", "rank", "proved", "status", "objective", "bound", "gap", "feasible", "constraints",
    "assignment", "states", "multipliers", "method", "seconds", "complete", "points", "relation",
    "limit", "infeasible", "bounds", "value", "supported", "log_evidence", "estimated", "marginals",
    "explanations", "variable", "state", "probability", "low", "high",
)  # fmt: skip
QUIET = "--quiet"  # anywhere on the command line
SECONDS_BETWEEN_LINES = 30.0  # progress is printed so often where stderr is no terminal
MANY_ROWS = 100_000  # for one file, which is written at the end
GATHERED = 1 << 16  # rows of a folder that are read at once
SMALL_EXPANSION = 1 << 16  # A cutset network of at most so many entries becomes tables.

METHOD_HELP = f"One of {', '.join(METHODS)}; or the directory of a trained run."
EVIDENCE_HELP = (
    "A file .evid, .npy, .csv (with a header of names) or .parquet, or a "
    "folder of .parquet files; default: the test rows."
)
Constraints = Annotated[
    list[Path] | None, typer.Option(help="A model t to bound; may be repeated.")
]
AtMost = Annotated[
    list[float] | None, typer.Option(help="One limit q for each constraint t <= q, in their order.")
]
AtLeast = Annotated[
    list[float] | None, typer.Option(help="Lower limits t >= q, in place of --at-most.")
]
Counts = Annotated[
    list[str] | None,
    typer.Option(
        "--count", metavar="COUNT", help='A limit on a count: "faults: A=yes B=yes <= 2".'
    ),
]
Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="RULE",
        help='A rule: "A=yes implies B=no", "exactly one of A=yes B=yes", "all different A B C".',
    ),
]
WORKERS_HELP = (
    "Rows answered at the same time: in processes by milp, toulbar2, exhaustive and the reduction "
    "of wide rows, in threads by the others."
)
THREADS_HELP = (
    "Threads of each worker: within a row for milp, more rows at the same time for the others."
)
GAP_HELP = "For auto: the certified gap to stop at, in nats."
FORMAT_HELP = "Default: by OUTPUT's suffix; table on a terminal, json."
START_HELP = "Assignments to start from: an MPE result or .npy."
TimeLimit = Annotated[float | None, typer.Option(help="Seconds per row.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of every generator.")]
# Where and in which pieces rows are answered.
OUTPUT_HELP = (
    "Write here instead of to stdout; a folder (answers/) gets parts that --resume completes."
)
FOLDER_HELP = "A folder (answers/) for parts that --resume completes; default: stdout."
PROCESSES_HELP = "Processes that answer parts, or cores of a cluster started here."
ExecutorKind = Annotated[
    str, typer.Option("--executor", help="local: this machine; ray: rows in blocks on a cluster.")
]
Address = Annotated[
    str | None,
    typer.Option(
        help="The address of the Ray cluster; default: start one here, with --workers cores."
    ),
]
MEMORY_HELP = "GB of memory that the call may use; default: three quarters of the free memory."
TRACE_HELP = "Write here how exact solves the first row: .jsonl, or a figure (.svg, .png, .pdf)."
CERTIFICATE_HELP = "Write proofs of the bounds here, as JSON; `cmpe check` verifies them."
EXPLAIN_HELP = "Explain on stderr why infeasible rows have no answer, as `cmpe conflict` does."
STAGES_HELP = (
    "For a trained run: what follows its pass, as in repair=no or sweeps=2. Names: "
    "Names: margins (as in 0:1.2), repair, certificate, search_passes, sweeps."
)
_ON_DEVICE = ", ".join(row.name for row in METHODS.values() if row.takes_device)
DEVICE_HELP = f"cpu, or cuda for {_ON_DEVICE} and trained runs."


def spread(command: Callable[..., int]) -> Callable[..., int]:
    """The command with the fields of its records as options of its own, which the parser reads."""
    hints = get_type_hints(command, include_extras=True)
    records: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for name, one in signature(command).parameters.items():
        if name in records:
            own = get_type_hints(records[name], include_extras=True)
            parameters += [
                Parameter(f.name, one.KEYWORD_ONLY, default=f.default, annotation=own[f.name])
                for f in fields(records[name])
            ]
        else:
            parameters.append(one.replace(kind=one.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def called(**given: Any) -> int:
        for name, kind in records.items():
            given[name] = kind(**{f.name: given.pop(f.name) for f in fields(kind)})
        return command(**given)

    called.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def words_of(context: typer.Context) -> Sequence[str]:
    """The words of the command line, which `main` hands to its commands."""
    return context.find_root().obj or ()


def read_any(path: Path) -> Any:
    """A model file of any kind, or a function that an import path names or a `.npz` file holds."""
    from cmpe.formats.functions import function_at, read_function

    if ":" in path.name and not path.exists():
        return function_at(str(path))
    found = read_function(path) if path.suffix == ".npz" else None
    return read_tables(path) if found is None or hasattr(found, "to_model") else found


def read_tables(path: Path) -> LogLinearModel | CutsetNetwork:
    """A model file of any kind, as tables unless it is a cutset network that is not small."""
    from cmpe.formats.registry import read_model
    from cmpe.models.tractable.branching import simplest

    function = simplest(read_model(path), SMALL_EXPANSION)
    return cast("LogLinearModel | CutsetNetwork", function)


class Format(StrEnum):
    """How answers are written."""

    json = "json"
    csv = "csv"
    parquet = "parquet"
    uai = "uai"
    table = "table"


# What the suffix of --output stands for.
FORMAT_OF_SUFFIX = {
    ".json": Format.json,
    ".jsonl": Format.json,
    ".csv": Format.csv,
    ".parquet": Format.parquet,
    ".uai": Format.uai,
    ".mpe": Format.uai,
    ".MPE": Format.uai,
    ".txt": Format.table,
}
# Files that the core cannot write: a package that can, and its extra.
PICTURES = (".svg", ".png", ".pdf")
WRITERS = {".parquet": ("pyarrow", "frames")} | dict.fromkeys(PICTURES, ("matplotlib", "report"))


@dataclass(frozen=True)
class PartOptions:
    """Where rows are answered, and in which pieces."""

    executor: ExecutorKind = "local"
    address: Address = None
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Complete OUTPUT, a folder: answer only the rows that it lacks."
        ),
    ] = False
    block: Annotated[
        int | None, typer.Option(min=1, help="Rows in each part, if OUTPUT is a folder.")
    ] = None


@dataclass(frozen=True)
class ProblemOptions:
    """The problem that a command is asked about: models, limits, counts and rules."""

    problem_dir: Annotated[
        Path | None,
        typer.Argument(help="A problem directory (see `cmpe generate`), or a .wcsp or .cfn file."),
    ] = None
    objective: Annotated[
        Path | None,
        typer.Option(help="The model h to maximise, or package.module:name of a function."),
    ] = None
    constraint: Constraints = None
    at_most: AtMost = None
    at_least: AtLeast = None
    count: Counts = None
    require: Rules = None

    @property
    def files(self) -> list[Path]:
        """The files that the tables come from."""
        if self.problem_dir is not None and self.problem_dir.is_dir():
            return sorted(self.problem_dir.glob("*.uai"))
        given = (self.problem_dir, self.objective, *(self.constraint or ()))
        return [file for file in given if file is not None]

    def read(self, context: typer.Context) -> tuple[Problem, ProblemDirectory | None]:
        """The problem, and the directory that it was read from.

        Counts and rules come after the other constraints.
        """
        problem, directory = self.read_models(context)
        return self.with_rules(problem), directory

    def read_models(self, context: typer.Context) -> tuple[Problem, ProblemDirectory | None]:
        """The problem without counts and rules.

        The bound of a cost function network comes after the other constraints.
        """
        from cmpe.formats.directory import read_directory
        from cmpe.formats.problems import has_bound, read_problem

        limits, mirrored = self._limits(words_of(context))
        directory = self.problem_dir
        if (directory is None) == (self.objective is None):
            found = "neither" if directory is None else "both"
            raise InputError(f"give either a problem directory or --objective MODEL; found {found}")
        if directory is None:
            return self._of_files(limits, mirrored), None
        if self.constraint:
            raise InputError("--constraint goes with --objective, not with a directory")
        if has_bound(directory):
            return _with_limits(read_problem(directory), limits, mirrored), None
        if directory.is_file():
            raise InputError(
                f"{directory}: expected a problem directory, found a file; a model is given by "
                f"--objective {directory}"
            )
        content = read_directory(directory)
        return _with_limits(content.problem, limits, mirrored), content

    def with_rules(self, problem: Problem) -> Problem:
        """The problem with the counts and rules of the command line after its own constraints."""
        if not (self.count or self.require):
            return problem
        from cmpe.problem.wording import count_from_text, rule_from_text

        domain = problem.domain
        more = [limit for text in self.count or () for limit in count_from_text(text, domain)]
        return problem.under([*more, *(rule_from_text(t, domain) for t in self.require or ())])

    def _limits(self, words: Sequence[str]) -> tuple[list[float], list[bool]]:
        """The limits of --at-most and --at-least in the order of the command line; which are least.

        The parser keeps the order of the values of one option only.
        """
        at_most, at_least = self.at_most or [], self.at_least or []
        if not (at_most and at_least):
            return [*at_most, *at_least], [bool(at_least)] * (len(at_most) + len(at_least))
        upper, lower = iter(at_most), iter(at_least)
        senses = [
            word.startswith("--at-least")
            for word in words
            if word.partition("=")[0] in ("--at-most", "--at-least")
        ]
        return [next(lower if is_least else upper) for is_least in senses], senses

    def _of_files(self, limits: Sequence[float], mirrored: Sequence[bool]) -> Problem:
        """The problem of model files; `mirrored` limits are lower ones."""
        from cmpe.formats.problems import has_bound, read_problem
        from cmpe.formats.text import stem_of
        from cmpe.problem import Problem

        objective, constraints = self.objective, self.constraint or []
        if len(constraints) != len(limits):
            raise InputError(
                "every --constraint needs one --at-most or --at-least: found "
                f"{len(constraints)} and {len(limits)}"
            )
        assert objective is not None
        if has_bound(objective):
            bounded = read_problem(objective)
            model, own = bounded.objective, bounded.constraints
        else:
            model, own = read_any(objective), ()
        functions = [read_any(file) for file in constraints]
        asked = [
            t >= limit if is_least else t <= limit
            for t, limit, is_least in zip(functions, limits, mirrored, strict=True)
        ]
        try:
            return Problem(model, [*asked, *own], name=stem_of(objective))
        except ModelError as error:
            text = str(error).replace("the objective", str(objective))
            for j, file in enumerate(constraints):
                text = text.replace(f"constraint {j} ", f"{file} ")
            raise InputError(text) from None


def _with_limits(problem: Problem, limits: Sequence[float], mirrored: Sequence[bool]) -> Problem:
    """The problem of a directory with other limits, each in the sense it has there."""
    if not limits:
        return problem
    senses = [c.sign < 0 for c in problem.constraints]
    if list(mirrored) != senses:
        wanted = " ".join("--at-least Q" if least else "--at-most Q" for least in senses)
        raise InputError(f"the directory's limits are replaced by {wanted}, in this order")
    pairs = zip(problem.constraints, limits, strict=True)
    return replace(problem, constraints=tuple(replace(c, at_most=c.sign * q) for c, q in pairs))


@dataclass(frozen=True)
class RowOptions:
    """Where the rows of a command come from."""

    evidence: Annotated[Path | None, typer.Option(help=EVIDENCE_HELP)] = None
    evidence_values: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=STATE ...", help="One row of evidence, in place of a file."),
    ] = None
    potentials: Annotated[
        Path | None,
        typer.Option(help="Log-potentials that each row adds to h: .npz, .npy or .parquet."),
    ] = None
    limits: Annotated[
        Path | None, typer.Option(help="Each row's own limits: .csv or .parquet, by constraint.")
    ] = None
    ignore_extra: Annotated[
        bool,
        typer.Option(
            "--ignore-extra", help="Ignore columns of the evidence that name no variable."
        ),
    ] = False
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Copy a column of the evidence, such as an id, to the output."
        ),
    ] = None

    @property
    def extra(self) -> ExtraColumns:
        """What becomes of columns that are no variables."""
        from cmpe.formats.tables.columns import ExtraColumns

        return ExtraColumns(self.ignore_extra, tuple(self.keep or ()))

    def own(self, problem: Problem) -> OwnNumbers:
        """The numbers of rows' own; refuses columns that would stand twice in the output."""
        from cmpe.formats.numbers import OwnNumbers

        if self.evidence is not None and self.evidence_values:
            raise InputError("give either --evidence FILE or --evidence-values; found both")
        columns = (*FIELDS, *problem.domain.names)
        taken = next((name for name in self.keep or () if name in columns), None)
        if taken is not None:
            raise InputError(f"--keep {taken}: the output has a column of this name; rename it")
        return OwnNumbers.read(problem, self.potentials, self.limits)

    def given(self, problem: Problem) -> Values | None:
        """The one row of --evidence-values."""
        from cmpe.problem.groups import full_rows

        if not self.evidence_values:
            return None
        return full_rows(problem, _states(problem, self.evidence_values))

    def read(self, problem: Problem, directory: ProblemDirectory | None) -> FileRows:
        """The rows that were given, else the directory's test rows, else one without evidence.

        Numbers of rows' own are added to them.
        """
        from cmpe.formats.evidence import plain_rows, read_rows
        from cmpe.problem.groups import full_rows

        own = self.own(problem)
        if self.evidence is not None and self.evidence.is_dir():
            read = self._read_folder(problem)
        elif self.evidence is not None:
            read = read_rows(self.evidence, problem, self.extra)
        else:
            given = self.given(problem)
            if given is None and directory is not None:
                given = directory.test
            read = plain_rows("the evidence", problem, full_rows(problem, given), self.extra)
        return read._replace(rows=own.of(read.rows))

    def _read_folder(self, problem: Problem) -> FileRows:
        from cmpe.formats.tables.columns import FileRows
        from cmpe.problem.rows import Rows
        from cmpe.streams.pieces import source_of

        assert self.evidence is not None
        source = source_of(self.evidence, problem, self.extra)
        blocks = source.blocks(GATHERED, lambda number: True)
        parts = [block.piece.read(problem) for block in blocks]
        names = self.keep or ()
        carried = {n: [cell for part in parts for cell in part.carried[n]] for n in names}
        return FileRows(Rows.concatenate([part.rows for part in parts]), carried)


@dataclass(frozen=True)
class InputRowOptions(RowOptions):
    """The same with inputs, for commands that networks answer."""

    inputs: Annotated[
        Path | None,
        typer.Option(help="What networks and modules read of each row: .npy (rows, ...)."),
    ] = None

    def own(self, problem: Problem) -> OwnNumbers:
        """The numbers of rows' own, with the inputs."""
        return super().own(problem).with_inputs(self.inputs)


def _states(problem: Problem, words: Sequence[str]) -> dict[Any, Any]:
    """A row of evidence from NAME=STATE."""
    found: dict[Any, Any] = {}
    for word in words:
        name, state = problem.domain.apart(word)
        if not (name and state):
            raise InputError(f"--evidence-values needs NAME=STATE, found {word!r}")
        key = int(name) if name.isdecimal() else name
        if key in found:
            raise InputError(f"--evidence-values: {name} must be given once")
        found[key] = int(state) if state.isdecimal() else state
    return found


def checked_suffix(output: Path | None, known: Sequence[str]) -> str:
    """The suffix of a file that can be written, one of those that are known; "" without a file."""
    from cmpe.formats.text import check_writable, suffix_of

    if output is None:
        return ""
    suffix = suffix_of(output)
    if suffix not in known:
        raise InputError(f"{output}: expected a suffix of {', '.join(known)}; found {suffix!r}")
    check_writable(output)
    need_writer(suffix)
    return suffix


def write_or_print(output: Path | None, text: str) -> None:
    """Write a file, or stdout without one."""
    from cmpe.formats.text import write_text

    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


def need_writer(suffix: str) -> None:
    """Refuse, before anything is computed, a file that only an extra can write."""
    package, extra = WRITERS.get(suffix, ("", ""))
    if package and find_spec(package) is None:
        raise MissingExtra.named(package, extra)


def is_quiet() -> bool:
    """Whether the command line has --quiet, which `main` takes out of it."""
    return QUIET in sys.argv[1:]


class _ProgressLines:
    """Progress where nobody watches: a line every 30 s, with the rows a second."""

    def __init__(self, label: str, what: str) -> None:
        self._label, self._what = label, what
        self._began = self._last = time.monotonic()
        self._first: int | None = None  # rows that were done when it began: a run goes on

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        self._first = done if self._first is None else self._first
        if now - self._last < SECONDS_BETWEEN_LINES:
            return
        self._last = now
        rate = (done - self._first) / (now - self._began)
        typer.echo(
            f"{self._label}: {done:,} of {total:,} {self._what}, {rate:,.0f} a second", err=True
        )


@contextmanager
def progress_bar(label: str, what: str = "rows") -> Iterator[Progress | None]:
    """A progress callback: a bar on a terminal, else a line every 30 s; None with --quiet.

    `what` is counted.
    """
    if is_quiet():
        yield None
        return
    if not sys.stderr.isatty():
        yield _ProgressLines(label, what)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with display(*columns) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def check_device(device: str) -> None:
    """Refuse a device that is not there."""
    if device == "cpu":
        return
    if not device.startswith("cuda"):
        raise InputError(f"--device must be cpu or cuda, found {device!r}")
    import torch

    if not torch.cuda.is_available():
        raise InputError(f"--device {device}: torch finds no GPU here; use cpu")


def refuse_unknown(method: str, limits: Limits) -> None:
    """Fail before any file is read: names of methods win, then run directories."""
    if run_directory(method) is None:
        refuse_options(method_named(method), limits)


def read_stages(text: str | None, method: str) -> dict[str, Any] | None:
    """The stages that a trained run is asked for; None: its own."""
    if text is None:
        return None
    from cmpe.learning.pipeline import Pipeline, parse_stages

    if method in METHODS:
        names = ", ".join(stage.name for stage in fields(Pipeline))
        raise MethodError(f"--stages ({names}) goes with a trained run, found method {method}")
    return parse_stages(text)
