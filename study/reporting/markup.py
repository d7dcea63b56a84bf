"""Tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import NamedTuple

from study.reporting.tables import MOST_VIOLATIONS, Column, Entry, Table

_LATEX = {
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "µ": r"$\mu$",
    "–": "--",
    "−": "$-$",
    "≤": r"$\leq$",
    "…": r"\dots{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~$&])")


class _Marks(NamedTuple):
    """How a markup shows plain text, what is out of the competition, and the best."""

    plain: Callable[[str], str]
    flagged: str  # with {} for the text
    best: str


def to_markdown(table: Table) -> str:
    """A pipe table; reasons are numbered below it."""
    notes = table.notes()
    titles = [_markdown(_full_title(c)) for c in table.columns]
    rules = ["---" if c.words else "---:" for c in table.columns]
    marks = _Marks(_markdown, "<u>{}</u>", "**{}**")
    body = [[_entry(e, notes, marks) for e in row.entries] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (titles, rules, *body)]
    reasons = [f"{i}. {_markdown(note)}" for i, note in enumerate(notes, 1)]
    below = ["", "No figure:", "", *reasons] if reasons else []
    head = [f"### {_markdown(table.title)}", "", _markdown(table.caption), ""]
    return "\n".join([*head, *lines, *below]) + "\n"


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def to_latex(table: Table) -> str:
    """A `table*` that needs no package."""
    notes = table.notes()
    layout = "".join("l" if c.words else "r" for c in table.columns)
    lines = [_latex_over(table.columns), _latex_titles(table.columns), r"\hline"]
    marks = _Marks(latex, r"\underline{{{}}}", r"\textbf{{{}}}")
    for row in table.rows:
        lines += [" & ".join(_entry(e, notes, marks) for e in row.entries) + r" \\"]
    reasons = "; ".join(f"({i}) {note}" for i, note in enumerate(notes, 1))
    caption = f"{table.title}. {table.caption}" + (f" No figure: {reasons}." if reasons else "")
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            f"\\caption{{{latex(caption)}}}",
            f"\\label{{tab:{table.name}}}",
            f"\\begin{{tabular}}{{{layout}}}",
            r"\hline",
            *(line for line in lines if line),
            r"\hline",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def _latex_over(columns: tuple[Column, ...]) -> str:
    """The headings over several columns, if there are any."""
    if not any(c.over for c in columns):
        return ""
    return " & ".join(
        f"\\multicolumn{{{span}}}{{c}}{{{latex(over)}}}" if over else " & " * (span - 1)
        for over, span in spans(columns)
    ) + (r" \\")


def _latex_titles(columns: tuple[Column, ...]) -> str:
    return " & ".join(latex(column.title) for column in columns) + r" \\"


def latex(text: str) -> str:
    """Text as LaTeX shows it."""
    return "".join(_LATEX.get(c, c) for c in " ".join(text.split()))


def to_csv(table: Table) -> str:
    """Plain numbers; spreads, marks and reasons in columns of their own, where there are any."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    parts = [
        (i, suffix, of)
        for i in range(len(table.columns))
        for suffix, of in _PARTS
        if not suffix or any(of(row.entries[i]) for row in table.rows)
    ]
    writer.writerow([_full_title(table.columns[i]) + suffix for i, suffix, _ in parts])
    for row in table.rows:
        writer.writerow([of(row.entries[i]) for i, _, of in parts])
    return stream.getvalue()


def _csv_value(entry: Entry) -> str:
    if entry.value is not None:
        return f"{entry.value:.10g}"
    text = "" if entry.note else entry.text
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text  # not a formula


def _rows_std(entry: Entry) -> str:
    spread = entry.spread
    return "" if spread is None or spread.rows_std is None else f"{spread.rows_std:.10g}"


def _seeds_std(entry: Entry) -> str:
    spread = entry.spread
    return "" if spread is None or spread.seeds_std is None else f"{spread.seeds_std:.10g}"


def _mark(entry: Entry) -> str:
    out = f"violations above {MOST_VIOLATIONS}" if entry.flagged and entry.value is not None else ""
    return f"missing: {entry.note}" if entry.note else "best" if entry.best else out


_PARTS: tuple[tuple[str, Callable[[Entry], str]], ...] = (
    ("", _csv_value),
    (" (std over rows)", _rows_std),
    (" (std over seeds)", _seeds_std),
    (" (mark)", _mark),
)


def _entry(entry: Entry, notes: list[str], marks: _Marks) -> str:
    text = marks.plain(entry.text)
    text = marks.flagged.format(text) if entry.flagged and entry.value is not None else text
    text = marks.best.format(text) if entry.best else text
    return f"{text} ({notes.index(entry.note) + 1})" if entry.note else text


def _full_title(column: Column) -> str:
    return f"{column.over}: {column.title}" if column.over else column.title


def spans(columns: tuple[Column, ...]) -> list[tuple[str, int]]:
    """Neighbouring columns under one heading, as (heading, how many)."""
    found: list[tuple[str, int]] = []
    for column in columns:
        if found and found[-1][0] == column.over:
            found[-1] = (column.over, found[-1][1] + 1)
        else:
            found.append((column.over, 1))
    return found
