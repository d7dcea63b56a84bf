"""`cmpe.solve`: the public entry point to all methods.

It turns what a person writes into the record that engines read (`Limits`): a trained run by its
directory, `workers` and `start` without `Running`, and a progress bar.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arguments import whole_number
from cmpe.arrays import Values
from cmpe.errors import EvidenceError, MethodError, MissingExtra
from cmpe.formats.numbers import OwnNumbers
from cmpe.formats.tables.columns import ExtraColumns
from cmpe.problem import Evidence, Problem, need_problem
from cmpe.problem.groups import full_rows
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Solutions
from cmpe.solvers import METHODS
from cmpe.solvers.base import Limits, Progress, Running
from cmpe.solvers.dispatch import Chosen, answer, answer_rows
from cmpe.streams.pieces import NumberedSource, Source, source_of

STREAMED = 8192  # rows of a block
BAR = 30  # characters of a progress bar


def solve(  # noqa: PLR0913
    problem: Problem,
    evidence: Evidence | None = None,
    *,
    method: Chosen | Path = "auto",
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    workers: int | None = None,
    start: Evidence | Solutions | None = None,
    progress: bool | Progress = False,
    ignore_extra: bool = False,
    keep: Sequence[str] = (),
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
    inputs: ArrayLike | None = None,
    running: Running | None = None,
) -> Solutions:
    """Answer every row of `evidence`: one answer per row, in their order.

    evidence: {name: state}, or a list of such rows, or a DataFrame with NaN where unknown, or
    {name: [a state per row]}; where there are no names, numbers. An array has one row of values
    per row, in the order of `problem.evidence_variables`, or all variables with -1 where free.
    Columns that are no variables are refused, or with `ignore_extra` ignored; those of `keep`, such
    as ids, are copied to the frame of the answers, which has the index of the evidence. A list,
    array or {state: likelihood} in place of a state is soft evidence, whose logarithms h includes.

    method: a name of `cmpe.METHODS`, the directory of a trained run, or a solver.
    time_limit: seconds per row. gap: the certified gap, in nats, with which `auto` may stop.
    workers: rows that are answered at the same time. start: an assignment per row to begin from;
    no answer is worse than its start. progress: True for a bar, or a function of (done, total).
    running: threads, device and the rest; `workers`, `start` and `progress` precede it.

    potentials: log-potentials of each row that are added to h: {name: (B, states)},
    {(name, name): (B, states, states)}, or an array (B, n, k) for all variables, padded where they
    have fewer than k states; NumPy or torch. -inf forbids.
    limits: each row's own limits: {constraint by name or number: (B,)}, or (B, m), in the sense in
    which each constraint was written. One row of evidence serves all rows of potentials and limits.
    inputs: numbers (B, ...) of each row that are no variables: what a trained network reads, and
    the `features` of a `NeuralFunction`.
    """
    need_problem(problem, "solve")
    changes: dict[str, Any] = {} if workers is None else {"workers": workers}
    if start is not None:
        changes["start"] = _start(problem, start)
    with _reporting(progress) as report:
        if report is not None:
            changes["progress"] = report
        told = Limits.of(running, seconds=time_limit, gap=gap, seed=seed, **changes)
        by = chosen(method, problem)
        kept = _split(evidence, keep)
        rows = Rows.own(
            problem, kept.evidence, potentials, limits, inputs=inputs, ignore_extra=ignore_extra
        )
        if rows is not None:
            answers = answer_rows(rows, by, told)
        else:
            answers = answer(problem, kept.evidence, by, told, ignore_extra=ignore_extra)
    return kept.beside(answers)


def solve_stream(  # noqa: PLR0913
    problem: Problem,
    evidence: Path | str | Iterable[Evidence],
    *,
    block: int = STREAMED,
    method: Chosen | Path = "auto",
    time_limit: float | None = None,
    gap: float = 0.0,
    seed: int = 0,
    workers: int | None = None,
    ignore_extra: bool = False,
    keep: Sequence[str] = (),
    potentials: Path | str | None = None,
    limits: Path | str | None = None,
    running: Running | None = None,
) -> Iterator[Solutions]:
    """Answer evidence larger than memory: yield the answers to one block of rows after another.

    evidence: a `.csv`, `.npy`, `.evid` or `.parquet` file or a folder of Parquet files, of which
    `block` rows are read at a time; or any iterable whose items are what `solve` takes. In frames
    the answers of a file are numbered by its rows. Everything else is as in `solve`.

    potentials, limits: files of potentials and limits, with a file of evidence; `.npz`, `.npy`
    (mapped into memory) or `.parquet` of potentials, `.csv` or `.parquet` of limits.
    """
    need_problem(problem, "solve_stream")
    options: dict[str, Any] = {
        "method": method, "time_limit": time_limit, "gap": gap, "seed": seed, "workers": workers,
        "running": running,
    }  # fmt: skip
    if not isinstance(evidence, str | Path):
        if potentials is not None or limits is not None:
            raise EvidenceError("files of potentials and limits go with a file of evidence")
        for rows in evidence:
            yield solve(problem, rows, ignore_extra=ignore_extra, keep=keep, **options)
        return
    size = whole_number("block", block, 1)
    names = (keep,) if isinstance(keep, str) else tuple(keep)
    source: Source = source_of(evidence, problem, ExtraColumns(ignore_extra, names))
    files = (None if file is None else Path(file) for file in (potentials, limits))
    own = OwnNumbers.read(problem, *files)
    source = NumberedSource(source, own) if own.files else source
    for found in source.blocks(size, lambda _: True):
        given, carried = found.piece.read(problem)
        answers = solve(problem, **given.keywords, **options)
        numbers = np.arange(found.first, found.first + len(answers))
        yield replace(answers, index=numbers, carried=carried or None)


class _Kept(NamedTuple):
    """Evidence, and what of it comes back beside its answers."""

    evidence: Evidence | None
    index: Any = None
    columns: Mapping[str, list[Any]] = MappingProxyType({})

    def beside(self, answers: Solutions) -> Solutions:
        """The answers with the index and the columns, where there is a row for each."""
        index = self.index if self.index is not None and len(self.index) == len(answers) else None
        if any(len(cells) != len(answers) for cells in self.columns.values()):
            raise EvidenceError("a column of keep must have a cell for every row")
        if index is None and not self.columns:
            return answers
        return replace(answers, index=index, carried=self.columns or None)


def _split(evidence: Evidence | None, keep: Sequence[str]) -> _Kept:
    """Take the columns `keep` out of a frame, a mapping of columns or a list of rows."""
    keep = [keep] if isinstance(keep, str) else list(keep)
    rows: Any = evidence
    index = getattr(rows, "index", None) if hasattr(rows, "columns") else None
    if not keep:
        return _Kept(evidence, index)
    if isinstance(rows, list | tuple) and rows and all(isinstance(r, Mapping) for r in rows):
        there = set.intersection(*(set(row) for row in rows))
        rest: Any = [{k: cell for k, cell in row.items() if k not in keep} for row in rows]
        cells = {name: [row.get(name) for row in rows] for name in keep}
    elif hasattr(rows, "columns"):
        there = set(rows.columns)
        rest = rows.drop(columns=[name for name in keep if name in there])
        cells = {name: list(rows[name]) for name in keep if name in there}
    elif isinstance(rows, Mapping):
        there = set(rows)
        rest = {key: column for key, column in rows.items() if key not in keep}
        cells = {name: _cells(rows[name]) for name in keep if name in there}
    else:
        raise EvidenceError(
            f"keep needs a frame or rows with names; found {type(evidence).__name__}"
        )
    missing = [name for name in keep if name not in there]
    if missing:
        raise EvidenceError(f"keep: there is no column {missing[0]!r} in the evidence")
    return _Kept(rest, index, cells)


def _cells(column: Any) -> list[Any]:
    is_one = isinstance(column, str) or not hasattr(column, "__len__")
    return [column] if is_one else list(column)


def chosen(
    method: Chosen | Path, problem: Problem, stages: Mapping[str, Any] | None = None
) -> Chosen:
    """A method as it is, or the trained solver in the directory of that name, with these stages."""
    run = run_directory(method)
    if run is None:
        return str(method) if isinstance(method, Path) else method
    from cmpe.learning.loading import load_solver

    solver = load_solver(run, problem)
    return solver if stages is None else solver.with_stages(**stages)


def run_directory(method: Chosen | Path) -> Path | None:
    """The directory of the trained run that `method` names, if it names one; methods' names win."""
    if not isinstance(method, str | Path) or str(method) in METHODS:
        return None
    path = Path(method)
    if not path.is_dir():
        return None
    try:
        from cmpe.learning.runs import is_run
    except ModuleNotFoundError as error:
        raise MissingExtra.behind(error) from None

    if not is_run(path):
        raise MethodError(
            f"a method is one of {', '.join(METHODS)}, or the directory of a trained run; found "
            f"the directory {str(method)!r}, which holds no run"
        )
    return path


def _start(problem: Problem, start: Evidence | Solutions) -> Values:
    """Assignments (B, n), -1 where there is none, from answers, rows by name or an array."""
    if isinstance(start, Solutions):
        return start.assignments
    if isinstance(start, np.ndarray):
        return start
    return full_rows(problem.observing(()), start)


@contextmanager
def _reporting(progress: bool | Progress) -> Iterator[Progress | None]:
    """What is called with the rows that are done and with all; nothing where nobody asked."""
    if callable(progress):
        yield progress
    elif progress:
        yield from _bar(_in_notebook() or _in_terminal())
    else:
        yield None


def _bar(show: Callable[[str], object]) -> Iterator[Progress]:
    def report(done: int, total: int) -> None:
        filled = BAR * done // max(1, total)
        show(f"solving [{'=' * filled}{' ' * (BAR - filled)}] {done} of {total} rows")

    yield report
    show("")


def _in_terminal() -> Callable[[str], object]:
    def show(line: str) -> None:
        sys.stderr.write(f"\r{line:<{BAR + 40}}" if line else f"\r{'':<{BAR + 40}}\r")
        sys.stderr.flush()

    return show


def _in_notebook() -> Callable[[str], object] | None:
    """A line that changes in place, where a notebook runs this."""
    shell = sys.modules.get("IPython")
    found = shell.get_ipython() if shell is not None else None
    if found is None or not hasattr(found, "kernel"):
        return None
    from IPython.display import DisplayHandle

    handle = DisplayHandle()
    handle.display({"text/plain": ""}, raw=True)
    return lambda line: handle.update({"text/plain": line}, raw=True)
