"""`cmpe relax`: the cheapest change of findings and limits that gives rows an answer."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.info import InfoFormat
from cmpe.cli.options import ProblemOptions, RowOptions, TimeLimit, spread
from cmpe.cli.streaming.rows import one_by_one, row_head
from cmpe.errors import InputError

if TYPE_CHECKING:
    from cmpe.tradeoffs.relaxing import Relaxed


@spread
def relax(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    cost: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COST",
            help="What may change, and its price: a finding, by its variable; each unit of a "
            "limit, by its constraint. Default: every finding, at 1.",
        ),
    ] = None,
    time_limit: TimeLimit = None,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: one line a row.")
    ] = InfoFormat.table,
) -> int:
    """Find the cheapest change of findings and limits that gives each row an answer."""
    from cmpe.formats.results import cells_of
    from cmpe.tradeoffs.relaxing import relax as relaxed

    costs = dict(map(_priced, cost)) if cost else None
    problem, directory = models.read(context)
    rows, carried = files.read(problem, directory)
    hopeless = 0
    for index, (row, question) in enumerate(one_by_one(rows)):
        change = relaxed(problem, row, costs=costs, **question, time_limit=time_limit)
        hopeless += change.proved and not isfinite(change.cost)
        cells = cells_of(carried, index)
        if format is InfoFormat.table:
            typer.echo(f"{row_head(index, carried)}: {change}")
        else:
            typer.echo(json.dumps({"index": index, **cells, **changes(change)}))
    return int(bool(len(rows)) and hopeless == len(rows))


def changes(change: Relaxed) -> dict[str, Any]:
    """What changes, as JSON: null where no change is enough."""
    return {
        "cost": change.cost if isfinite(change.cost) else None,
        "proved": change.proved,
        "findings": {str(name): list(pair) for name, pair in change.findings.items()},
        "limits": {name: list(pair) for name, pair in change.limits.items()},
    }


def _priced(text: str) -> tuple[Any, float]:
    """The name (of a variable without names, its number) and the cost."""
    name, _, price = text.rpartition("=")
    try:
        return int(name) if name.isdecimal() else name, float(price)
    except ValueError:
        raise InputError(f"--cost must be NAME=COST, as in faults=2; found {text!r}") from None
