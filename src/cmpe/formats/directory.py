"""Problem directories: objective.uai, constraint.uai, problem.json, train.npy, test.npy.

A function that is a cutset network is an .npz file instead of a .uai file (see `network`).
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
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError, ModelError
from cmpe.formats.evidence import check_rows, read_array
from cmpe.formats.network import write_arrays
from cmpe.formats.registry import read_model
from cmpe.formats.text import atomic_writer, parse_object, read_bytes, write_text, writing
from cmpe.formats.uai import storable, write_uai
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Constraint, Problem

FORMAT_VERSION = 1
DESCRIPTION = "problem.json"
OBJECTIVE = "objective"
TABLES, NETWORK = ".uai", ".npz"
TRAIN, TEST = "train.npy", "test.npy"
LARGEST = sys.float_info.max

F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class ProblemDirectory:
    """A problem as it lies on disk."""

    problem: Problem
    train: NDArray[np.integer]
    test: NDArray[np.integer]
    provenance: dict[str, Any] = field(default_factory=dict)


def function_names(constraints: int) -> list[str]:
    """The files of the functions, without their suffix."""
    numbers = range(1, constraints + 1)
    return [OBJECTIVE, *("constraint" if n == 1 else f"constraint_{n}" for n in numbers)]


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
            for name in (*_files(content.problem), DESCRIPTION):
                (scratch / name).replace(folder / name)
    except BaseException:
        shutil.rmtree(folder if is_new else scratch, ignore_errors=True)
        raise
    scratch.rmdir()


def _files(problem: Problem) -> list[str]:
    names = function_names(len(problem.constraints))
    pairs = zip(names, problem.functions, strict=True)
    return [*(name + _file_format(function).suffix for name, function in pairs), TRAIN, TEST]


@dataclass(frozen=True)
class _FileFormat:
    """How functions of one kind lie in a directory."""

    suffix: str
    write: Callable[[Any, Path], object]
    stored: Callable[[Any], Any]  # what reading the file gives back


@singledispatch
def _file_format(function: Function) -> _FileFormat:
    raise ModelError(f"no file format holds a function of kind {type(function).__name__}")


@_file_format.register
def _file_format_of_tables(function: LogLinearModel) -> _FileFormat:
    return _FileFormat(TABLES, write_uai, storable)


@_file_format.register
def _file_format_of_network(function: CutsetNetwork) -> _FileFormat:
    return _FileFormat(NETWORK, write_arrays, lambda network: network)


def as_stored(function: F) -> F:
    """The function as the file of a directory gives it back."""
    stored: F = _file_format(function).stored(function)
    return stored


def _write_files(content: ProblemDirectory, folder: Path) -> None:
    problem = content.problem
    files = _files(problem)
    for name, function in zip(files, problem.functions, strict=False):
        _file_format(function).write(function, folder / name)
    write_array(content.train, folder / TRAIN)
    write_array(content.test, folder / TEST)
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
    limits = description["at_most"]
    limits = limits if isinstance(limits, list) else [limits]
    known = description["sha256"]
    names = function_names(len(limits))
    files = [*(_file_of(folder, name, known) for name in names), TRAIN, TEST]
    _check_hashes(folder, files, known)
    objective, *functions = (read_model(folder / name) for name in files[:-2])
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


def _file_of(folder: Path, name: str, known: Container[str]) -> str:
    """Tables, unless the description or the folder says that it is a network."""
    network, tables = name + NETWORK, name + TABLES
    is_network = network in known or (
        not (folder / tables).exists() and (folder / network).exists()
    )
    return network if is_network else tables


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
