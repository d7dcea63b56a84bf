"""Files with numbers for each row: log-potentials (`.npz`, `.npy`, `.parquet`), limits, inputs.

P.npz       an array (B, states) for each variable, by its name or as x0, x1, ...;
            (B, states, states) for "A,B"
P.npy       (B, n, k) for all variables, padded; mapped into memory
P.parquet   a column `NAME=STATE` for every state
L.csv       a column for each constraint, headed by its name; or one for all, without a header
L.parquet   columns by the name or number of their constraint
X.npy       (B, ...) what networks and modules read of each row; mapped into memory
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Values
from cmpe.errors import CmpeError, EvidenceError, FormatError, ModelError
from cmpe.formats.evidence import array_header, parse_array
from cmpe.formats.network import load_arrays
from cmpe.formats.packing import PACKED
from cmpe.formats.tables.columns import parse_csv, read_frame
from cmpe.formats.text import lines_of, read_bytes, read_text, suffix_of
from cmpe.problem import Problem
from cmpe.problem.rows import Rows

Scope = tuple[Any, ...]
MOST_UNPACKED = 1 << 34  # bytes of the arrays of a .npz file


@dataclass(frozen=True)
class OwnNumbers:
    """What `cmpe.solve` takes of all rows of some files, besides evidence."""

    potentials: dict[Scope, NDArray[Any]] | NDArray[Any] | None = None
    limits: dict[Any, Floats] | Floats | None = None
    inputs: NDArray[Any] | None = None
    files: tuple[Path, ...] = ()

    @classmethod
    def read(cls, problem: Problem, potentials: Path | None, limits: Path | None) -> OwnNumbers:
        """Of the files that are given."""
        return cls(
            None if potentials is None else read_potentials(potentials, problem),
            None if limits is None else read_limits(limits),
            files=tuple(file for file in (potentials, limits) if file is not None),
        )

    def with_inputs(self, file: Path | None) -> OwnNumbers:
        """The same with the inputs in a file."""
        if file is None:
            return self
        return replace(self, inputs=read_inputs(file), files=(*self.files, file))

    @property
    def rows(self) -> int | None:
        """How many rows have numbers; None: there are none."""
        counts = {len(each) for each in self._arrays()}
        if len(counts) > 1:
            raise EvidenceError(
                f"{self._named}: every array must have as many rows; found {sorted(counts)}"
            )
        return next(iter(counts), None)

    def part(self, first: int, count: int) -> OwnNumbers:
        """The numbers of some rows: views."""
        rows = slice(first, first + count)
        return replace(
            self,
            potentials=_part(self.potentials, rows),
            limits=_part(self.limits, rows),
            inputs=_part(self.inputs, rows),
        )

    def of(self, rows: Rows) -> Rows:
        """The same rows, with these numbers added to what they have."""
        if not self.files:
            return rows
        if len(rows) not in (1, self.rows):
            self.refuse(len(rows))
        try:
            return rows.with_numbers(self.potentials, self.limits).with_inputs(self.inputs)
        except CmpeError as error:
            raise type(error)(f"{self._named}: {error}") from None

    def refuse(self, count: int) -> NoReturn:
        """Numbers of so many rows were required."""
        raise EvidenceError(
            f"{self._named}: expected numbers for {count} rows, as the evidence has; found "
            f"{self.rows}"
        )

    def identity(self) -> list[list[Any]]:
        """Name, size and a hash of each file: `--resume` refuses numbers that were changed."""
        found = []
        for file in self.files:
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            found.append([file.name, file.stat().st_size, digest[:16]])
        return found

    @property
    def _named(self) -> str:
        return " and ".join(map(str, self.files))

    def _arrays(self) -> list[NDArray[Any]]:
        out: list[NDArray[Any]] = []
        for each in (self.potentials, self.limits, self.inputs):
            out += each.values() if isinstance(each, dict) else [] if each is None else [each]
        return out


def _part(numbers: Any, rows: slice) -> Any:
    if isinstance(numbers, dict):
        return {key: values[rows] for key, values in numbers.items()}
    return None if numbers is None else numbers[rows]


def read_potentials(path: Path | str, problem: Problem) -> dict[Scope, NDArray[Any]] | Values:
    """Log-potentials as `cmpe.solve(potentials=...)` takes them."""
    suffix = suffix_of(path)
    if suffix == ".npy":
        return _array(path, (3,), "numbers (rows, variables, states)")
    if suffix == ".npz":
        arrays = load_arrays(path, most=MOST_UNPACKED)
        return {_scope(path, key, problem): array for key, array in arrays.items()}
    if suffix == ".parquet":
        return _of_frame(path, problem)
    raise FormatError(f"{path}: expected potentials ending in .npz, .npy or .parquet")


def read_inputs(path: Path | str) -> NDArray[Any]:
    """Inputs as `cmpe.solve(inputs=...)` and `cmpe.fit(inputs=...)` take them."""
    if suffix_of(path) != ".npy":
        raise FormatError(f"{path}: expected inputs ending in .npy")
    return _array(path, range(2, 9), "numbers (rows, ...)")


def _array(path: Path | str, axes: Collection[int], expected: str) -> NDArray[Any]:
    is_packed = Path(path).suffix in PACKED
    return parse_array(path, read_bytes(path)) if is_packed else _mapped(path, axes, expected)


def read_limits(path: Path | str) -> dict[Any, Floats] | Floats:
    """Limits as `cmpe.solve(limits=...)` takes them."""
    suffix = suffix_of(path)
    if suffix == ".parquet":
        frame = read_frame(path)
        return {_key(name): _column(path, name, frame[name]) for name in frame.columns}
    if suffix != ".csv":
        raise FormatError(f"{path}: expected limits ending in .csv or .parquet")
    text = read_text(path, encoding="utf-8")
    first = next((line for _, line in lines_of(text)), "")
    if not first:
        raise FormatError.at(path, "line 1", "a limit for each constraint", "an empty file")
    if all(_is_number(cell) for cell in next(csv.reader([first]))):
        count = first.count(",") + 1
        header = ",".join(map(str, range(count)))
        columns = parse_csv(path, f"{header}\n{text}")
        return np.stack([_column(path, name, columns[name]) for name in columns.columns], axis=1)
    columns = parse_csv(path, text)
    return {_key(name): _column(path, name, columns[name]) for name in columns.columns}


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _key(name: Any) -> Any:
    """A constraint by number, or by name."""
    return int(name) if str(name).isdecimal() else name


def _column(path: Path | str, name: Any, cells: Any) -> Floats:
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise FormatError.at(path, f"column {name!r}", "numbers", str(error)) from None


def _mapped(path: Path | str, axes: Collection[int], expected: str) -> Values:
    header = array_header(path)
    if len(header.shape) not in axes or header.dtype.kind not in "iuf":
        found = f"{header.dtype} of shape {header.shape}"
        raise FormatError.at(path, "the array", expected, found)
    order: Any = "F" if header.is_fortran else "C"
    if 0 in header.shape:
        return np.zeros(header.shape)
    return np.memmap(path, header.dtype, "r", header.offset, header.shape, order)


def _scope(path: Path | str, key: str, problem: Problem) -> Scope:
    """The variables that an array is over: `A`, `x3` where there are no names, `A,B`."""
    domain = problem.domain
    keys: Any = domain.names or range(domain.variables)
    for parts in ([key], key.split(",")):
        try:
            return tuple(keys[_variable(problem, part.strip())] for part in parts)
        except ModelError as error:
            found = error
    raise EvidenceError(f"{path}: array {key!r}: {found}")


def _variable(problem: Problem, name: str) -> int:
    if problem.domain.names:
        return problem.domain.variable(name)
    number = name.removeprefix("x")
    return problem.domain.variable(int(number) if number.isdecimal() else name)


def _of_frame(path: Path | str, problem: Problem) -> dict[Scope, NDArray[Any]]:
    """Columns `NAME=STATE`, one for every state of a variable."""
    frame = read_frame(path)
    domain = problem.domain
    found: dict[int, dict[int, Floats]] = {}
    for column in frame.columns:
        name, state = domain.apart(str(column))
        try:
            variable = _variable(problem, name)
            number = domain.state(variable, _key(state))
        except ModelError as error:
            expected = "NAME=STATE"
            raise FormatError.at(path, f"column {column!r}", expected, str(error)) from None
        found.setdefault(variable, {})[number] = _column(path, column, frame[column])
    keys: Any = domain.names or range(domain.variables)
    out = {}
    for variable, columns in found.items():
        missing = set(range(domain.cardinalities[variable])) - set(columns)
        if missing:
            lacks = domain.label(variable, min(missing))
            raise EvidenceError(
                f"{path}: {domain.called(variable)} needs a column for every state; found none for "
                f"{lacks!r}"
            )
        out[(keys[variable],)] = np.stack([columns[s] for s in sorted(columns)], axis=1)
    return out
