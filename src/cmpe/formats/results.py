"""Answers as files: UAI MPE results, and one JSON object a line.

A UAI result is `MPE`, a line with the number of rows, then a line `n z1 ... zn` per row; a row
without an assignment is `0`, and one row that has an assignment needs no number of rows. In JSON
-inf, inf and NaN are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.formats.text import Tokens, lines_of, parse_object, read_text
from cmpe.problem import Problem
from cmpe.solution import Solutions, Status


def format_mpe(assignments: NDArray[np.integer]) -> str:
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
    rows = [_row(tokens, variables) for _ in range(count)]
    tokens.finish()
    return np.array(rows, dtype=np.int32).reshape(count, variables)


def _is_one_row(text: str, variables: int) -> bool:
    """Whether an assignment, not the number of rows, follows MPE: only the line end can tell."""
    lines = lines_of(text.split("MPE", 1)[1])
    words = lines[0][1].split() if lines else []
    return len(words) > 1 and words[0] == str(variables)


def _row(tokens: Tokens, variables: int) -> list[int]:
    length = tokens.whole("the number of values")
    if length == 0:
        return [-1] * variables
    if length != variables:
        raise tokens.error(f"{variables} values, or 0 for no answer", str(length), back=1)
    return tokens.wholes(length, "a value", most=np.iinfo(np.int32).max)


def json_rows(problem: Problem, solutions: Solutions) -> Iterator[str]:
    """One JSON object a row, in order."""
    limits = problem.limits.tolist()
    gap = solutions.gap
    for i in range(len(solutions)):
        row = solutions.assignments[i].tolist()
        yield json_line(
            {
                "index": i,
                "status": Status(int(solutions.status[i])).label,
                "objective": float(solutions.objective[i]),
                "bound": float(solutions.bound[i]),
                "gap": float(gap[i]),
                "feasible": bool(solutions.feasible[i]),
                "constraints": _constraints(limits, solutions, i),
                "assignment": row if min(row, default=0) >= 0 else None,
                "method": str(solutions.method[i]),
                "seconds": float(solutions.seconds[i]),
            }
        )


def _constraints(limits: Sequence[float], solutions: Solutions, i: int) -> list[dict[str, Any]]:
    values, violations = solutions.constraint_values[i], solutions.violations[i]
    return [
        {"value": _number(values[j]), "at_most": limit, "violation": _number(violations[j])}
        for j, limit in enumerate(limits)
    ]


def json_line(values: Mapping[str, Any]) -> str:
    """One JSON object; numbers that JSON does not know are null."""
    return json.dumps({k: _number(v) if isinstance(v, float) else v for k, v in values.items()})


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def read_json_rows(path: Path | str) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file."""
    return [parse_object(path, line, line=number) for number, line in lines_of(read_text(path))]
