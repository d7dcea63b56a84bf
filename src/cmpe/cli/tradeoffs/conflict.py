"""`cmpe conflict`: why rows have no answer, and what to change."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cmpe.cli.info import InfoFormat
from cmpe.cli.options import ProblemOptions, RowOptions, TimeLimit, spread
from cmpe.cli.streaming.rows import one_by_one, row_head
from cmpe.cli.tradeoffs.relax import changes


@spread
def conflict(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    relax: Annotated[
        bool, typer.Option("--relax", help="Also name the fewest findings to change.")
    ] = False,
    time_limit: TimeLimit = None,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: one line a row.")
    ] = InfoFormat.table,
) -> int:
    """Name the constraints and findings of every row that contradict each other."""
    from cmpe.formats.results import cells_of
    from cmpe.tradeoffs.conflict import conflict as conflict_of
    from cmpe.tradeoffs.relaxing import relax as relaxed

    problem, directory = models.read(context)
    rows, carried = files.read(problem, directory)
    infeasible = 0
    for index, (row, question) in enumerate(one_by_one(rows)):
        reason = conflict_of(problem, row, **question, time_limit=time_limit)
        infeasible += reason.feasible is False
        change = None
        if relax and reason.feasible is False:
            change = relaxed(problem, row, **question, time_limit=time_limit)
        cells = cells_of(carried, index)
        if format is InfoFormat.table:
            typer.echo(f"{row_head(index, carried)}: {reason}" + (f"; {change}" if change else ""))
            continue
        values: dict[str, object] = {
            "index": index,
            **cells,
            "feasible": reason.feasible,
            "members": reason.members,
            "minimal": reason.minimal,
        }
        if change is not None:
            values["relaxed"] = changes(change)
        typer.echo(json.dumps(values))
    return int(bool(len(rows)) and infeasible == len(rows))
