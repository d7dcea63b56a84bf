"""`cmpe front`: every trade-off between the objective and one constraint."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.cli import options as asked
from cmpe.cli.options import (
    PICTURES,
    checked_suffix,
    limits_in_order,
    posed_problem,
    progress_bar,
    read_rows,
)
from cmpe.cli.streaming.rows import front_values
from cmpe.cli.streaming.running import answer_parts, refuse_beside_parts, stream_asked
from cmpe.errors import InputError
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.arrays import Values
    from cmpe.problem import Problem
    from cmpe.tradeoffs.front import Front

TEXTS = (".json", ".jsonl", ".csv")
MOST_PANELS = 12  # rows in one picture
OUTPUT_HELP = (
    "Write here instead of to stdout: .json, .csv, a picture of the rows (.svg, .png, .pdf; at "
    f"most {MOST_PANELS}), or a folder (fronts/) for parts that --resume completes."
)


def front(
    context: typer.Context,
    problem_dir: asked.Directory = None,
    objective: asked.Objective = None,
    constraint: asked.Constraints = None,
    at_most: asked.AtMost = None,
    at_least: asked.AtLeast = None,
    evidence: asked.EvidenceFile = None,
    row: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this row; may be repeated.")
    ] = None,
    over: Annotated[int, typer.Option(min=0, help="Number of the constraint, from 0.")] = 0,
    between: Annotated[
        tuple[float, float] | None, typer.Option(help="Only limits from the one to the other.")
    ] = None,
    time_limit: asked.TimeLimit = None,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Rows traced at the same time.")] = 1,
    executor: asked.ExecutorKind = "local",
    address: asked.Address = None,
    resume: asked.Resume = False,
    block: asked.BlockRows = None,
) -> int:
    """Find every trade-off between h and one constraint, for every row of evidence."""
    from cmpe.cli.streaming.jobs import FrontJob

    how = Running(workers=workers, executor=executor, address=address)
    words = context.find_root().obj or ()
    stream = stream_asked(words, (output, evidence, None), how, resume=resume, block=block)
    suffix = "" if stream is not None else checked_suffix(output, TEXTS + PICTURES)
    limited = limits_in_order(words, at_most or [], at_least or [])
    problem, directory = posed_problem(problem_dir, objective, constraint or [], *limited)
    if not problem.constraints:
        raise InputError(
            "a front needs --constraint MODEL with --at-most or --at-least; found none"
        )
    if stream is not None:
        refuse_beside_parts(row=row)
        options = {"command": "front", "over": over, "between": between, "time_limit": time_limit}
        job = FrontJob(problem, over, between, time_limit, how.of_a_block())
        return answer_parts(stream, directory, job, options)
    rows = read_rows(problem, directory, evidence)
    numbers = _numbers(row, 1 if rows is None else len(rows))
    if suffix in PICTURES and len(numbers) > MOST_PANELS:
        raise InputError(
            f"a picture holds at most {MOST_PANELS} rows, found {len(numbers)}: choose with --row"
        )
    found = _traced(problem, _picked(rows, numbers), (over, between, time_limit), how)
    _write(found, numbers, output, suffix)
    return int(bool(found) and all(f.infeasible for f in found))


def _traced(
    problem: Problem,
    rows: Values | None,
    which: tuple[int, tuple[float, float] | None, float | None],
    running: Running,
) -> list[Front]:
    from cmpe.tradeoffs.front import front as fronts

    over, between, time_limit = which
    with progress_bar("tracing") as progress:
        return fronts(
            problem,
            rows,
            over=over,
            between=between,
            time_limit=time_limit,
            running=replace(running, progress=progress),
        )


def _numbers(chosen: list[int] | None, count: int) -> list[int]:
    if not chosen:
        return list(range(count))
    beyond = [number for number in chosen if number >= count]
    if beyond:
        raise InputError(f"--row must be below {count}, the number of rows; found {beyond[0]}")
    return chosen


def _picked(rows: Values | None, numbers: list[int]) -> Values | None:
    return None if rows is None else rows[numbers]


def _write(found: list[Front], numbers: list[int], output: Path | None, suffix: str) -> None:
    from cmpe.formats.text import write_text

    if output is not None and suffix in PICTURES:
        from cmpe.pictures.figures import save
        from cmpe.pictures.fronts import draw_fronts

        save(draw_fronts(found, names=[f"row {n}" for n in numbers]), output)
        return
    if output is None and sys.stdout.isatty():
        text = "".join(f"row {n}: {f!r}\n" for n, f in zip(numbers, found, strict=True))
    elif suffix == ".csv":
        text = _csv(found, numbers)
    else:
        text = "".join(f"{json.dumps(row)}\n" for row in map(front_values, numbers, found))
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)


def _csv(found: list[Front], numbers: list[int]) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    domain = found[0].problem.domain if found else None
    names = [domain.name(v) for v in range(domain.variables)] if domain else []
    writer.writerow(["index", "complete", "value", "objective", "supported", *names])
    for number, traced in zip(numbers, found, strict=True):
        rows = traced.assignments().tolist()
        label = traced.problem.domain.label
        for i, row in enumerate(rows):
            states = [label(v, a) for v, a in enumerate(row)]
            numbers_of = [traced.values[i].item(), traced.objective[i].item()]
            writer.writerow([number, traced.complete, *numbers_of, traced.supported[i], *states])
    return out.getvalue()
