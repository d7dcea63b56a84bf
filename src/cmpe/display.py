"""Displays of values: short lists of words, and tables for notebooks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, ParamSpec, TypeVar

SHOWN_RESULTS = 5
P = ParamSpec("P")
T = TypeVar("T")


class Results(list[T]):
    """One result for each row: a list that notebooks show as the tables of its first results."""

    def _repr_html_(self) -> str:
        shown: list[Any] = list(self[:SHOWN_RESULTS])
        tables = [
            (f"<p>row {i}</p>" if len(self) > 1 else "") + result._repr_html_()
            for i, result in enumerate(shown)
        ]
        more = len(self) - len(shown)
        return "".join(tables) + (f"<p>{more} more rows</p>" if more else "")


def as_results(ask: Callable[P, list[T]]) -> Callable[P, Results[T]]:
    """The same function, whose list of results notebooks show."""

    @functools.wraps(ask)
    def asked(*args: P.args, **options: P.kwargs) -> Results[T]:
        return Results(ask(*args, **options))

    return asked


def shortened(words: Sequence[str], most: int, joint: str = ", ") -> str:
    """Words in one line of about `most` characters; how many were left out is said."""
    line, shown = "", 0
    for word in words:
        longer = line + joint + word if shown else word
        if shown and len(longer) > most:
            return f"{line}{joint}... {len(words) - shown} more"
        line, shown = longer, shown + 1
    return line


def number_text(value: float, form: str = ".6g") -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value != value else f"{value:{form}}"


def html_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without colours of its own, so that it suits light and dark notebooks."""
    head = "".join(f"<th>{escape(word)}</th>" for word in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(word)}</td>' for word in row)}</tr>" for row in rows
    )
    caption = f'<caption style="text-align:left">{escape(title)}</caption>'
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
