"""`cmpe solve`: answers with certificates for every row of evidence."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe import solving
from cmpe.cli.options import (
    CERTIFICATE_HELP,
    DEVICE_HELP,
    EXPLAIN_HELP,
    FORMAT_HELP,
    FORMAT_OF_SUFFIX,
    GAP_HELP,
    MANY_ROWS,
    MEMORY_HELP,
    METHOD_HELP,
    OUTPUT_HELP,
    STAGES_HELP,
    START_HELP,
    THREADS_HELP,
    TRACE_HELP,
    WORKERS_HELP,
    Format,
    InputRowOptions,
    PartOptions,
    ProblemOptions,
    Seed,
    TimeLimit,
    is_quiet,
    need_writer,
    progress_bar,
    read_stages,
    refuse_unknown,
    spread,
)
from cmpe.cli.streaming.rows import one_by_one
from cmpe.cli.streaming.running import (
    QUICK,
    StreamAsked,
    answer_parts,
    digest_of_run,
    refuse_beside_parts,
    stream_asked,
)
from cmpe.cli.table import table_text
from cmpe.core.settings import EXACT
from cmpe.errors import FormatError, InputError, Interrupted, ModelError
from cmpe.formats.text import check_writable, suffix_of
from cmpe.solvers.base import Limits
from cmpe.solving import chosen, run_directory

if TYPE_CHECKING:
    from cmpe.arrays import Values
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.formats.results import Carried
    from cmpe.problem import Problem
    from cmpe.problem.rows import Rows
    from cmpe.solution import Solutions
    from cmpe.solvers.dispatch import Chosen

TABLE_ROWS = 25


@spread
def solve(
    context: typer.Context,
    models: ProblemOptions,
    files: InputRowOptions,
    *,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "auto",
    stages: Annotated[str | None, typer.Option(help=STAGES_HELP)] = None,
    time_limit: TimeLimit = None,
    gap: Annotated[float, typer.Option(min=0, help=GAP_HELP)] = 0.0,
    seed: Seed = 0,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    format: Annotated[Format | None, typer.Option(help=FORMAT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help=WORKERS_HELP)] = 1,
    threads: Annotated[int, typer.Option(min=1, help=THREADS_HELP)] = 1,
    device: Annotated[str, typer.Option(help=DEVICE_HELP)] = "cpu",
    memory: Annotated[float | None, typer.Option(help=MEMORY_HELP)] = None,
    start: Annotated[Path | None, typer.Option(help=START_HELP)] = None,
    trace: Annotated[Path | None, typer.Option(help=TRACE_HELP)] = None,
    certificate: Annotated[Path | None, typer.Option(help=CERTIFICATE_HELP)] = None,
    explain: Annotated[bool, typer.Option("--explain", help=EXPLAIN_HELP)] = False,
    parts: PartOptions,
) -> int:
    """Maximise h(x, y) subject to t(x, y) <= q for every row x of evidence."""
    how = Limits(
        seconds=time_limit, seed=seed, gap=gap, workers=workers, threads=threads, device=device,
        memory=memory, executor=parts.executor, address=parts.address,
    )  # fmt: skip
    refuse_unknown(method, how)
    staged = read_stages(stages, method)
    problem, directory = models.read(context)
    stream = stream_asked(context, (output, files, format), how, parts)
    if stream is not None:
        refuse_beside_parts(
            start=start, trace=trace, certificate=certificate, explain=explain or None
        )
        return _answer_parts(stream, (problem, directory), (method, stages, staged), how)
    given = files.read(problem, directory)
    begun = _read_start(start, problem, len(given.rows))
    for file in (output, trace, certificate):
        if file is not None:
            check_writable(file)
    shape = _shape(format, output, problem)
    if files.keep and shape is Format.uai:
        raise InputError("--keep goes with json, csv, parquet or table; found uai")
    for suffix in (f".{shape.value}", "" if trace is None else trace.suffix):
        need_writer(suffix)
    how = replace(how, start=begun)
    if output is not None and len(given.rows) >= MANY_ROWS and not is_quiet():
        typer.echo(
            f"{output} is written when all {len(given.rows):,} rows are done; with a folder, "
            f"--output {output.with_suffix('')}/, parts are kept as they finish, for --resume",
            err=True,
        )
    by, to = chosen(method, problem, staged), _Destination(shape, output, given.carried)
    solutions = _answer(given.rows, by, how, to)
    if trace is not None:
        _write_trace(given.rows.take(slice(0, 1)), trace, time_limit)
    if certificate is not None:
        _write_certificate(given.rows, solutions, certificate, models.files)
    if explain:
        _explain(given.rows, solutions, time_limit)
    infeasible = [label == "infeasible" for label in solutions.labels]
    return int(bool(infeasible) and all(infeasible))


def _answer_parts(
    stream: StreamAsked,
    read: tuple[Problem, ProblemDirectory | None],
    asked_method: tuple[str, str | None, dict[str, Any] | None],
    limits: Limits,
) -> int:
    """Answer block by block into a folder."""
    from cmpe.cli.streaming.jobs import SolveJob

    problem, directory = read
    method, stages, staged = asked_method
    engine, run = chosen(method, problem, staged), run_directory(method)
    options = {
        "command": "solve",
        "method": method if run is None else digest_of_run(run),
        "stages": stages,
        "time_limit": limits.seconds,
        "gap": limits.gap,
        "seed": limits.seed,
        "device": limits.device,
    }
    job = SolveJob(problem, engine, limits.of_a_block(), stream.suffix)
    return answer_parts(stream, directory, job, options, method if run is None else QUICK)


def _shape(asked: Format | None, output: Path | None, problem: Problem) -> Format:
    """The format that was asked for, or the one that suits where the answers go."""
    if asked is Format.uai and problem.continuous:
        raise InputError("--format uai holds whole numbers, found variables in [0, 1]; use json")
    if output is None:
        if asked is Format.parquet:
            raise InputError("--format parquet needs --output FILE.parquet")
        return asked or (Format.table if sys.stdout.isatty() else Format.json)
    suffix = suffix_of(output)
    if asked is None and suffix and suffix not in FORMAT_OF_SUFFIX:
        known = ", ".join(FORMAT_OF_SUFFIX)
        raise InputError(f"{output}: expected a suffix of {known}, or --format; found {suffix!r}")
    return asked or FORMAT_OF_SUFFIX.get(suffix, Format.json)


@dataclass(frozen=True)
class _Destination:
    """Where the answers go, and in which format."""

    shape: Format
    output: Path | None
    carried: Carried


def _answer(rows: Rows, method: Chosen, how: Limits, destination: _Destination) -> Solutions:
    """Solve with progress and write the answers, after Ctrl-C what is known of every row."""
    problem = rows.problem
    with progress_bar("solving") as progress:
        try:
            solutions = solving.solve(
                problem, **rows.keywords, method=method, time_limit=how.seconds, gap=how.gap,
                seed=how.seed, running=replace(how, progress=progress),
            )  # fmt: skip
        except Interrupted as stop:
            _write(problem, stop.solutions, destination)
            raise KeyboardInterrupt(f"{stop}; results so far were written") from None
    _write(problem, solutions, destination)
    return solutions


def _write_trace(rows: Rows, path: Path, seconds: float | None) -> None:
    """How `exact` closes in on the first row: JSON lines, or a figure."""
    from dataclasses import asdict

    from cmpe.formats.results import json_line
    from cmpe.formats.text import write_text
    from cmpe.pictures.figures import SUFFIXES, draw_trace, save
    from cmpe.problem.groups import by_observed
    from cmpe.solvers.exact.trace import trace

    first = by_observed(*rows.asked)[0][0]
    events = trace(first.problem, first.evidence, time_limit=seconds or EXACT.traced_seconds)
    if path.suffix in SUFFIXES:
        save(draw_trace(events), path)
    else:
        write_text(path, "".join(f"{json_line(asdict(event))}\n" for event in events))


def _write_certificate(rows: Rows, solutions: Solutions, path: Path, models: list[Path]) -> None:
    """The proofs of all rows; what has none is said on stderr."""
    from cmpe.certificates.certificate import certified

    made = certified(rows, solutions, path, models)
    for row, failure in enumerate(made.failures):
        if failure:
            typer.echo(f"row {row} has no certificate: {failure}", err=True)
        elif made.weaker[row]:
            words = f"its certificate proves a bound of {made.bound[row]:.9g} only"
            typer.echo(f"row {row}: {words}; the answer's is {solutions.bound[row]:.9g}", err=True)


def _explain(rows: Rows, solutions: Solutions, seconds: float | None) -> None:
    """Why rows have no answer, on stderr: a sentence each."""
    import numpy as np

    from cmpe.solution import Status
    from cmpe.tradeoffs.conflict import conflict

    which = np.flatnonzero(solutions.status == Status.INFEASIBLE)
    for row, (seen, question) in zip(which.tolist(), one_by_one(rows.take(which)), strict=True):
        reason = conflict(rows.problem, seen, **question, time_limit=seconds)
        typer.echo(f"row {row}: {reason}", err=True)


def _read_start(path: Path | None, problem: Problem, count: int) -> Values | None:
    import numpy as np

    from cmpe.formats.evidence import read_array
    from cmpe.formats.results import read_mpe

    if path is None:
        return None
    fractions = bool(problem.continuous)
    rows = (
        read_array(path, fractions=fractions)
        if path.suffix == ".npy"
        else read_mpe(path, problem.variables)
    )
    if len(rows) != count:
        raise FormatError.at(
            path, "the assignments", f"{count} rows, as the evidence", f"{len(rows)}"
        )
    try:
        none = (rows < 0).all(axis=1, keepdims=True)  # a row without a start
        problem.objective.value(
            np.where(none, 0, rows)
        )  # refuses wrong shapes and values out of range
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None
    return rows.astype(problem.dtype)


def _write(problem: Problem, solutions: Solutions, to: _Destination) -> None:
    from cmpe.formats.text import write_text

    if to.shape is Format.parquet and to.output is not None:
        from cmpe.solution.frames import parquet_bytes, write_whole

        return write_whole(to.output, parquet_bytes(solutions, carried=to.carried))
    text = _text(problem, solutions, to, None if to.output else TABLE_ROWS)
    if to.output is None:
        sys.stdout.write(text)
        return None
    try:
        write_text(to.output, text)
    except InputError as error:
        sys.stdout.write(text)
        raise InputError(f"{error}; the answers went to stdout instead") from None
    return None


def _text(problem: Problem, solutions: Solutions, to: _Destination, most: int | None) -> str:
    from cmpe.formats.results import format_mpe, json_rows
    from cmpe.solution.frames import csv_text

    if to.shape is Format.json:
        return "".join(f"{x}\n" for x in json_rows(problem, solutions, carried=to.carried))
    if to.shape is Format.csv:
        return csv_text(solutions, to.carried)
    if to.shape is Format.uai:
        return format_mpe(solutions.assignments)
    return table_text(problem, solutions, most, to.carried)
