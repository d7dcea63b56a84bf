"""Answers as tables: one row each, states by variable, then status, values and time."""

from __future__ import annotations

import csv
import io
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from cmpe.solution.solutions import Solutions


def columns_of(answers: Solutions) -> Iterator[tuple[str, list[Any]]]:
    """The name and the cells of every column, carried ones first; None where there is no answer.

    A column called like a fact keeps its name: the fact is then called `cmpe.objective`, say.
    """
    domain, carried = answers.asked.domain, answers.carried or {}
    yield from ((name, list(cells)) for name, cells in carried.items())
    found = np.asarray((answers.assignments >= 0).all(axis=1)).tolist()
    variables = range(answers.assignments.shape[1])
    names = {*carried, *(domain.name(v) for v in variables)}
    for v in variables:
        cells = answers.assignments[:, v].tolist()
        labels = [domain.label(v, c) if ok else None for c, ok in zip(cells, found, strict=True)]
        yield domain.name(v), labels
    for name, values in _facts(answers):
        yield (f"cmpe.{name}" if name in names else name), values


def _facts(answers: Solutions) -> Iterator[tuple[str, list[Any]]]:
    yield "status", answers.labels
    yield "objective", _numbers(answers.objective)
    yield "bound", _numbers(answers.bound)
    yield "gap", _numbers(answers.gap)
    for j, (name, relation, limit) in enumerate(answers.asked.limits):
        called, values = name or f"t{j + 1}", _numbers(answers.constraint_values[:, j])
        if answers.limits is None:
            yield f"{called} {relation} {limit:g}", values
        else:
            yield f"{called} {relation} q{j + 1}", values
            yield f"q{j + 1}", answers.limits[:, j].tolist()
    yield "method", answers.method.tolist()
    yield "seconds", answers.seconds.tolist()


def _numbers(values: Any) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def frame_of_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of rows by column, of these columns also where there is no row."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra.named("pandas", "frames") from None
    return pandas.DataFrame(rows, columns=list(columns))


def frame_of(answers: Solutions) -> Any:
    """A pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra.named("pandas", "frames") from None
    named = list(columns_of(answers))
    frame = pandas.DataFrame(dict(enumerate(cells for _, cells in named)))
    frame.columns = [name for name, _ in named]
    if answers.index is not None:
        frame.index = answers.index
    if answers.observed is not None:
        domain = answers.asked.domain
        seen = np.flatnonzero(answers.observed.all(axis=0)).tolist()
        frame.attrs["observed"] = [domain.name(v) for v in seen]
    return frame


def csv_text(answers: Solutions, carried: Mapping[str, Sequence[Any]] | None = None) -> str:
    """A header of names, then one line per row; an empty cell where there is nothing.

    `carried` columns, such as ids, come first.
    """
    named = [*(carried or {}).items(), *columns_of(answers)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([name for name, _ in named])
    writer.writerows(zip(*(cells for _, cells in named), strict=True))
    return out.getvalue()


def parquet_bytes(
    answers: Solutions,
    first: int | None = None,
    carried: Mapping[str, Sequence[Any]] | None = None,
) -> bytes:
    """The same columns as a Parquet file; with `first` also the number of each row, from there."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtra.named("pyarrow", "frames") from None
    columns = {**(answers.carried or {}), **(carried or {})}
    more = [(name, pyarrow.array(cells)) for name, cells in columns.items()]
    named = [*more, *_arrow_columns(answers, pyarrow)]
    if first is not None:
        taken = {name for name, _ in named}
        index = "cmpe.index" if "index" in taken else "index"
        named = [(index, pyarrow.array(np.arange(first, first + len(answers)))), *named]
    table = pyarrow.Table.from_arrays([c for _, c in named], names=[name for name, _ in named])
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


def _arrow_columns(answers: Solutions, pyarrow: Any) -> Iterator[tuple[str, Any]]:
    """What `columns_of` gives, as arrays of pyarrow: a cell takes nanoseconds."""
    domain, values = answers.asked.domain, answers.assignments
    missing = ~np.asarray((values >= 0).all(axis=1))
    variables = range(values.shape[1])
    names = {*(answers.carried or {}), *(domain.name(v) for v in variables)}
    whole = values.dtype.kind != "f"
    for v in variables:
        column = np.ascontiguousarray(values[:, v], dtype=np.int64 if whole else np.float64)
        cells = pyarrow.array(column, mask=missing)
        if whole and domain.labels(v) != tuple(range(domain.cardinalities[v])):
            states = pyarrow.array(domain.labels(v))
            cells = pyarrow.DictionaryArray.from_arrays(cells, states).dictionary_decode()
        yield domain.name(v), cells
    for name, facts in _facts(answers):
        yield (f"cmpe.{name}" if name in names else name), pyarrow.array(facts)


def write_whole(path: Path | str, data: bytes) -> None:
    """Write a file, all of it or nothing."""
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.chmod(name, 0o644)
            os.replace(name, target)
        finally:
            Path(name).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
