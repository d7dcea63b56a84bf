"""`cmpe best`: the k best feasible assignments of every row."""

from __future__ import annotations

import sys
from dataclasses import replace
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
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.tradeoffs.best import Ranked

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
    k: Annotated[int, typer.Option("-k", min=1, help="How many answers.")] = 10,
    distance: Annotated[
        int | None,
        typer.Option(
            min=1, help="In how many variables answers differ from better ones, at least."
        ),
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
        options = {"command": "best", "k": k, "distance": distance, "time_limit": time_limit}
        job = BestJob(problem, k, distance, time_limit, how.of_a_block())
        return answer_parts(stream, directory, job, options)
    rows = read_rows(problem, directory, evidence)
    with progress_bar("ranking") as progress:
        running = replace(how, progress=progress)
        found = ranked(problem, rows, k, distance=distance, time_limit=time_limit, running=running)
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
