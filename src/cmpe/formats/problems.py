"""Files that hold a whole problem: directories, cost function networks with a bound, models."""

from __future__ import annotations

from pathlib import Path

from cmpe.arguments import file_path
from cmpe.formats.directory import read_directory
from cmpe.formats.registry import FORMATS, format_of, read_model
from cmpe.formats.text import stem_of, suffix_of
from cmpe.problem import Problem

BOUNDED = tuple(suffix for known in FORMATS if known.has_bound for suffix in known.suffixes)


def read_problem(path: Path | str) -> Problem:
    """Read a problem: a directory, a cost function network, or a model without constraints.

    The bound of a `.wcsp` or `.cfn` file is strict: every sum of costs that reaches it is no
    solution. It is a constraint of the problem where sums can reach it.
    """
    file = file_path(path, "read_problem")
    if file.is_dir():
        return read_directory(file).problem
    if has_bound(file):
        return format_of(file).read_costs(file).problem(stem_of(file))
    return Problem(read_model(file), name=stem_of(file))


def has_bound(path: Path | str) -> bool:
    """Whether a file's suffix is one of cost function networks."""
    return suffix_of(path) in BOUNDED
