"""`cmpe bound`: proved upper bounds on the best feasible objective of every row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.bounding import AUTO, BOUNDS, ON_DEVICE
from cmpe.cli.info import InfoFormat
from cmpe.cli.options import EVIDENCE_HELP, MEMORY_HELP, read_problem

if TYPE_CHECKING:
    from cmpe.bounds.base import Bounds
    from cmpe.problem import Problem

FITTING_ROWS = 8  # training rows that `splitting` chooses its split on
ALL = "all"
_NAMES = "; ".join(f"{row.name}: {row.about}" for row in BOUNDS.values())


def bound(
    problem_dir: Annotated[Path, typer.Argument(help="A problem directory.")],
    evidence: Annotated[Path | None, typer.Option(help=EVIDENCE_HELP)] = None,
    method: Annotated[
        str,
        typer.Option(
            help=f"{_NAMES}; {ALL}: every bound that takes the problem and the device; {AUTO}: "
            "lagrangian where elimination is cheap, else splitting."
        ),
    ] = AUTO,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds a row, for each method.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Decides everything random.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads over rows.")] = 1,
    device: Annotated[
        str, typer.Option(help=f"cpu, or cuda with torch: for {', '.join(ON_DEVICE)}.")
    ] = "cpu",
    memory: Annotated[float | None, typer.Option(help=MEMORY_HELP)] = None,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: a summary.")
    ] = InfoFormat.json,
) -> int:
    """Bound every row by one method or by all, with the multipliers of the best bound."""
    from cmpe.bounding import bound as bounds_of
    from cmpe.bounds.base import Work
    from cmpe.errors import TooLarge
    from cmpe.formats.evidence import read_evidence

    problem, directory = read_problem(problem_dir, None, [], [])
    assert directory is not None
    names = _names(method, problem, device)
    rows = directory.test if evidence is None else read_evidence(evidence, problem)
    work = Work(time_limit=time_limit, seed=seed, threads=threads, memory=memory)
    train = directory.train[:FITTING_ROWS] if len(directory.train) else None
    known: dict[str, Bounds] = {}
    for name in names:
        try:
            known[name] = bounds_of(
                problem, rows, method=name, work=work, training=train, device=device
            )
        except TooLarge as error:
            if len(names) == 1:
                raise
            typer.echo(f"warning: {name}: {error}", err=True)
    if format is InfoFormat.json:
        for i in range(len(rows)):
            typer.echo(json.dumps(_row(i, known, names)))
    else:
        typer.echo("\n".join(_summary(known)))
    return 0


def _names(method: str, problem: Problem, device: str) -> list[str]:
    from cmpe.bounding import check, chosen, suitable

    if method == ALL:
        return suitable(problem, device)
    check(method, device)
    return [chosen(problem) if method == AUTO else method]


def _row(i: int, known: dict[str, Bounds], names: list[str]) -> dict[str, Any]:
    import numpy as np

    by_method: dict[str, float | None] = dict.fromkeys(names)
    for name, bounds in known.items():
        by_method[name] = float(bounds.upper[i]) if np.isfinite(bounds.upper[i]) else None
    best = min(known, key=lambda name: known[name].upper[i])
    infeasible = bool(known[best].infeasible[i])
    return {
        "index": i,
        "bound": by_method[best],
        "infeasible": infeasible,
        "multipliers": known[best].multipliers[i].tolist(),
        "method": best,
        "bounds": by_method,
        "seconds": {name: float(bounds.seconds[i]) for name, bounds in known.items()},
    }


def _summary(known: dict[str, Bounds]) -> list[str]:
    import numpy as np

    best = np.min([bounds.upper for bounds in known.values()], axis=0)
    infeasible = np.any([bounds.infeasible for bounds in known.values()], axis=0)
    lines = [
        f"{len(best)} rows: {int(infeasible.sum())} proved infeasible; bound on the best "
        f"feasible objective: {_spread(best)}"
    ]
    for name, bounds in known.items():
        each = f"{1e3 * bounds.seconds.mean():.3g} ms a row"
        lines.append(f"{name}: {_spread(bounds.upper)}; {each}")
    return lines


def _spread(values: Any) -> str:
    import numpy as np

    finite = values[np.isfinite(values)]
    if not len(finite):
        return "none"
    return f"least {finite.min():.6g}, mean {finite.mean():.6g}, largest {finite.max():.6g}"
