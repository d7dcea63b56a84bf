"""A directory of kept results: what `study report` draws from, read and checked.

    cells.jsonl        one object per data set, q, method and seed; the only file that is required
    curves.jsonl       training: one object per epoch
    times.jsonl        regret after so many seconds a row
    datasets.jsonl     what the data sets are like
    paper.jsonl        the figures that are printed in the paper
    adversarial.jsonl  the attacks on a classifier; adversarial.png and .svg show digits
    provenance.json    versions, machine, seeds, commands, hashes

Every field is checked where it is read: a file that is truncated or that says something else
becomes one line with its name, the line, what was expected and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cmpe.errors import FormatError, InputError
from cmpe.formats.text import parse_object, read_bytes

CELLS = "cells.jsonl"
PICTURE = "adversarial"
SIGNATURES = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<"}
LONGEST_TEXT = 2000
LONGEST_NAME = 80
Numbers = Mapping[str, float | None]
T = TypeVar("T")


@dataclass(frozen=True)
class Cell:
    """One method on one data set at one q with one seed."""

    dataset: str
    group: str
    q: float | None
    method: str
    seed: int
    every: Numbers  # metrics of all rows
    constrained: Numbers  # and of the constrained ones
    mean_reference: float | None
    mean_objective: float | None
    overlap: float | None  # the share of rows that are also training rows
    relaxed_violation: float | None
    train_seconds: float | None
    device: str | None
    measured: bool
    reason: str | None


@dataclass(frozen=True)
class CurvePoint:
    """A training run after one epoch."""

    dataset: str
    q: float | None
    method: str
    seed: int
    epoch: int
    values: Numbers  # loss, validation_regret, validation_violation, seconds


@dataclass(frozen=True)
class TimePoint:
    """What a method reached within so many seconds a row."""

    dataset: str
    q: float | None
    method: str
    seconds: float
    regret: float | None
    certified_gap: float | None
    violation: float | None
    amortised: bool


@dataclass(frozen=True)
class DatasetFacts:
    """The size of a data set and of its model."""

    dataset: str
    group: str
    counts: Numbers


@dataclass(frozen=True)
class PaperFigure:
    """One printed figure."""

    table: str
    dataset: str
    q: float | None
    method: str
    metric: str
    mean: float
    std: float | None


@dataclass(frozen=True)
class AttackFigures:
    """One way of making adversarial examples."""

    method: str
    label: str
    values: Numbers
    device: str | None
    classifier: str | None
    note: str | None


@dataclass(frozen=True)
class StudyResults:
    """All that a directory holds; what it does not hold is empty."""

    cells: tuple[Cell, ...]
    curves: tuple[CurvePoint, ...] = ()
    times: tuple[TimePoint, ...] = ()
    datasets: tuple[DatasetFacts, ...] = ()
    paper: tuple[PaperFigure, ...] = ()
    attacks: tuple[AttackFigures, ...] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)  # by suffix
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """One line of a file; every access checks what it takes."""

    path: Path
    line: int
    values: Mapping[str, Any]

    def error(self, name: str, expected: str, found: object) -> FormatError:
        """An error at one field."""
        shown = repr(found)
        shown = shown if len(shown) <= 40 else shown[:39] + "…"
        return FormatError.at(self.path, f"line {self.line}, {name}", expected, shown)

    def name(self, key: str) -> str:
        """A short printable text that must be there."""
        value = self.text(key)
        if value is None or not value.strip() or len(value) > LONGEST_NAME:
            expected = f"a name of 1 to {LONGEST_NAME} characters"
            raise self.error(key, expected, self.values.get(key))
        return value

    def text(self, key: str) -> str | None:
        """Printable text or nothing."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.replace("\n", " ").isprintable():
            raise self.error(key, "printable text or null", value)
        return value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 1] + "…"

    def number(self, key: str) -> float | None:
        """A finite number or nothing."""
        return self._finite(key, self.values.get(key))

    def needed(self, key: str) -> float:
        """A finite number that must be there."""
        value = self.number(key)
        if value is None:
            raise self.error(key, "a finite number", None)
        return value

    def whole(self, key: str) -> int:
        """A whole number that must be there."""
        value = self.needed(key)
        if value != int(value):
            raise self.error(key, "a whole number", value)
        return int(value)

    def flag(self, key: str) -> bool:
        """True or false; false when it is not there."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, "true or false", value)
        return value

    def numbers(self, key: str) -> Numbers | None:
        """An object of numbers, or nothing."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(key, "an object or null", value)
        return {name: self._finite(f"{key}.{name}", found) for name, found in value.items()}

    def rest(self, *keys: str) -> Numbers:
        """Several numbers that may be missing."""
        return {key: self.number(key) for key in keys}

    def _finite(self, place: str, value: object) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(place, "a finite number or null", value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise self.error(place, "a finite number or null", number)
        return number


def read_results(directory: Path | str) -> StudyResults:
    """Read and check every file of a results directory."""
    folder = Path(directory)
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing"
        raise InputError(f"{folder}: expected a directory with {CELLS}, found {found}")
    if not (folder / CELLS).is_file():
        raise InputError(f"{folder}: expected {CELLS} in it, found none")
    cells = _rows(folder / CELLS, _cell)
    if not cells:
        raise InputError(f"{folder / CELLS}: expected at least one cell, found none")
    _check_distinct(folder / CELLS, cells)
    return StudyResults(
        cells=cells,
        curves=_rows(folder / "curves.jsonl", _curve),
        times=_rows(folder / "times.jsonl", _time),
        datasets=_rows(folder / "datasets.jsonl", _facts),
        paper=_rows(folder / "paper.jsonl", _paper),
        attacks=_rows(folder / "adversarial.jsonl", _attack),
        pictures=_pictures(folder),
        provenance=_provenance(folder / "provenance.json"),
    )


def _rows(path: Path, make: Callable[[Record], T]) -> tuple[T, ...]:
    if not path.exists():
        return ()
    lines = enumerate(read_bytes(path).split(b"\n"), 1)
    return tuple(
        make(Record(path, number, parse_object(path, line, line=number)))
        for number, line in lines
        if line.strip()
    )


def _check_distinct(path: Path, cells: tuple[Cell, ...]) -> None:
    seen: set[tuple[object, ...]] = set()
    for cell in cells:
        key = (cell.dataset, cell.q, cell.method, cell.seed)
        if key in seen:
            words = " ".join(map(str, key))
            raise InputError(
                f"{path}: expected one cell per dataset, q, method and seed, found two of {words}"
            )
        seen.add(key)


def _cell(row: Record) -> Cell:
    status = row.text("status") or "measured"
    if status not in ("measured", "missing"):
        raise row.error("status", "measured or missing", status)
    every = row.numbers("every")
    if every is None and status == "measured":
        raise row.error("every", "the metrics of a measured cell", None)
    return Cell(
        dataset=row.name("dataset"),
        group=row.text("group") or "other",
        q=row.number("q"),
        method=row.name("method"),
        seed=row.whole("seed") if row.values.get("seed") is not None else 0,
        every=every or {},
        constrained=row.numbers("constrained") or {},
        **row.rest("mean_reference", "mean_objective", "overlap"),
        **row.rest("relaxed_violation", "train_seconds"),
        device=row.text("device"),
        measured=status == "measured",
        reason=row.text("reason"),
    )


def _curve(row: Record) -> CurvePoint:
    values = row.rest("loss", "validation_regret", "validation_violation", "seconds")
    place = (row.name("dataset"), row.number("q"), row.name("method"))
    return CurvePoint(*place, row.whole("seed"), row.whole("epoch"), values)


def _time(row: Record) -> TimePoint:
    place = (row.name("dataset"), row.number("q"), row.name("method"))
    reached = (row.number("regret"), row.number("certified_gap"), row.number("violation"))
    return TimePoint(*place, row.needed("seconds"), *reached, row.flag("amortised"))


def _facts(row: Record) -> DatasetFacts:
    counts = row.rest(
        *("variables", "functions", "free", "evidence", "width"),
        *("distinct_test_rows", "train_rows", "test_rows"),
    )
    return DatasetFacts(row.name("dataset"), row.text("group") or "other", counts)


def _paper(row: Record) -> PaperFigure:
    names = (row.name("table"), row.name("dataset"), row.number("q"), row.name("method"))
    return PaperFigure(*names, row.name("metric"), row.needed("mean"), row.number("std"))


def _attack(row: Record) -> AttackFigures:
    values = row.rest(
        *("objective", "objective_std", "gap", "violation", "violation_8bit"),
        *("train_seconds", "seconds", "rows"),
        *("ratio_proved", "proved_rows", "objective_flipped"),
    )
    label = row.text("label") or row.name("method")
    words = (row.text("device"), row.text("classifier"), row.text("note"))
    return AttackFigures(row.name("method"), label, values, *words)


def _pictures(folder: Path) -> dict[str, bytes]:
    found = {}
    for suffix, signature in SIGNATURES.items():
        file = folder / f"{PICTURE}{suffix}"
        if file.exists():
            found[suffix] = read_bytes(file)
            if not found[suffix].lstrip().startswith(signature.lstrip()):
                raise FormatError(f"{file}: expected a {suffix[1:].upper()} picture, found none")
    return found


def _provenance(path: Path) -> dict[str, Any]:
    return parse_object(path, read_bytes(path)) if path.exists() else {}
