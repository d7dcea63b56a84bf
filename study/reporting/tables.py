"""A table as a value: columns, rows, marked entries; and the paper's rule for the best.

The rule of the paper's Tables 1 and 2: a method whose violations exceed 0.15 is underlined and out
of the competition; of the others the smallest gap, and the fewest violations, are bold. Entries
that look equal at the shown precision share the mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from study.reporting.study import Measured

MOST_VIOLATIONS = 0.15
NOTHING = "–"
ROUNDING = 1e-9  # what is smaller is what rounding leaves


@dataclass(frozen=True)
class Entry:
    """What stands in one place of a table."""

    text: str
    value: float | None = None  # what it is sorted by
    spread: Measured | None = None
    best: bool = False
    flagged: bool = False  # out of the competition
    note: str | None = None  # why there is no figure


@dataclass(frozen=True)
class Column:
    """A heading, and what the column belongs to."""

    title: str
    over: str = ""  # heading over several columns
    dataset: str | None = None
    q: str | None = None
    words: bool = False  # text, not numbers


@dataclass(frozen=True)
class Row:
    """Entries, and what the row belongs to."""

    entries: tuple[Entry, ...]
    method: str | None = None
    dataset: str | None = None
    q: str | None = None
    block: int = 0  # rows of a block stay together when sorted


AT_ONCE = 7  # columns; the page shows the others on request


@dataclass(frozen=True)
class Table:
    """A table with its place in the report."""

    name: str  # of its files
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    section: str
    dataset: str | None = None  # the one it is about
    q: str | None = None
    main: tuple[tuple[str, str], ...] = ()  # (over, title) of columns to show first; else the first

    def at_once(self) -> list[int]:
        """The numbers of the columns that the page shows before it is asked for all."""
        if len(self.columns) <= AT_ONCE:
            return list(range(len(self.columns)))
        chosen = [i for i, c in enumerate(self.columns) if (c.over, c.title) in self.main]
        return chosen or list(range(AT_ONCE))

    def notes(self) -> list[str]:
        """The distinct reasons, in order."""
        entries = (entry for row in self.rows for entry in row.entries)
        return list(dict.fromkeys(e.note for e in entries if e.note))


def words(text: str | None) -> Entry:
    """An entry of text."""
    return Entry(text or "")


def number(found: Measured | None, form: str = "ratio", *, note: str | None = None) -> Entry:
    """A figure with its spreads, or the reason why there is none."""
    if found is None:
        return Entry(NOTHING, note=note)
    text, show = FORMS[form](found.mean), SPREADS.get(form, FORMS[form])
    if found.rows_std is not None and (form != "seconds" or _is_spread(found.rows_std, found)):
        text += f" ± {show(found.rows_std)}"  # rows that were timed together have no spread
    if found.seeds_std is not None:
        text += f" (± {show(found.seeds_std)})"
    return Entry(text, found.mean, found)


def _is_spread(deviation: float, found: Measured) -> bool:
    """Whether a standard deviation is more than what rounding leaves of equal numbers."""
    return deviation > ROUNDING * abs(found.mean)


def plain(found: Measured | None, form: str = "ratio", *, note: str | None = None) -> Entry:
    """A figure without its spreads."""
    return number(None if found is None else Measured(found.mean), form, note=note)


def count(value: float | None, *, note: str | None = None) -> Entry:
    """A whole number."""
    return Entry(NOTHING, note=note) if value is None else Entry(f"{value:,.0f}", value)


def _decimals(value: float, digits: int) -> str:
    """So many decimals; one more where these would all be zero, or at least that it is not 0."""
    value = 0.0 if abs(value) < ROUNDING else value
    finer = 10.0 ** -(digits + 1)
    if value == 0 or abs(value) >= 5 * finer:
        return f"{value:,.{digits}f}"
    if abs(value) >= finer / 2:
        return f"{value:.{digits + 1}f}"
    return f"<{finer:.{digits + 1}f}" if value > 0 else f">-{finer:.{digits + 1}f}"


def _ratio(value: float) -> str:
    """Three decimals as in the paper."""
    return _decimals(value, 3)


def _nats(value: float) -> str:
    return _decimals(value, 2)


def _objective(value: float) -> str:
    return f"{value:,.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %" if abs(value) >= 0.0005 or value == 0 else f"{100 * value:.0e} %"


def seconds_text(value: float) -> str:
    """A time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(value) >= size:
            return f"{value / size:,.3g} {unit}" if value / size < 1000 else f"{value:,.0f} s"
    return f"{value / 1e-6:.2g} µs" if value else "0 s"


FORMS: dict[str, Callable[[float], str]] = {
    "whole": lambda value: f"{value:,.0f}",
    "ratio": _ratio,
    "nats": _nats,
    "objective": _objective,
    "percent": _percent,
    "seconds": seconds_text,
}
SPREADS: dict[str, Callable[[float], str]] = {  # their tiny ones may read 0
    "ratio": lambda value: f"{value:.3f}",
    "nats": lambda value: f"{value:,.2f}",
}


def mark_best(gaps: Sequence[Entry], violations: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """The paper's rule over methods that compete: pairs (gap, violations), marked."""
    flags = [v.value is not None and v.value > MOST_VIOLATIONS for v in violations]
    best_gap = _smallest(g for g, out in zip(gaps, flags, strict=True) if not out)
    fewest = _smallest(v for v, out in zip(violations, flags, strict=True) if not out)
    return [
        (
            replace(gap, best=not out and _equals(gap, best_gap), flagged=out),
            replace(violation, best=not out and _equals(violation, fewest), flagged=out),
        )
        for gap, violation, out in zip(gaps, violations, flags, strict=True)
    ]


def mark_smallest(entries: Sequence[Entry]) -> list[Entry]:
    """The smallest of some entries, with those that look the same."""
    least = _smallest(entries)
    return [replace(e, best=_equals(e, least)) for e in entries]


def _smallest(entries: Iterable[Entry]) -> Entry | None:
    return min((e for e in entries if e.value is not None), key=_value, default=None)


def _value(entry: Entry) -> float:
    assert entry.value is not None
    return entry.value


def _equals(entry: Entry, other: Entry | None) -> bool:
    if other is None or entry.value is None:
        return False
    return entry.value == other.value or _leading(entry) == _leading(other)


def _leading(entry: Entry) -> str:
    return entry.text.split(" ±")[0].split(" (")[0]
