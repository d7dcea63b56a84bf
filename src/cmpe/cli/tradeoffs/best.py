"""`cmpe best`: the k best feasible assignments of every row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.cli import options as asked
from cmpe.cli.options import (
    checked_suffix,
    limits_in_order,
    progress_bar,
    read_problem,
    read_rows,
)
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.problem import Problem
    from cmpe.tradeoffs.ranked import Ranked

SUFFIXES = (".json", ".jsonl", ".csv")


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
    time_limit: Annotated[float | None, typer.Option(help="Seconds per row.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write here instead of to stdout: .json or .csv.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Threads of the bounds.")] = 1,
) -> int:
    """List the k best feasible assignments of every row of evidence, in order."""
    from cmpe.formats.text import write_text
    from cmpe.tradeoffs.ranking import best as ranked

    suffix = checked_suffix(output, SUFFIXES)
    limited = limits_in_order(context.find_root().obj or (), at_most or [], at_least or [])
    problem, directory = read_problem(problem_dir, objective, constraint or [], *limited)
    rows = read_rows(problem, directory, evidence)
    with progress_bar("ranking") as progress:
        running = Running(workers, progress=progress)
        found = ranked(problem, rows, k, distance=distance, time_limit=time_limit, running=running)
    if output is None and sys.stdout.isatty():
        text = "".join(f"row {i}: {each!r}\n" for i, each in enumerate(found))
    else:
        text = _csv(found) if suffix == ".csv" else _json(problem, found)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
    return int(bool(found) and all(each.infeasible for each in found))


def _json(problem: Problem, found: list[Ranked]) -> str:
    """What `cmpe solve` writes, with the rank; a row without an answer has no line."""
    from cmpe.formats.results import json_line, row_values

    lines = []
    for index, each in enumerate(found):
        gap, feasible = each.answers.gap, each.answers.feasible
        for rank in range(len(each)):
            values = row_values(problem, each.answers, rank, float(gap[rank]), bool(feasible[rank]))
            proved = {"rank": rank + 1, "proved": each.complete}
            lines.append(json_line({"index": index, **proved, **values}))
    return "".join(f"{line}\n" for line in lines)


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
