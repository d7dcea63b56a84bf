"""`cmpe solve`: answers with certificates for every row of evidence."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.cli.options import Format, progress_bar, read_problem
from cmpe.errors import FormatError, InputError, Interrupted, ModelError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cmpe.problem import Problem
    from cmpe.solution import Solutions

TABLE_ROWS = 25


def solve(
    problem_dir: Annotated[
        Path | None, typer.Argument(help="A problem directory (see `cmpe generate`).")
    ] = None,
    objective: Annotated[Path | None, typer.Option(help="The model h to maximise.")] = None,
    constraint: Annotated[
        list[Path] | None, typer.Option(help="A model t to bound; may be repeated.")
    ] = None,
    at_most: Annotated[
        list[float] | None, typer.Option(help="The bound q of the constraint before it.")
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="E.evid, E.npy or E.csv; default: the directory's test rows."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="How to solve; an unknown one lists them all.")
    ] = "milp",
    time_limit: Annotated[float | None, typer.Option(help="Seconds per row.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every generator.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Write here instead of to stdout.")] = None,
    format: Annotated[
        Format | None, typer.Option(help="Default: table on a terminal, json otherwise.")
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; rows are independent.")] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads within one row.")] = 1,
    start: Annotated[
        Path | None, typer.Option(help="Assignments to start from: an MPE result or .npy.")
    ] = None,
) -> int:
    """Maximise h(x, y) subject to t(x, y) <= q for every row x of evidence."""
    from cmpe.formats.evidence import read_evidence
    from cmpe.formats.text import check_writable
    from cmpe.solution import Status
    from cmpe.solvers import solve as answer
    from cmpe.solvers import solver
    from cmpe.solvers.rows import Running

    solver(method)  # an unknown method fails before any file is read
    problem, directory = read_problem(problem_dir, objective, constraint or [], at_most or [])
    rows: NDArray[np.integer] | None = directory.test if directory else None
    if evidence is not None:
        rows = read_evidence(evidence, problem)
    count = 1 if rows is None else len(rows)
    beginning = None if start is None else _read_start(start, problem, count)
    if output is not None:
        check_writable(output)
    shape = format or (Format.table if output is None and sys.stdout.isatty() else Format.json)
    with progress_bar("solving") as progress:
        running = Running(workers, threads, beginning, progress)
        try:
            solutions = answer(
                problem, rows, method=method, time_limit=time_limit, seed=seed, running=running
            )
        except Interrupted as stop:
            _write(problem, stop.solutions, shape, output)
            raise KeyboardInterrupt(f"{stop}; the finished rows were written") from None
    _write(problem, solutions, shape, output)
    return int(len(solutions) > 0 and bool((solutions.status == Status.INFEASIBLE).all()))


def _read_start(path: Path, problem: Problem, count: int) -> NDArray[np.int32]:
    import numpy as np

    from cmpe.formats.evidence import read_array
    from cmpe.formats.results import read_mpe

    rows = read_array(path) if path.suffix == ".npy" else read_mpe(path, problem.variables)
    if len(rows) != count:
        raise FormatError.at(
            path, "the assignments", f"{count} rows, as the evidence", f"{len(rows)}"
        )
    try:
        problem.objective.value(rows)  # refuses wrong shapes and values out of range
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None
    return rows.astype(np.int32)


def _write(problem: Problem, solutions: Solutions, shape: Format, output: Path | None) -> None:
    from cmpe.formats.text import write_text

    text = _text(problem, solutions, shape, None if output else TABLE_ROWS)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        write_text(output, text)
    except InputError as error:
        sys.stdout.write(text)
        raise InputError(f"{error}; the answers went to stdout instead") from None


def _text(problem: Problem, solutions: Solutions, shape: Format, most: int | None) -> str:
    from cmpe.formats.results import format_mpe, json_rows

    if shape is Format.json:
        return "".join(f"{line}\n" for line in json_rows(problem, solutions))
    if shape is Format.uai:
        return format_mpe(solutions.assignments)
    return table_text(problem, solutions, most)


def table_text(problem: Problem, solutions: Solutions, most: int | None = None) -> str:
    """A table of the first `most` rows and a summary line."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from cmpe.solution import Status

    table = Table(title=Text(problem.name) if problem.name else None, title_justify="left")
    table.add_column("row", justify="right")
    table.add_column("status")
    constraints = [f"t{j + 1 if len(problem.constraints) > 1 else ''} <= {c.at_most:.6g}"
                   for j, c in enumerate(problem.constraints)]  # fmt: skip
    for heading in ("objective", *constraints, "bound", "gap", "ms"):
        table.add_column(heading, justify="right")
    shown = len(solutions) if most is None else min(most, len(solutions))
    for i in range(shown):
        numbers = [solutions.objective[i], *solutions.constraint_values[i], solutions.bound[i]]
        table.add_row(
            str(i),
            Status(int(solutions.status[i])).label,
            *(_cell(n, "10.4f") for n in numbers),
            _cell(solutions.gap[i], ".2g"),
            f"{1e3 * solutions.seconds[i]:.1f}",
        )
    console = Console(file=io.StringIO(), width=110, color_system=None)
    console.print(table)
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue() + _summary(solutions, shown)


def _cell(value: float, form: str) -> str:
    return "-" if value != value else f"{value:{form}}".strip()


def _summary(solutions: Solutions, shown: int) -> str:
    from cmpe.solution import Status

    counts = [(s.label, int((solutions.status == s).sum())) for s in Status]
    words = ", ".join(f"{count} {label}" for label, count in counts if count)
    hidden = len(solutions) - shown
    more = f"{hidden} more rows: use --format json. " if hidden else ""
    return f"{more}{len(solutions)} rows: {words}; {solutions.seconds.sum():.3g} s in all\n"
