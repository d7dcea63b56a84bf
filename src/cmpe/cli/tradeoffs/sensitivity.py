"""`cmpe sensitivity`: what the answer of every row depends on."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.info import InfoFormat
from cmpe.cli.options import ProblemOptions, RowOptions, TimeLimit, spread
from cmpe.cli.streaming.rows import row_head

if TYPE_CHECKING:
    from cmpe.tradeoffs.sensitivity import Sensitivity

SHOWN = 8  # variables and tables of a row, the least sure first


@spread
def sensitivity(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    time_limit: TimeLimit = None,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: a paragraph a row.")
    ] = InfoFormat.table,
) -> int:
    """Say how much limits, states and tables may change before the answer of each row does."""
    from cmpe.formats.results import cells_of
    from cmpe.tradeoffs.sensitivity import sensitivity as analysed

    problem, directory = models.read(context)
    rows, carried = files.read(problem, directory)
    found = analysed(problem, **rows.keywords, time_limit=time_limit)
    for index, each in enumerate(found):
        cells = cells_of(carried, index)
        if format is InfoFormat.table:
            head = f"{row_head(index, carried)}: {_limits(each)}"
            typer.echo("\n  ".join([head, *_least_sure(each)]))
        else:
            typer.echo(json.dumps({"index": index, **cells, **_values(each)}))
    infeasible = [each.answer.status.label == "infeasible" for each in found]
    return int(bool(infeasible) and all(infeasible))


def _limits(each: Sensitivity) -> str:
    """The answer's status, and of each constraint between which limits it stays."""
    words = [f"{each.answer.status.label}, objective {each.answer.objective:.6g}"]
    for constraint, (low, high) in zip(each.answer.constraints, each.intervals, strict=True):
        words.append(f"optimal for {constraint.name or 'q'} from {low:.6g} to {high:.6g}")
    return "; ".join(words)


def _least_sure(each: Sensitivity) -> list[str]:
    """The variables that lose least by another value, and the tables that may change least."""
    regrets = sorted(each.least_regret().items(), key=lambda pair: pair[1])[:SHOWN]
    radii = sorted(each.radius.items(), key=lambda pair: pair[1])[:SHOWN]
    lines = [f"{name}: another value costs {regret:.4g}" for name, regret in regrets]
    for scope, radius in radii:
        least = "" if each.radius_exact[scope] else "at least "
        lines.append(f"table {' '.join(map(str, scope))}: may change by {least}{radius:.4g}")
    return lines


def _values(each: Sensitivity) -> dict[str, Any]:
    """The same and all the rest, as JSON: null is infinite or unknown."""
    answer = each.answer
    return {
        "status": answer.status.label,
        "objective": _number(answer.objective),
        "proved": each.proved,
        "multipliers": list(map(_number, each.multipliers)),
        "intervals": [list(map(_number, ends)) for ends in each.intervals],
        "regrets": {
            str(name): {
                str(answer.label(name, a)): _number(regret) for a, regret in enumerate(values)
            }
            for name, values in each.regrets.items()
        },
        "radius": [
            {
                "variables": list(map(str, scope)),
                "radius": _number(radius),
                "exact": each.radius_exact[scope],
            }
            for scope, radius in each.radius.items()
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None
