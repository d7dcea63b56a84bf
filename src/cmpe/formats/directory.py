"""Problem directories: objective.uai, constraint.uai, problem.json, train.npy, test.npy.

problem.json describes itself: format version, name, `at_most`, `evidence_variables`, the
sha256 of every file, and how the problem was generated. With several constraints the files are
constraint.uai, constraint_2.uai, ... and `at_most` is a list.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import CmpeError, FormatError, InputError
from cmpe.formats.evidence import read_array
from cmpe.formats.text import atomic_writer, read_bytes, write_text
from cmpe.formats.uai import read_uai, write_uai
from cmpe.problem import Constraint, Problem

FORMAT_VERSION = 1
DESCRIPTION = "problem.json"
OBJECTIVE = "objective.uai"


@dataclass(frozen=True)
class ProblemDirectory:
    """A problem as it lies on disk."""

    problem: Problem
    train: NDArray[np.integer]
    test: NDArray[np.integer]
    provenance: dict[str, Any] = field(default_factory=dict)


def constraint_file(number: int) -> str:
    """The file of constraint `number`, counted from 0."""
    return "constraint.uai" if number == 0 else f"constraint_{number + 1}.uai"


def write_directory(content: ProblemDirectory, path: Path | str) -> None:
    """Write every file, problem.json last: a directory without it is not a problem yet."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / DESCRIPTION).unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    problem = content.problem
    write_uai(problem.objective, folder / OBJECTIVE)
    files = [OBJECTIVE]
    for j, constraint in enumerate(problem.constraints):
        write_uai(constraint.function, folder / constraint_file(j))
        files.append(constraint_file(j))
    for name, rows in (("train.npy", content.train), ("test.npy", content.test)):
        write_array(rows, folder / name)
        files.append(name)
    limits = [c.at_most for c in problem.constraints]
    description = {
        "format_version": FORMAT_VERSION,
        "name": problem.name,
        "at_most": limits[0] if len(limits) == 1 else limits,
        "evidence_variables": list(problem.evidence_variables),
        "sha256": {name: _hash(folder / name) for name in files},
        **content.provenance,
    }
    write_text(folder / DESCRIPTION, json.dumps(description, indent=1) + "\n")


def read_directory(path: Path | str) -> ProblemDirectory:
    """Read a problem directory; a file that does not match its hash is refused."""
    folder = Path(path)
    description = _description(folder)
    for name, digest in description["sha256"].items():
        if _hash(folder / name) != digest:
            raise FormatError.at(
                folder / name, "sha256", f"{digest[:12]}... as in {DESCRIPTION}", "other"
            )
    limits = description["at_most"]
    limits = limits if isinstance(limits, list) else [limits]
    constraints = tuple(
        Constraint(read_uai(folder / constraint_file(j)), q) for j, q in enumerate(limits)
    )
    observed = tuple(description["evidence_variables"])
    try:
        problem = Problem(read_uai(folder / OBJECTIVE), constraints, observed, description["name"])
    except FormatError:
        raise
    except CmpeError as error:
        raise FormatError(f"{folder / DESCRIPTION}: {error}") from None
    train, test = (_rows(folder / name, problem) for name in ("train.npy", "test.npy"))
    known = ("format_version", "name", "at_most", "evidence_variables", "sha256")
    return ProblemDirectory(
        problem, train, test, {k: v for k, v in description.items() if k not in known}
    )


def _description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    try:
        description = json.loads(read_bytes(file))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{file}: expected JSON, found: {error}") from None
    if not isinstance(description, dict):
        raise FormatError.at(file, "top level", "an object", type(description).__name__)
    for name, check in _FIELDS.items():
        if name not in description or not check(description[name]):
            found = repr(description.get(name, "nothing"))[:60]
            raise FormatError.at(file, f"field {name!r}", _EXPECTED[name], found)
    description.setdefault("name", folder.name)
    description.setdefault("sha256", {})
    return description


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_index_list(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and v >= 0 for v in value)


_FIELDS = {
    "format_version": lambda value: value == FORMAT_VERSION,
    "at_most": lambda value: (
        _is_number(value) or (isinstance(value, list) and all(map(_is_number, value)))
    ),
    "evidence_variables": _is_index_list,
}
_EXPECTED = {
    "format_version": f"{FORMAT_VERSION}",
    "at_most": "a finite number, or a list of them",
    "evidence_variables": "a list of variable numbers",
}


def _rows(path: Path, problem: Problem) -> NDArray[np.int64]:
    rows = read_array(path)
    try:
        problem.given(rows)
    except InputError as error:
        raise FormatError(f"{path}: {error}") from None
    return rows


def write_array(rows: NDArray[np.integer], path: Path | str) -> None:
    """Write a `.npy` file, all of it or nothing."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(rows, dtype=np.int32), allow_pickle=False)
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())


def _hash(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
