"""`cmpe conflict`: why rows have no answer, and what to change."""

from __future__ import annotations

import json
from math import isfinite
from typing import Annotated

import typer

from cmpe.cli import options as asked
from cmpe.cli.info import InfoFormat
from cmpe.cli.options import limits_in_order, posed_problem, read_rows


def conflict(
    context: typer.Context,
    problem_dir: asked.Directory = None,
    objective: asked.Objective = None,
    constraint: asked.Constraints = None,
    at_most: asked.AtMost = None,
    at_least: asked.AtLeast = None,
    evidence: asked.EvidenceFile = None,
    relax: Annotated[
        bool, typer.Option("--relax", help="Say the fewest findings to doubt, too.")
    ] = False,
    time_limit: asked.TimeLimit = None,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: one line a row.")
    ] = InfoFormat.table,
) -> int:
    """Name the constraints and findings of every row that cannot hold together."""
    from cmpe.problem.groups import full_rows
    from cmpe.tradeoffs.conflict import conflict as conflict_of
    from cmpe.tradeoffs.relaxing import relax as relaxed

    words = context.find_root().obj or ()
    limited = limits_in_order(words, at_most or [], at_least or [])
    problem, directory = posed_problem(problem_dir, objective, constraint or [], *limited)
    rows = full_rows(problem, read_rows(problem, directory, evidence))
    infeasible = 0
    for index, row in enumerate(rows):
        found = conflict_of(problem, row, time_limit=time_limit)
        infeasible += found.feasible is False
        change = None
        if relax and found.feasible is False:
            change = relaxed(problem, row, time_limit=time_limit)
        if format is InfoFormat.table:
            typer.echo(f"row {index}: {found}" + (f"; {change}" if change else ""))
            continue
        values: dict[str, object] = {
            "index": index,
            "feasible": found.feasible,
            "members": found.members,
            "minimal": found.minimal,
        }
        if change is not None:
            cost = change.cost if isfinite(change.cost) else None
            values["relaxed"] = {"cost": cost, "findings": _texts(change.findings)}
        typer.echo(json.dumps(values))
    return int(bool(len(rows)) and infeasible == len(rows))


def _texts(findings: dict[object, tuple[object, object]]) -> dict[str, list[object]]:
    return {str(name): list(pair) for name, pair in findings.items()}
