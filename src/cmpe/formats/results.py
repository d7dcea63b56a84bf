"""Answers as files: UAI MPE results, and one JSON object a line.

A UAI result is `MPE`, the number of rows when it is not 1, then `n z1 ... zn` per row; a row
without an assignment is `0`. In JSON -inf, inf and NaN are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError
from cmpe.formats.text import Tokens, read_text
from cmpe.problem import Problem
from cmpe.solution import Solutions, Status


def format_mpe(assignments: NDArray[np.integer]) -> str:
    """The text of a UAI MPE result."""
    rows = [r if (r >= 0).all() else r[:0] for r in assignments]
    lines = [" ".join(map(str, [len(row), *row.tolist()])) for row in rows]
    return "\n".join(["MPE", *([] if len(lines) == 1 else [str(len(lines))]), *lines]) + "\n"


def read_mpe(path: Path | str, variables: int) -> NDArray[np.int32]:
    """The assignments (B, variables) of a UAI MPE result; -1 in rows without one."""
    tokens = Tokens(path, read_text(path))
    if tokens.word("MPE") != "MPE":
        raise tokens.error("MPE", "another word", back=1)
    first = tokens.whole("a number of rows or of values")
    if first in (0, variables) and tokens.left == first:  # one row, no count before it
        return np.array([_row(tokens, first, variables)], dtype=np.int32)
    count = first
    tokens.need(count, "a row")
    rows = [_row(tokens, tokens.whole("the number of values"), variables) for _ in range(count)]
    tokens.finish()
    return np.array(rows, dtype=np.int32).reshape(count, variables)


def _row(tokens: Tokens, length: int, variables: int) -> list[int]:
    if length == 0:
        return [-1] * variables
    if length != variables:
        raise tokens.error(f"{variables} values, or 0 for no answer", str(length), back=1)
    return tokens.wholes(length, "a value")


def json_rows(problem: Problem, solutions: Solutions) -> Iterator[str]:
    """One JSON object a row, in order."""
    limits = problem.limits.tolist()
    gap = solutions.gap
    for i in range(len(solutions)):
        row = solutions.assignments[i].tolist()
        yield json.dumps(
            {
                "index": i,
                "status": Status(int(solutions.status[i])).label,
                "objective": _number(solutions.objective[i]),
                "bound": _number(solutions.bound[i]),
                "gap": _number(gap[i]),
                "feasible": bool(solutions.feasible[i]),
                "constraints": _constraints(limits, solutions, i),
                "assignment": row if min(row, default=0) >= 0 else None,
                "method": str(solutions.method[i]),
                "seconds": _number(solutions.seconds[i]),
            }
        )


def _constraints(limits: Sequence[float], solutions: Solutions, i: int) -> list[dict[str, Any]]:
    values, violations = solutions.constraint_values[i], solutions.violations[i]
    return [
        {"value": _number(values[j]), "at_most": limit, "violation": _number(violations[j])}
        for j, limit in enumerate(limits)
    ]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def read_json_rows(path: Path | str) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file."""
    rows = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise FormatError.at(path, f"line {number}", "a JSON object", error.msg) from None
    return rows
