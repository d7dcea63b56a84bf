"""`cmpe front`: every trade-off between the objective and one constraint."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.options import (
    PICTURES,
    PartOptions,
    ProblemOptions,
    RowOptions,
    TimeLimit,
    checked_suffix,
    progress_bar,
    spread,
    write_or_print,
)
from cmpe.cli.streaming.rows import front_values
from cmpe.cli.streaming.running import answer_parts, refuse_beside_parts, stream_asked
from cmpe.errors import InputError
from cmpe.formats.results import cells_of
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.problem.rows import Rows
    from cmpe.tradeoffs.front import Front

TEXTS = (".json", ".jsonl", ".csv")
MOST_PANELS = 12  # rows in one picture
OUTPUT_HELP = (
    "Write here instead of to stdout: .json, .csv, a picture of the rows (.svg, .png, .pdf; at "
    f"most {MOST_PANELS}), or a folder (fronts/) for parts that --resume completes."
)


@spread
def front(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    row: Annotated[
        list[int] | None, typer.Option(min=0, help="Only this row; may be repeated.")
    ] = None,
    over: Annotated[str, typer.Option(help="The constraint, by its name or its number.")] = "0",
    between: Annotated[
        tuple[float, float] | None, typer.Option(help="Only limits between these two.")
    ] = None,
    time_limit: TimeLimit = None,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help="Rows answered at the same time.")] = 1,
    parts: PartOptions,
) -> int:
    """Find every trade-off between h and one constraint, for every row of evidence."""
    from cmpe.cli.streaming.jobs import FrontJob

    how = Running(workers=workers, executor=parts.executor, address=parts.address)
    stream = stream_asked(context, (output, files, None), how, parts)
    suffix = "" if stream is not None else checked_suffix(output, TEXTS + PICTURES)
    problem, directory = models.read(context)
    if not problem.constraints:
        raise InputError(
            "a front needs a --count, or --constraint MODEL with a limit; found no constraint"
        )
    chosen = problem.constraint_number(int(over) if over.isdecimal() else over, "--over")
    if stream is not None:
        refuse_beside_parts(row=row)
        options = {"command": "front", "over": chosen, "between": between, "time_limit": time_limit}
        job = FrontJob(problem, chosen, between, time_limit, how.of_a_block())
        return answer_parts(stream, directory, job, options)
    import numpy as np

    rows, carried = files.read(problem, directory)
    numbers = _numbers(row, len(rows))
    if suffix in PICTURES and len(numbers) > MOST_PANELS:
        raise InputError(
            f"a picture shows at most {MOST_PANELS} rows, found {len(numbers)}: choose with --row"
        )
    found = _traced(rows.take(np.array(numbers, dtype=np.intp)), (chosen, between, time_limit), how)
    cells = [cells_of(carried, number) for number in numbers]
    _write(found, (numbers, cells), output, suffix)
    return int(bool(found) and all(f.infeasible for f in found))


def _traced(
    rows: Rows,
    which: tuple[int, tuple[float, float] | None, float | None],
    running: Running,
) -> list[Front]:
    from cmpe.tradeoffs.front import front as fronts

    over, between, time_limit = which
    with progress_bar("tracing") as progress:
        return fronts(
            rows.problem,
            **rows.keywords,
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


def _write(
    found: list[Front],
    rows: tuple[list[int], list[dict[str, Any]]],
    output: Path | None,
    suffix: str,
) -> None:
    """`rows`: the number of each, and its cells of columns that are carried."""
    numbers, cells = rows
    if output is not None and suffix in PICTURES:
        from cmpe.pictures.figures import save
        from cmpe.pictures.fronts import draw_fronts

        save(draw_fronts(found, names=[f"row {n}" for n in numbers]), output)
        return
    if output is None and sys.stdout.isatty():
        text = "".join(f"row {n}: {f!r}\n" for n, f in zip(numbers, found, strict=True))
    elif suffix == ".csv":
        text = _csv(found, numbers, cells)
    else:
        values = map(front_values, numbers, found, cells)
        text = "".join(f"{json.dumps(row)}\n" for row in values)
    write_or_print(output, text)


def _csv(found: list[Front], numbers: list[int], cells: list[dict[str, Any]]) -> str:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    domain = found[0].problem.domain if found else None
    names = [domain.name(v) for v in range(domain.variables)] if domain else []
    carried = list(cells[0]) if cells else []
    facts = ["complete", "value", "objective", "supported"]
    writer.writerow(["index", *carried, *facts, *names])
    for number, traced, own in zip(numbers, found, cells, strict=True):
        rows = traced.assignments().tolist()
        label = traced.problem.domain.label
        for i, row in enumerate(rows):
            states = [label(v, a) for v, a in enumerate(row)]
            numbers_of = [traced.values[i].item(), traced.objective[i].item()]
            known = [number, *own.values(), traced.complete, *numbers_of, traced.supported[i]]
            writer.writerow([*known, *states])
    return out.getvalue()
