"""Problem directories: objective.uai, constraint.uai, problem.json, train.npy, test.npy.

problem.json describes itself: format version, name, `at_most`, `evidence_variables`, the
sha256 of every file, and how the problem was generated. With several constraints the files are
constraint.uai, constraint_2.uai, ... and `at_most` is a list.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError, ModelError
from cmpe.formats.evidence import check_rows, read_array
from cmpe.formats.text import atomic_writer, parse_object, read_bytes, write_text, writing
from cmpe.formats.uai import read_uai, write_uai
from cmpe.problem import Constraint, Problem

FORMAT_VERSION = 1
DESCRIPTION = "problem.json"
OBJECTIVE = "objective.uai"
TRAIN, TEST = "train.npy", "test.npy"
LARGEST = sys.float_info.max


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
    """Write every file under a temporary name first: a full disk leaves what was there before."""
    folder = Path(path)
    is_new = not folder.exists()
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".writing.", dir=folder))
    try:
        _write_files(content, scratch)
        with writing(path):
            (folder / DESCRIPTION).unlink(missing_ok=True)  # without it this is no problem yet
            for name in (*_files(content.problem.constraints), DESCRIPTION):
                (scratch / name).replace(folder / name)
    except BaseException:
        shutil.rmtree(folder if is_new else scratch, ignore_errors=True)
        raise
    scratch.rmdir()


def _files(constraints: Sized) -> list[str]:
    return [OBJECTIVE, *map(constraint_file, range(len(constraints))), TRAIN, TEST]


def _write_files(content: ProblemDirectory, folder: Path) -> None:
    problem = content.problem
    write_uai(problem.objective, folder / OBJECTIVE)
    for j, constraint in enumerate(problem.constraints):
        write_uai(constraint.function, folder / constraint_file(j))
    write_array(content.train, folder / TRAIN)
    write_array(content.test, folder / TEST)
    limits = [c.at_most for c in problem.constraints]
    description = {
        "format_version": FORMAT_VERSION,
        "name": problem.name,
        "at_most": limits[0] if len(limits) == 1 else limits,
        "evidence_variables": list(problem.evidence_variables),
        "sha256": {name: _hash(folder / name) for name in _files(limits)},
        **content.provenance,
    }
    write_text(folder / DESCRIPTION, json.dumps(description, indent=1) + "\n")


def read_directory(path: Path | str) -> ProblemDirectory:
    """Read a problem directory; a file that does not match its hash is refused."""
    folder = Path(path)
    description = _description(folder)
    limits = description["at_most"]
    limits = limits if isinstance(limits, list) else [limits]
    files = _files(limits)
    _check_hashes(folder, files, description["sha256"])
    objective, *functions = (read_uai(folder / name) for name in files[:-2])
    try:
        constraints = tuple(map(Constraint, functions, limits))
        observed = description["evidence_variables"]
        problem = Problem(objective, constraints, observed, description["name"])
    except ModelError as error:
        raise FormatError(f"{folder / DESCRIPTION}: {error}") from None
    train, test = (
        check_rows(folder / name, read_array(folder / name), problem, [len(observed)])
        for name in files[-2:]
    )
    extra = {key: value for key, value in description.items() if key not in _FIELDS}
    return ProblemDirectory(problem, train, test, extra)


def _check_hashes(folder: Path, files: Sequence[str], digests: dict[str, str]) -> None:
    for name in files:
        if name in digests and _hash(folder / name) != digests[name]:
            expected = f"{digests[name][:12]}... as in {DESCRIPTION}"
            raise FormatError.at(folder / name, "sha256", expected, "other")


def _description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    description = {"name": folder.name, "sha256": {}, **parse_object(file, read_bytes(file))}
    for name, (check, expected) in _FIELDS.items():
        if name not in description or not check(description[name]):
            found = repr(description.get(name, "nothing"))[:60]
            raise FormatError.at(file, f"field {name!r}", expected, found)
    return description


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and abs(value) <= LARGEST


def _is_limits(value: Any) -> bool:
    return all(map(_is_number, value)) if isinstance(value, list) else _is_number(value)


def _is_index_list(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and v >= 0 for v in value)


def _is_hashes(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(digest, str) for digest in value.values())


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "format_version": (lambda value: value == FORMAT_VERSION, f"{FORMAT_VERSION}"),
    "name": (lambda value: isinstance(value, str), "a string"),
    "at_most": (_is_limits, "a finite number, or a list of them"),
    "evidence_variables": (_is_index_list, "a list of variable numbers"),
    "sha256": (_is_hashes, "an object of file names and digests"),
}


def write_array(rows: NDArray[np.integer], path: Path | str) -> None:
    """Write a `.npy` file, all of it or nothing."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(rows, dtype=np.int32), allow_pickle=False)
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())


def _hash(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
