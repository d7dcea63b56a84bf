"""Kept labels: certified answers beside the problem they belong to.

A file `labels-KEY.npz` holds the answers of one method to one set of rows; KEY is a hash of the
models, the limits, the rows and the method, so a file is never read for another question.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError, ModelError
from cmpe.formats.text import atomic_writer, read_bytes
from cmpe.models.cutset import CutsetNetwork
from cmpe.models.function import Function
from cmpe.models.loglinear import Floats, LogLinearModel
from cmpe.problem import Assignments, Problem


@dataclass(frozen=True)
class Labels:
    """One answer per row: -1 where none is feasible; the objective, or a bound without answer."""

    assignments: Assignments  # (N, n)
    bound: Floats  # (N,)


def problem_digest(problem: Problem) -> str:
    """A hash of every function, limit and evidence variable of a problem."""
    digest = hashlib.sha256()
    for function in problem.functions:
        digest.update(np.asarray(function.cardinalities, dtype=np.int64).tobytes())
        for array in _arrays(function):
            digest.update(array.tobytes())
        digest.update(b"|")
    digest.update(problem.limits.tobytes())
    digest.update(np.asarray(problem.evidence_variables, dtype=np.int64).tobytes())
    return digest.hexdigest()


def _arrays(function: Function) -> Iterator[NDArray[np.generic]]:
    """All numbers of a function."""
    if isinstance(function, CutsetNetwork):
        yield from (function.contexts, function.log_weights, function.parents, function.log_tables)
    elif isinstance(function, LogLinearModel):
        for factor in function.factors:
            yield np.asarray(factor.scope, dtype=np.int64)
            yield factor.log_table
    else:
        raise ModelError(f"nothing identifies a function of kind {type(function).__name__}")


def rows_digest(evidence: Assignments) -> str:
    """A hash of rows of evidence and of their number."""
    digest = hashlib.sha256(repr(evidence.shape).encode())
    digest.update(np.ascontiguousarray(evidence, dtype=np.int32).tobytes())
    return digest.hexdigest()


def fingerprint(problem: Problem, evidence: Assignments, method: str) -> str:
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
    try:
        with np.load(io.BytesIO(read_bytes(path)), allow_pickle=False) as arrays:
            found = Labels(arrays["assignments"].astype(np.int32), arrays["bound"].astype(float))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile, zlib.error):
        raise FormatError.at(path, "the file", "labels as written by cmpe", "other") from None
    shape = shape or found.assignments.shape
    if found.assignments.shape != shape or found.bound.shape != shape[:1]:
        wrong = f"{found.assignments.shape} and {found.bound.shape}"
        raise FormatError.at(path, "the shapes of the labels", f"{shape} and {shape[:1]}", wrong)
    return found


def write_labels(folder: Path | str, key: str, labels: Labels) -> None:
    """Keep labels, all of them or nothing."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, assignments=labels.assignments, bound=labels.bound)
    with atomic_writer(_file(folder, key)) as stream:
        stream.write(buffer.getvalue())
