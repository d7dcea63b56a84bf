"""`cmpe bound`: proved upper bounds on the best feasible objective of every row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.bounding import AUTO, BOUNDS, ON_DEVICE
from cmpe.cli.info import InfoFormat
from cmpe.cli.options import (
    FOLDER_HELP,
    MEMORY_HELP,
    PROCESSES_HELP,
    PartOptions,
    ProblemOptions,
    RowOptions,
    spread,
)
from cmpe.cli.streaming.rows import bound_values, bounds_by_name
from cmpe.cli.streaming.running import StreamAsked, answer_parts, need_folder, stream_asked
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from cmpe.bounds.base import Bounds
    from cmpe.cli.streaming.jobs import BoundJob
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.problem import Problem

FITTING_ROWS = 8  # training rows that `splitting` chooses its split on
ALL = "all"
_NAMES = "; ".join(f"{row.name}: {row.about}" for row in BOUNDS.values())
METHOD_HELP = (
    f"{_NAMES}; {ALL}: every bound that takes the problem and the device; {AUTO}: "
    "lagrangian where elimination is cheap, else splitting."
)
DEVICE_HELP = f"cpu, or cuda with torch: for {', '.join(ON_DEVICE)}."


@spread
def bound(
    context: typer.Context,
    models: ProblemOptions,
    files: RowOptions,
    *,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = AUTO,
    time_limit: Annotated[
        float | None, typer.Option(min=0.0, help="Seconds a row, for each method.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every generator.")] = 0,
    threads: Annotated[int, typer.Option(min=1, help="Threads; each answers rows of its own.")] = 1,
    device: Annotated[str, typer.Option(help=DEVICE_HELP)] = "cpu",
    memory: Annotated[float | None, typer.Option(help=MEMORY_HELP)] = None,
    format: Annotated[
        InfoFormat, typer.Option(help="json: one object a row; table: a summary.")
    ] = InfoFormat.json,
    output: Annotated[Path | None, typer.Option(help=FOLDER_HELP)] = None,
    workers: Annotated[int, typer.Option(min=1, help=PROCESSES_HELP)] = 1,
    parts: PartOptions,
) -> int:
    """Bound every row by one method or by all, with the multipliers of the best bound."""
    from cmpe.bounds.base import Work
    from cmpe.cli.streaming.jobs import BoundJob

    problem, directory = models.read(context)
    names = tuple(_names(method, problem, device))
    how = Running(workers=workers, threads=threads, executor=parts.executor, address=parts.address)
    work = Work(time_limit=time_limit, seed=seed, threads=threads, memory=memory)
    train = None
    if directory is not None and len(directory.train):
        train = directory.train[:FITTING_ROWS]
    job = BoundJob(problem, names, work, train, device)
    stream = stream_asked(context, (output, files, None), how, parts)
    if stream is not None:
        return _bound_parts(stream, job, directory)
    need_folder(output, how)
    rows, carried = files.read(problem, directory)
    known = bounds_by_name(job, rows, how.place if how.is_spread else None)
    if format is InfoFormat.json:
        for i in range(len(rows)):
            typer.echo(json.dumps(bound_values(i, known, names, carried)))
    else:
        typer.echo("\n".join(_summary(known)))
    return 0


def _bound_parts(stream: StreamAsked, job: BoundJob, directory: ProblemDirectory | None) -> int:
    """Bound block by block into a folder."""
    work = job.work
    options = {
        "command": "bound",
        "methods": list(job.names),
        "time_limit": work.time_limit,
        "seed": work.seed,
        "device": job.device,
    }
    answer_parts(stream, directory, job, options, job.names[0])
    return 0


def _names(method: str, problem: Problem, device: str) -> list[str]:
    from cmpe.bounding import check, chosen, suitable

    if method == ALL:
        return suitable(problem, device)
    check(method, device)
    return [chosen(problem) if method == AUTO else method]


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
