"""Answers as files: UAI MPE results, and one JSON object a line.

A UAI result is `MPE`, a line with the number of rows, then a line `n z1 ... zn` per row; a row
without an assignment is `0`, and one row that has an assignment needs no number of rows. In JSON
-inf, inf and NaN are null.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Values
from cmpe.errors import EvidenceError, FormatError
from cmpe.formats.evidence import free_rows
from cmpe.formats.text import Tokens, lines_of, parse_object, read_text
from cmpe.problem import Constraint, Problem
from cmpe.solution import Solutions, Status

LARGEST = sys.float_info.max
Carried = Mapping[str, Sequence[Any]]  # columns of the evidence, for the output
NOTHING: Carried = {}


def format_mpe(assignments: Values) -> str:
    """The text of a UAI MPE result."""
    rows = [r if (r >= 0).all() else r[:0] for r in assignments]
    lines = [" ".join(map(str, [len(row), *row.tolist()])) for row in rows]
    count = [] if len(rows) == 1 and len(rows[0]) else [str(len(rows))]
    return "\n".join(["MPE", *count, *lines]) + "\n"


def read_mpe(path: Path | str, variables: int) -> NDArray[np.int32]:
    """The assignments (B, variables) of a UAI MPE result; -1 in rows without one."""
    text = read_text(path)
    tokens = Tokens(path, text)
    word = tokens.word("MPE")
    if word != "MPE":
        raise tokens.error("MPE", repr(word[:40]), back=1)
    count = 1 if _is_one_row(text, variables) else tokens.whole("the number of rows")
    tokens.need(count, "a row")
    rows = free_rows(path, count, variables, np.int32)
    for row in rows:
        row[:] = _row(tokens, variables)
    tokens.finish()
    return rows


def _is_one_row(text: str, variables: int) -> bool:
    """Whether an assignment, not the number of rows, follows MPE: only the line end can tell."""
    first = next(lines_of(text[text.index("MPE") + 3 :]), (0, ""))[1]
    words = first.split(None, 2)
    return len(words) > 1 and words[0] == str(variables)


def _row(tokens: Tokens, variables: int) -> list[int] | int:
    """The values, or -1 for all of them."""
    length = tokens.whole("the number of values")
    if length == 0:
        return FREE
    if length != variables:
        raise tokens.error(f"{variables} values, or 0 for no answer", str(length), back=1)
    return tokens.wholes(length, "a value", most=np.iinfo(np.int32).max)


def json_rows(
    problem: Problem, solutions: Solutions, first: int = 0, carried: Carried = NOTHING
) -> Iterator[str]:
    """One JSON object a row, in order, counted from `first`; `carried` cells follow the number."""
    gap, feasible = solutions.gap, solutions.feasible
    for i in range(len(solutions)):
        values = row_values(problem, solutions, i, float(gap[i]), bool(feasible[i]))
        yield json_line({"index": first + i, **cells_of(carried, i), **values})


def cells_of(carried: Carried, i: int) -> dict[str, Any]:
    """The cells of one row."""
    return {name: cells[i] for name, cells in carried.items()}


def row_values(
    problem: Problem, solutions: Solutions, i: int, gap: float, feasible: bool
) -> dict[str, Any]:
    """What the JSON object of one answer says, but for its index."""
    row = solutions.assignments[i].tolist()
    return {
        "status": Status.of(solutions.status[i]).label,
        "objective": float(solutions.objective[i]),
        "bound": float(solutions.bound[i]),
        "gap": gap,
        "feasible": feasible,
        "constraints": _constraints(problem.constraints, solutions, i),
        "assignment": row if min(row, default=0) >= 0 else None,
        **({"states": solutions[i].states} if solutions.asked.domain.names else {}),
        **_multipliers(solutions, i),
        "method": str(solutions.method[i]),
        "seconds": float(solutions.seconds[i]),
    }


def _constraints(
    limits: Sequence[Constraint], solutions: Solutions, i: int
) -> list[dict[str, Any]]:
    values, violations = solutions.constraint_values[i], solutions.violations[i]
    return [
        {
            **({"name": c.name} if c.name else {}),
            "value": _number(values[j]),
            "at_least" if c.mirrored else "at_most": (
                c.limit if solutions.limits is None else float(solutions.limits[i, j])
            ),
            "violation": _number(violations[j]),
        }
        for j, c in enumerate(limits)
    ]


def _multipliers(solutions: Solutions, i: int) -> dict[str, list[float]]:
    """mu* of each constraint, where all are known."""
    row = solutions.multipliers[i]
    return {"multipliers": row.tolist()} if len(row) and np.isfinite(row).all() else {}


def json_line(values: Mapping[str, Any]) -> str:
    """One JSON object; numbers that JSON does not know are null."""
    return json.dumps({k: _number(v) if isinstance(v, float) else v for k, v in values.items()})


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def read_solutions(path: Path | str, problem: Problem) -> Solutions:
    """The answers in a file of `cmpe solve --output`: JSON lines, or a UAI result.

    Every value and status is derived anew from the assignments. Bounds, proofs that a row is
    infeasible, methods and times are the file's; a UAI result has none.
    """
    text = read_text(path)
    if text.lstrip().startswith("MPE"):
        return Solutions.of(problem, _checked(path, read_mpe(path, problem.variables), problem))
    rows = [_JsonRow.parsed(path, number, line, problem) for number, line in lines_of(text)]
    if not rows:
        raise FormatError.at(path, "line 1", "an answer", "an empty file")
    assignments = free_rows(path, len(rows), problem.variables, np.float64)  # 0.5 stays 0.5
    for place, row in zip(assignments, rows, strict=True):
        place[:] = FREE if row.assignment is None else row.assignment
    return Solutions.of(
        problem,
        _checked(path, assignments, problem),
        bound=[row.bound for row in rows],
        infeasible=[row.status == Status.INFEASIBLE.label for row in rows],
        method=[row.method for row in rows],
        seconds=[row.seconds for row in rows],
        multipliers=np.array([row.multipliers for row in rows]).reshape(len(rows), -1),
    )


def _checked(path: Path | str, assignments: Values, problem: Problem) -> Values:
    """The assignments, if every value is one that its variable can take."""
    try:
        return problem.full_rows(assignments)
    except EvidenceError as error:
        raise FormatError(f"{path}: {error}") from None


@dataclass(frozen=True)
class _JsonRow:
    """What is read of one line; values that follow from the assignment are not."""

    assignment: list[float] | None
    status: str
    bound: float
    method: str
    seconds: float
    multipliers: list[float]

    @classmethod
    def parsed(cls, path: Path | str, number: int, line: str, problem: Problem) -> _JsonRow:
        """The row in one line of the file."""
        row = parse_object(path, line, line=number)
        for name, (check, expected) in _ROW_FIELDS.items():
            if name not in row or not check(row[name]):
                found = repr(row.get(name, "nothing"))[:60]
                raise FormatError.at(path, f"line {number}, field {name!r}", expected, found)
        values = row["assignment"]
        if values is not None and len(values) != problem.variables:
            place, expected = f"line {number}, field 'assignment'", f"{problem.variables} values"
            raise FormatError.at(path, place, expected, str(len(values)))
        bound = math.inf if row["bound"] is None else float(row["bound"])
        known = row.get("multipliers", [math.nan] * len(problem.constraints))
        if not _is_multipliers(known) or len(known) != len(problem.constraints):
            place = f"line {number}, field 'multipliers'"
            expected = f"{len(problem.constraints)} numbers from 0 up"
            raise FormatError.at(path, place, expected, repr(known)[:60])
        seconds = float(row["seconds"])
        return cls(values, row["status"], bound, row["method"], seconds, list(map(float, known)))


def _is_real(value: Any) -> bool:
    """A number that a float can be; a whole number may be too large for one."""
    is_number = isinstance(value, int | float) and type(value) is not bool
    return is_number and (isinstance(value, float) or abs(value) <= LARGEST)


def _is_multipliers(value: Any) -> bool:
    """A list of numbers, none of them negative."""
    return isinstance(value, list) and all(_is_real(mu) and not mu < 0 for mu in value)


def _is_assignment(value: Any) -> bool:
    return value is None or (
        isinstance(value, list) and all(_is_real(v) and 0 <= v < 2**31 for v in value)
    )


_ROW_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "assignment": (_is_assignment, "a list of values, or null"),
    "status": (lambda value: value in [s.label for s in Status], "a status"),
    "bound": (
        lambda value: value is None or (_is_real(value) and not math.isnan(value)),
        "a number, or null",
    ),
    "method": (lambda value: isinstance(value, str), "a string"),
    "seconds": (lambda value: _is_real(value) and 0 <= value < math.inf, "a number from 0 up"),
}
