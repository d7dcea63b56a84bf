"""`cmpe best`: the k best feasible assignments of every row."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.cli import options as asked
from cmpe.cli.options import (
    checked_suffix,
    limits_in_order,
    posed_problem,
    progress_bar,
    read_rows,
)
from cmpe.cli.streaming.rows import rank_lines
from cmpe.cli.streaming.running import answer_parts, stream_asked
from cmpe.errors import MethodError
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


def best(
    context: typer.Context,
    problem_dir: asked.Directory = None,
    objective: asked.Objective = None,
    constraint: asked.Constraints = None,
    at_most: asked.AtMost = None,
    at_least: asked.AtLeast = None,
    evidence: asked.EvidenceFile = None,
    k: Annotated[
        int | None,
        typer.Option("-k", min=1, help="How many answers: 10, with --within all by default."),
    ] = None,
    distance: Annotated[
        int | None,
        typer.Option(
            min=1, help="In how many variables answers differ from better ones, at least."
        ),
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(help="List distinct assignments of this variable; repeat for more."),
    ] = None,
    rest: Annotated[
        Others, typer.Option(help="With --over, the other variables: the best, or summed out.")
    ] = Others.MAX,
    within: Annotated[
        float | None, typer.Option(min=0.0, help="List answers within so many nats of the best.")
    ] = None,
    time_limit: asked.TimeLimit = None,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads of the bounds.")] = 1,
    executor: asked.ExecutorKind = "local",
    address: asked.Address = None,
    resume: asked.Resume = False,
    block: asked.BlockRows = None,
) -> int:
    """List the k best feasible assignments of every row of evidence, in order."""
    from cmpe.cli.streaming.jobs import BestJob
    from cmpe.formats.text import write_text
    from cmpe.tradeoffs.best import best as ranked

    how = Running(workers=workers, executor=executor, address=address)
    words = context.find_root().obj or ()
    stream = stream_asked(words, (output, evidence, None), how, resume=resume, block=block)
    suffix = "" if stream is not None else checked_suffix(output, SUFFIXES)
    limited = limits_in_order(words, at_most or [], at_least or [])
    problem, directory = posed_problem(problem_dir, objective, constraint or [], *limited)
    if stream is not None:
        if over or within is not None:
            raise MethodError("--over and --within list one file, not a folder of parts")
        k = 10 if k is None else k
        options = {"command": "best", "k": k, "distance": distance, "time_limit": time_limit}
        job = BestJob(problem, k, distance, time_limit, how.of_a_block())
        return answer_parts(stream, directory, job, options)
    rows = read_rows(problem, directory, evidence)
    with progress_bar("ranking") as progress:
        running = replace(how, progress=progress)
        found = ranked(
            problem, rows, k, distance=distance, over=_variables(problem, over), rest=rest.value,
            within=within, time_limit=time_limit, running=running,
        )  # fmt: skip
    if output is None and sys.stdout.isatty():
        text = "".join(f"row {i}: {each!r}\n" for i, each in enumerate(found))
    else:
        text = _csv(found) if suffix == ".csv" else "".join(
            f"{line}\n" for line in rank_lines(problem, found)
        )  # fmt: skip
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
    return int(bool(found) and all(each.infeasible for each in found))


def _variables(problem: Problem, over: list[str] | None) -> list[str | int] | None:
    """The chosen variables by name; by number where they have no names."""
    if not over:
        return None
    is_named = bool(problem.domain.names)
    return [int(v) if v.isdigit() and not is_named else v for v in over]


def _csv(found: list[Ranked]) -> str:
    """One header; the index and the rank before what `cmpe solve` writes."""
    from cmpe.solution.frames import csv_text

    lines: list[str] = []
    for index, each in enumerate(found):
        head, *rows = csv_text(each.answers).splitlines()
        if not lines:
            lines.append(f"index,rank,{head}")
        lines += [f"{index},{rank + 1},{row}" for rank, row in enumerate(rows)]
    return "".join(f"{line}\n" for line in lines)
