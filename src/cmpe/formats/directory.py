"""Problem directories: objective.uai, constraint.uai, problem.json, train.npy, test.npy.

A function without tables of its own, such as a cutset network or a distance, is an .npz file
instead of a .uai file (see `functions`). problem.json describes itself: format version, name,
`at_most`, `evidence_variables`, the sha256 of every file, and how the problem was generated. With
several constraints the files are constraint.uai, constraint_2.uai, ... and `at_most` is a list.
Variables in [0, 1] are listed in `continuous`; the rows are then float64. `variables` has the
states of each variable by name, where it has names; `mirrored` says which constraints were given as
`>=`, and are kept as -t <= -q; `constraint_names` are their names. `rules` has the rules in words
(see `problem.wording`).
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, singledispatch
from itertools import starmap
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from cmpe.arguments import file_path
from cmpe.arrays import Values
from cmpe.domain import Domain
from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.evidence import check_rows, read_array
from cmpe.formats.functions import read_function, write_function
from cmpe.formats.network import write_arrays
from cmpe.formats.registry import read_model
from cmpe.formats.tables.names import parse_domain
from cmpe.formats.text import atomic_writer, parse_object, read_bytes, write_text, writing
from cmpe.formats.uai import storable, write_uai
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.ruled import RuledModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Constraint, Problem
from cmpe.problem.wording import rule_from_text

FORMAT_VERSION = 1
DESCRIPTION = "problem.json"
OBJECTIVE = "objective"
TABLES, ARRAYS = ".uai", ".npz"
TRAIN, TEST = "train.npy", "test.npy"
LARGEST = sys.float_info.max

F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class ProblemDirectory:
    """The contents of a problem directory."""

    problem: Problem
    train: Values
    test: Values
    provenance: dict[str, Any] = field(default_factory=dict)


def function_names(constraints: int) -> list[str]:
    """The files of the functions, without their suffix."""
    numbers = range(1, constraints + 1)
    return [OBJECTIVE, *("constraint" if n == 1 else f"constraint_{n}" for n in numbers)]


def holds_problem(path: Path | str) -> bool:
    """Whether there is a problem in a directory, or a part of one."""
    folder = Path(path)
    tables = (folder / f"{OBJECTIVE}{suffix}" for suffix in (TABLES, ARRAYS))
    return any(file.exists() for file in (folder / DESCRIPTION, folder / TRAIN, *tables))


def write_directory(content: ProblemDirectory, path: Path | str) -> None:
    """Write a problem directory; old files are replaced only once all new ones are written."""
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
    names = function_names(len(problem.parts.constraints))
    pairs = zip(names, _functions(problem), strict=True)
    return [*(name + _file_format(function).suffix for name, function in pairs), TRAIN, TEST]


def _functions(problem: Problem) -> tuple[Function, ...]:
    """The objective without rules, and the functions of the constraints that are no rules."""
    return (problem.parts.apart()[0], *(c.function for c in problem.parts.constraints))


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
def _file_format_of_ruled(function: RuledModel) -> _FileFormat:
    """Rules lie in the description: what is written is the model without them."""
    return _FileFormat(TABLES, write_uai, lambda ruled: replace(ruled, base=storable(ruled.base)))


@_file_format.register
def _file_format_of_network(function: CutsetNetwork) -> _FileFormat:
    return _FileFormat(ARRAYS, write_arrays, lambda network: network)


@_file_format.register(Distance)
@_file_format.register(ClassMargin)
@_file_format.register(NeuralFunction)
def _file_format_of_arrays(function: Function) -> _FileFormat:
    return _FileFormat(ARRAYS, write_function, lambda function: function)


def as_stored(function: F) -> F:
    """The function as the file of a directory gives it back."""
    stored: F = _file_format(function).stored(function)
    return stored


def _write_files(content: ProblemDirectory, folder: Path) -> None:
    problem = content.problem
    files = _files(problem)
    for name, function in zip(files, _functions(problem), strict=False):
        _file_format(function).write(_renamed(function, Domain(())), folder / name)
    write_array(content.train.astype(problem.dtype), folder / TRAIN)
    write_array(content.test.astype(problem.dtype), folder / TEST)
    limited = problem.parts.constraints
    limits = [c.at_most for c in limited]
    mirrored = [c.mirrored for c in limited]
    names = [c.name for c in limited]
    rules = [rule.text for rule in problem.parts.apart()[1]]
    description = {
        "format_version": FORMAT_VERSION,
        "name": problem.name,
        "at_most": limits[0] if len(limits) == 1 else limits,
        "evidence_variables": list(problem.evidence_variables),
        **({"continuous": list(problem.continuous)} if problem.continuous else {}),
        **({"mirrored": mirrored} if any(mirrored) else {}),
        **({"constraint_names": names} if any(names) else {}),
        **({"rules": rules} if rules else {}),
        **({"variables": problem.domain.to_mapping()} if problem.domain.names else {}),
        "sha256": {name: _hash(folder / name) for name in files},
        **content.provenance,
    }
    write_text(folder / DESCRIPTION, json.dumps(description, indent=1) + "\n")


def read_directory(path: Path | str) -> ProblemDirectory:
    """Read a problem directory; a file that does not match its hash is refused."""
    folder = file_path(path, "read_directory", "directory")
    description = _description(folder)
    limits = description["at_most"]
    limits = limits if isinstance(limits, list) else [limits]
    known = description["sha256"]
    names = function_names(len(limits))
    files = [*(_file_of(folder, name, known) for name in names), TRAIN, TEST]
    _check_hashes(folder, files, known)
    named = partial(_with_domain, folder / DESCRIPTION, description["variables"])
    objective, *functions = (
        named(_READERS[Path(name).suffix](folder / name)) for name in files[:-2]
    )
    try:
        mirrored = description["mirrored"] or [False] * len(limits)
        called = description["constraint_names"] or [""] * len(limits)
        limited = starmap(Constraint, zip(functions, limits, mirrored, strict=True))
        constraints = [c.named(name) for c, name in zip(limited, called, strict=True)]
        observed, continuous = description["evidence_variables"], description["continuous"]
        problem = Problem(objective, constraints, observed, description["name"], continuous)
        if description["rules"]:
            words = description["rules"]
            problem = problem.under([rule_from_text(text, problem.domain) for text in words])
    except (ModelError, ValueError) as error:
        raise FormatError(f"{folder / DESCRIPTION}: {error}") from None
    train, test = (_rows(folder / name, problem) for name in files[-2:])
    extra = {key: value for key, value in description.items() if key not in _FIELDS}
    return ProblemDirectory(problem, train, test, extra)


def _with_domain(file: Path, variables: Any, function: F) -> F:
    """The function with the names that the description has for its variables."""
    if not variables:
        return function
    domain = parse_domain(file, variables)
    if domain.cardinalities != function.cardinalities:
        expected = f"as many states as the functions have: {list(function.cardinalities)}"[:80]
        raise FormatError.at(file, "field 'variables'", expected, "others")
    return _renamed(function, domain)


def _renamed(function: F, domain: Domain) -> F:
    named: Any = function
    renamed: F = replace(named, names=domain.names, states=domain.states)
    return renamed


_READERS: dict[str, Callable[[Path], Function]] = {TABLES: read_model, ARRAYS: read_function}


def _rows(file: Path, problem: Problem) -> Values:
    rows = read_array(file, fractions=bool(problem.continuous))
    return check_rows(file, rows, problem, [len(problem.evidence_variables)])


def _file_of(folder: Path, name: str, known: Container[str]) -> str:
    """Tables, unless the description or the folder says that they are arrays."""
    arrays, tables = name + ARRAYS, name + TABLES
    has_arrays = arrays in known or (not (folder / tables).exists() and (folder / arrays).exists())
    return arrays if has_arrays else tables


def _check_hashes(folder: Path, files: Sequence[str], digests: dict[str, str]) -> None:
    for name in files:
        if name in digests and _hash(folder / name) != digests[name]:
            expected = f"{digests[name][:12]}... as in {DESCRIPTION}"
            raise FormatError.at(folder / name, "sha256", expected, "other")


def _description_bytes(folder: Path) -> bytes:
    try:
        return read_bytes(folder / DESCRIPTION)
    except InputError as error:
        if isinstance(error.__context__, NotADirectoryError):
            found = "a file"
        elif isinstance(error.__context__, FileNotFoundError):
            found = f"no {DESCRIPTION} in it" if folder.is_dir() else "nothing"
        else:
            raise
        raise InputError(f"{folder}: expected a problem directory, found {found}") from None


def _description(folder: Path) -> dict[str, Any]:
    file = folder / DESCRIPTION
    optional = {
        "name": folder.name,
        "sha256": {},
        "continuous": [],
        "mirrored": [],
        "constraint_names": [],
        "rules": [],
        "variables": {},
    }
    description = {**optional, **parse_object(file, _description_bytes(folder))}
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


def _is_flags(value: Any) -> bool:
    return isinstance(value, list) and all(type(flag) is bool for flag in value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_hashes(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(digest, str) for digest in value.values())


_FIELDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "format_version": (lambda value: value == FORMAT_VERSION, f"{FORMAT_VERSION}"),
    "name": (lambda value: isinstance(value, str), "a string"),
    "at_most": (_is_limits, "a finite number, or a list of them"),
    "evidence_variables": (_is_index_list, "a list of variable numbers"),
    "continuous": (_is_index_list, "a list of variable numbers"),
    "mirrored": (_is_flags, "a list of true and false, one for each constraint"),
    "constraint_names": (_is_texts, "a list of texts, one for each constraint"),
    "rules": (_is_texts, "a list of rules in words"),
    "variables": (lambda value: isinstance(value, dict), "an object of names and states"),
    "sha256": (_is_hashes, "an object of file names and digests"),
}


def write_array(rows: Values, path: Path | str) -> None:
    """Write a `.npy` file, all of it or nothing."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(rows), allow_pickle=False)
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())


def _hash(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()
