"""Kept labels: certified answers beside the problem they belong to.

A file `labels-KEY.npz` holds the answers of one method to one set of rows; KEY is a hash of the
models, the limits, the rows and the method, so a file is never read for another question.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Values
from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.network import load_arrays, save_arrays
from cmpe.formats.text import MOST_BYTES
from cmpe.formats.uai import storable
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.ruled import RuledModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Problem

MOST_HEADERS = 1 << 16  # bytes of the descriptions in an archive


@dataclass(frozen=True)
class Labels:
    """One answer per row: -1 where none is feasible; the objective, or a bound without answer."""

    assignments: Values  # (N, n)
    bound: Floats  # (N,)


def models_digest(problem: Problem) -> str:
    """A hash of every function of a problem, whatever its limits and evidence are."""
    return _of_functions(problem).hexdigest()


def _of_functions(problem: Problem) -> hashlib._Hash:
    digest = hashlib.sha256()
    for function in problem.functions:
        digest.update(np.asarray(function.cardinalities, dtype=np.int64).tobytes())
        for array in _arrays(function):
            digest.update(array.tobytes())
        digest.update(b"|")
    return digest


def problem_digest(problem: Problem) -> str:
    """A hash of every function, limit and evidence variable of a problem."""
    digest = _of_functions(problem)
    digest.update(problem.limits.tobytes())
    digest.update(np.asarray(problem.evidence_variables, dtype=np.int64).tobytes())
    if problem.continuous:
        digest.update(b"|" + np.asarray(problem.continuous, dtype=np.int64).tobytes())
    return digest.hexdigest()


@singledispatch
def _arrays(function: Function) -> Iterable[NDArray[np.generic]]:
    """All numbers of a function."""
    raise ModelError(f"there is no hash for a function of kind {type(function).__name__}")


@_arrays.register
def _arrays_of_network(function: CutsetNetwork) -> Iterable[NDArray[np.generic]]:
    return function.contexts, function.log_weights, function.parents, function.log_tables


@_arrays.register
def _arrays_of_model(function: LogLinearModel) -> Iterable[NDArray[np.generic]]:
    """The tables as a `.uai` file gives them back, also those that never lay in one."""
    with contextlib.suppress(InputError):  # a logarithm without a potential lies in no such file
        function = storable(function)
    for factor in function.factors:
        yield np.asarray(factor.scope, dtype=np.int64)
        yield factor.log_table


@_arrays.register
def _arrays_of_ruled(function: RuledModel) -> Iterable[NDArray[np.generic]]:
    yield from _arrays(function.base)
    yield from (np.frombuffer(rule.text.encode(), dtype=np.uint8) for rule in function.rules)


@_arrays.register
def _arrays_of_distance(function: Distance) -> Iterable[NDArray[np.generic]]:
    return *function.columns, np.asarray(function.weights)


@_arrays.register
def _arrays_of_margin(function: ClassMargin) -> Iterable[NDArray[np.generic]]:
    yield from (*function.network.weights, *function.network.biases)
    yield from (np.asarray(scope) for scope in (function.original, function.changed))


@_arrays.register
def _arrays_of_module(function: NeuralFunction) -> Iterable[NDArray[np.generic]]:
    yield np.asarray(function.scope)
    if function.features:
        yield np.asarray(function.features)
    if function.inputs is not None:
        yield function.inputs
    yield from (value.detach().cpu().numpy() for value in function.module.state_dict().values())
    yield np.frombuffer(str(function.module).encode(), dtype=np.uint8)


def rows_digest(evidence: Values) -> str:
    """A hash of rows of evidence and of their number."""
    digest = hashlib.sha256(repr(evidence.shape).encode())
    digest.update(np.ascontiguousarray(evidence).tobytes())
    return digest.hexdigest()


def fingerprint(problem: Problem, evidence: Values, method: str) -> str:
    """The key of the labels of these rows."""
    digest = hashlib.sha256(problem_digest(problem).encode())
    digest.update(rows_digest(evidence).encode())
    digest.update(method.encode())
    return digest.hexdigest()[:16]


def _file(folder: Path | str, key: str) -> Path:
    return Path(folder) / f"labels-{key}.npz"


def read_labels(
    folder: Path | str, key: str, shape: tuple[int, int] | None = None
) -> Labels | None:
    """The kept labels, of `shape` (N, n) if that is known, or None if there are none."""
    path = _file(folder, key)
    if not path.exists():
        return None
    most = MOST_BYTES if shape is None else 8 * math.prod(shape) + 8 * shape[0] + MOST_HEADERS
    arrays = load_arrays(path, most=min(most, MOST_BYTES))
    kept = [arrays.get(name) for name in ("assignments", "bound")]
    kinds = [None if array is None else array.dtype.kind for array in kept]
    if kinds[0] not in ("i", "f") or kinds[1] != "f":
        raise FormatError.at(path, "the file", "labels as written by cmpe", "other")
    found = Labels(_whole(arrays["assignments"]), arrays["bound"].astype(float))
    shape = shape or found.assignments.shape
    if found.assignments.shape != shape or found.bound.shape != shape[:1]:
        wrong = f"{found.assignments.shape} and {found.bound.shape}"
        raise FormatError.at(path, "the shapes of the labels", f"{shape} and {shape[:1]}", wrong)
    return found


def _whole(answers: NDArray[np.generic]) -> Values:
    """int32, or the fractions that they are."""
    return np.asarray(answers) if answers.dtype.kind == "f" else answers.astype(np.int32)


def write_labels(folder: Path | str, key: str, labels: Labels) -> None:
    """Keep labels, all of them or nothing."""
    save_arrays(_file(folder, key), {"assignments": labels.assignments, "bound": labels.bound})
