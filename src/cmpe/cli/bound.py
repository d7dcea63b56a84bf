"""`cmpe bound`: a proved upper bound on the best feasible objective of every row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cmpe.cli.info import InfoFormat
from cmpe.cli.options import read_problem


def bound(
    problem_dir: Annotated[Path, typer.Argument(help="A problem directory.")],
    evidence: Annotated[
        Path | None,
        typer.Option(help="E.evid, E.npy or E.csv; default: the directory's test rows."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Threads over rows.")] = 1,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: a summary.")
    ] = InfoFormat.json,
) -> int:
    """Bound every row by its Lagrangian dual, with the multipliers that prove the bound."""
    import numpy as np

    from cmpe.bounds.lagrangian import lagrangian_dual
    from cmpe.formats.evidence import read_evidence
    from cmpe.solvers import by_observed

    problem, directory = read_problem(problem_dir, None, [], [])
    assert directory is not None
    rows = directory.test if evidence is None else read_evidence(evidence, problem)
    bounds = np.zeros(len(rows))
    multipliers = np.zeros((len(rows), len(problem.constraints)))
    for part, numbers in by_observed(problem, rows):
        dual = lagrangian_dual(part, threads=threads)
        bounds[numbers], multipliers[numbers] = dual.bound, dual.multipliers
    if format is InfoFormat.json:
        for i, (value, mu) in enumerate(zip(bounds.tolist(), multipliers.tolist(), strict=True)):
            infeasible = value == -np.inf
            row = {"index": i, "bound": None if infeasible else value, "infeasible": infeasible}
            typer.echo(json.dumps({**row, "multipliers": mu}))
        return 0
    known = bounds[np.isfinite(bounds)]
    low, mean, high = (known.min(), known.mean(), known.max()) if len(known) else (np.nan,) * 3
    typer.echo(
        f"{len(bounds)} rows: {len(bounds) - len(known)} proved infeasible; bound on the best "
        f"feasible objective: least {low:.6g}, mean {mean:.6g}, largest {high:.6g}"
    )
    return 0
