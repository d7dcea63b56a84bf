"""Answers as a table for people."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from cmpe.display import shortened

if TYPE_CHECKING:
    from cmpe.formats.results import Carried
    from cmpe.problem import Problem
    from cmpe.solution import Answer, Solutions

TABLE_WIDTH, ANSWER_WIDTH = 140, 48  # characters


def table_text(
    problem: Problem,
    solutions: Solutions,
    most: int | None = None,
    carried: Carried | None = None,
) -> str:
    """A table of the first `most` rows and a summary line; `carried` columns follow the number."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from cmpe.solution import Status

    table = Table(title=Text(problem.name) if problem.name else None, title_justify="left")
    table.add_column("row", justify="right")
    for name in carried or {}:
        table.add_column(Text(name))
    table.add_column("status")
    several = len(problem.constraints) > 1
    constraints = [
        c.stated(f"t{j + 1}" if several else "t") for j, c in enumerate(problem.constraints)
    ]
    for heading in ("objective", *constraints, "bound", "gap", "ms"):
        table.add_column(heading, justify="right")
    table.add_column("answer", no_wrap=True)
    shown = len(solutions) if most is None else min(most, len(solutions))
    for i in range(shown):
        numbers = [solutions.objective[i], *solutions.constraint_values[i], solutions.bound[i]]
        table.add_row(
            str(i),
            *(Text(str(cells[i])) for cells in (carried or {}).values()),
            Status.of(solutions.status[i]).label,
            *(_cell(n, "10.4f") for n in numbers),
            _cell(solutions.gap[i], ".2g"),
            f"{1e3 * solutions.seconds[i]:.1f}",
            Text(answer_text(solutions[i], ANSWER_WIDTH)),
        )
    console = Console(file=io.StringIO(), width=TABLE_WIDTH, color_system=None)
    console.print(table)
    stream = console.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue() + _summary(solutions, shown)


def answer_text(row: Answer, most: int) -> str:
    """What was decided: NAME=STATE where variables have names, else the values in their order."""
    named = any(isinstance(key, str) for key in row)
    words = [f"{key}={state}" if named else str(state) for key, state in row.free.items()]
    return shortened(words, most, ", " if named else " ")


def _cell(value: float, form: str) -> str:
    return "-" if value != value else f"{value:{form}}".strip()


def _summary(solutions: Solutions, shown: int) -> str:
    hidden = len(solutions) - shown
    more = f"{hidden} more rows: use --format json. " if hidden else ""
    return f"{more}{solutions.summary}; {solutions.seconds.sum():.3g} s in all\n"
