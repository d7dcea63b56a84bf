"""`cmpe solve`: answers with certificates for every row of evidence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.options import Format, load_run, progress_bar, read_problem
from cmpe.cli.table import table_text
from cmpe.errors import FormatError, InputError, Interrupted, ModelError
from cmpe.formats.text import check_writable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cmpe.formats.directory import ProblemDirectory
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
        list[float] | None, typer.Option(help="The bound q of each constraint, in their order.")
    ] = None,
    evidence: Annotated[
        Path | None,
        typer.Option(help="E.evid, E.npy or E.csv; default: the directory's test rows."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="A method (an unknown one lists them all) or a trained RUN.")
    ] = "auto",
    time_limit: Annotated[float | None, typer.Option(help="Seconds per row.")] = None,
    gap: Annotated[
        float, typer.Option(min=0, help="For auto: the certified gap to stop at, in nats.")
    ] = 0.0,
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
    trace: Annotated[
        Path | None,
        typer.Option(
            help="How exact solves the first row: .jsonl, or a figure (.svg, .png, .pdf)."
        ),
    ] = None,
) -> int:
    """Maximise h(x, y) subject to t(x, y) <= q for every row x of evidence."""
    trained = _is_trained(method, gap, start)
    problem, directory = read_problem(problem_dir, objective, constraint or [], at_most or [])
    rows = _read_rows(problem, directory, evidence)
    beginning = _read_start(start, problem, 1 if rows is None else len(rows))
    for file in (output, trace):
        if file is not None:
            check_writable(file)
    shape = format or (Format.table if output is None and sys.stdout.isatty() else Format.json)
    how = load_run(Path(method), problem, threads) if trained else method
    told = {"method": how, "time_limit": time_limit, "gap": gap, "seed": seed}
    solutions = _answer(problem, rows, told, (workers, threads, beginning), (shape, output))
    if trace is not None:
        _write_trace(problem, rows, trace)
    infeasible = [label == "infeasible" for label in solutions.labels]
    return int(bool(infeasible) and all(infeasible))


def _is_trained(method: str, gap: float, start: Path | None) -> bool:
    """Whether the method is a run directory; a wrong one fails before any file is read."""
    from cmpe.solvers import solver

    if not Path(method).is_dir():
        solver(method, gap=gap)
        return False
    if gap or start is not None:
        raise InputError(f"--gap and --start go with other methods than a trained run ({method})")
    return True


def _answer(
    problem: Problem,
    rows: NDArray[np.integer] | None,
    told: dict[str, Any],
    how: tuple[int, int, NDArray[np.int32] | None],
    where: tuple[Format, Path | None],
) -> Solutions:
    """Solve with progress and write the answers, after Ctrl-C those that are finished."""
    from cmpe.solvers import solve as answer
    from cmpe.solvers.base import Running

    with progress_bar("solving") as progress:
        try:
            solutions = answer(
                problem,
                rows,
                running=Running(how[0], how[1], start=how[2], progress=progress),
                **told,
            )
        except Interrupted as stop:
            _write(problem, stop.solutions, *where)
            raise KeyboardInterrupt(f"{stop}; the finished rows were written") from None
    _write(problem, solutions, *where)
    return solutions


def _read_rows(
    problem: Problem, directory: ProblemDirectory | None, evidence: Path | None
) -> NDArray[np.integer] | None:
    from cmpe.formats.evidence import read_evidence

    if evidence is not None:
        return read_evidence(evidence, problem)
    return None if directory is None else directory.test


def _write_trace(problem: Problem, rows: NDArray[np.integer] | None, path: Path) -> None:
    """How `exact` closes in on the first row: JSON lines, or a figure."""
    from dataclasses import asdict

    from cmpe.formats.results import json_line
    from cmpe.formats.text import write_text
    from cmpe.reporting.figures import SUFFIXES, draw_trace, save
    from cmpe.solvers import by_observed
    from cmpe.solvers.exact import trace

    first = None if rows is None else by_observed(problem, rows[:1])[0][0]
    events = trace(problem) if first is None else trace(first.problem, first.evidence)
    if path.suffix in SUFFIXES:
        save(draw_trace(events), path)
    else:
        write_text(path, "".join(f"{json_line(asdict(event))}\n" for event in events))


def _read_start(path: Path | None, problem: Problem, count: int) -> NDArray[np.int32] | None:
    import numpy as np

    from cmpe.formats.evidence import read_array
    from cmpe.formats.results import read_mpe

    if path is None:
        return None
    rows = read_array(path) if path.suffix == ".npy" else read_mpe(path, problem.variables)
    if len(rows) != count:
        raise FormatError.at(
            path, "the assignments", f"{count} rows, as the evidence", f"{len(rows)}"
        )
    try:
        none = (rows < 0).all(axis=1, keepdims=True)  # a row without a start
        problem.objective.value(
            np.where(none, 0, rows)
        )  # refuses wrong shapes and values out of range
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
