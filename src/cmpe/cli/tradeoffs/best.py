"""`cmpe best`: the k best feasible assignments of every row."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.cli.options import (
    FORMAT_HELP,
    PartOptions,
    ProblemOptions,
    RowOptions,
    TimeLimit,
    checked_suffix,
    progress_bar,
    spread,
    write_or_print,
)
from cmpe.cli.streaming.rows import rank_lines, row_head
from cmpe.cli.streaming.running import answer_parts, stream_asked
from cmpe.errors import InputError, MethodError
from cmpe.formats.results import Carried, cells_of
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.problem import Problem
    from cmpe.tradeoffs.best import Ranked


class Others(StrEnum):
    """What becomes of the variables that --over does not name."""

    MAX = "max"
    SUM = "sum"


SUFFIXES = (".json", ".jsonl", ".csv")
OUTPUT_HELP = (
    "Write here instead of to stdout: .json, .csv, or a folder (ranks/) for parts that --resume "
    "completes."
)


class RankFormat(StrEnum):
    """How lists of answers are written."""

    json = "json"
    csv = "csv"
    table = "table"


@spread
def best(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    k: Annotated[
        int | None,
        typer.Option(
            "-k", min=1, help="How many answers; default: 10, or all of them with --within."
        ),
    ] = None,
    distance: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="The least number of variables in which an answer differs from every better one.",
        ),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(help="List distinct assignments of this variable; repeat for more."),
    ] = None,
    rest: Annotated[
        Others,
        typer.Option(help="With --over: maximise over the other variables, or sum them out."),
    ] = Others.MAX,
    within: Annotated[
        float | None, typer.Option(min=0.0, help="List answers within this many nats of the best.")
    ] = None,
    time_limit: TimeLimit = None,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    format: Annotated[RankFormat | None, typer.Option(help=FORMAT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads that compute bounds.")] = 1,
    parts: PartOptions,
) -> int:
    """List the k best feasible assignments of every row of evidence, in order."""
    from cmpe.cli.streaming.jobs import BestJob
    from cmpe.formats.text import check_writable
    from cmpe.tradeoffs.best import best as ranked

    how = Running(workers=workers, executor=parts.executor, address=parts.address)
    stream = stream_asked(context, (output, files, None), how, parts)
    if stream is not None and format not in (None, RankFormat.json):
        raise InputError(f"parts of best are json, found --format {format}")
    suffix = "" if stream is not None or format is not None else checked_suffix(output, SUFFIXES)
    if format is not None and output is not None:
        check_writable(output)
    problem, directory = models.read(context)
    if stream is not None:
        if over or within is not None:
            raise MethodError("--over and --within list one file, not a folder of parts")
        k = 10 if k is None else k
        options = {"command": "best", "k": k, "distance": distance, "time_limit": time_limit}
        job = BestJob(problem, k, distance, time_limit, how.of_a_block())
        return answer_parts(stream, directory, job, options)
    rows, carried = files.read(problem, directory)
    with progress_bar("ranking") as progress:
        running = replace(how, progress=progress)
        found = ranked(
            problem, **rows.keywords, k=k, distance=distance, over=_variables(problem, over),
            rest=rest.value, within=within, time_limit=time_limit, running=running,
        )  # fmt: skip
    shape = format or _shape(output, suffix)
    if shape is RankFormat.table:
        text = _table(found, carried)
    elif shape is RankFormat.csv:
        text = _csv(found, carried)
    else:
        text = "".join(f"{line}\n" for line in rank_lines(problem, found, carried=carried))
    write_or_print(output, text)
    return int(bool(found) and all(each.infeasible for each in found))


def _variables(problem: Problem, over: list[str] | None) -> list[str | int] | None:
    """The chosen variables by name; by number where they have no names."""
    if not over:
        return None
    is_named = bool(problem.domain.names)
    return [int(v) if v.isdigit() and not is_named else v for v in over]


def _shape(output: Path | None, suffix: str) -> RankFormat:
    """What suits where the lists go."""
    if output is None and sys.stdout.isatty():
        return RankFormat.table
    return RankFormat.csv if suffix == ".csv" else RankFormat.json


def _table(found: list[Ranked], carried: Carried) -> str:
    """A paragraph for each row."""
    return "".join(f"{row_head(i, carried)}: {each!r}\n" for i, each in enumerate(found))


def _csv(found: list[Ranked], carried: Carried) -> str:
    """One header; the index and the rank before what `cmpe solve` writes."""
    from cmpe.solution.frames import csv_text

    lines: list[str] = []
    for index, each in enumerate(found):
        own = cells_of(carried, index)
        count = range(1, len(each) + 1)
        cells = {
            "index": [index for _ in count],
            **{name: [c for _ in count] for name, c in own.items()},
        }
        head, *rows = csv_text(each.answers, {**cells, "rank": list(count)}).splitlines(
            keepends=True
        )
        lines += [*([] if lines else [head]), *rows]
    return "".join(lines)
