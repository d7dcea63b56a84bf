"""`cmpe convert`: models from format to format, and parts of problem directories.

A learned model becomes tables where the format holds nothing else: one function per variable of a
tree; a cutset network is expanded. A directory becomes one problem for toulbar2 (.cfn), or the
test rows' evidence (.evid).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.errors import InputError
from cmpe.formats.cfn import write_cfn
from cmpe.formats.problems import has_bound, read_problem
from cmpe.formats.registry import SUFFIXES, listed, read_model, write_model
from cmpe.formats.text import suffix_of

if TYPE_CHECKING:
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.problem import Problem

PROBLEM, EVIDENCE = ".cfn", ".evid"
TARGETS = (*SUFFIXES, EVIDENCE)


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A model file or a problem directory.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help=f"Its suffix names the format: {listed(TARGETS)}.")
    ],
    row: Annotated[
        int | None,
        typer.Option(min=0, help="For a problem directory: only the evidence of this test row."),
    ] = None,
) -> int:
    """Convert the file IN to the format named by the suffix of OUT."""
    suffix = suffix_of(target)
    if suffix not in TARGETS:
        raise InputError(
            f"{target}: expected a suffix of {listed(TARGETS)}, found {suffix or 'none'!r}"
        )
    if row is not None and not source.is_dir():
        raise InputError(f"--row goes with a problem directory, found {source}")
    if suffix == PROBLEM and source.is_dir():
        _write_problem(source, target, row)
    elif suffix == EVIDENCE:
        _write_evidence(source, target, row)
    elif source.is_dir():
        raise InputError(
            f"{target}: a problem directory holds several models; expected a .cfn or .evid target"
        )
    elif not _is_bounded(source):
        write_model(read_model(source), target)
    elif suffix == PROBLEM:
        write_cfn(read_problem(source), target)
    else:
        raise InputError(
            f"{source}: expected a model without constraints, found a bound on the sum of costs or "
            f"other constraints, which {suffix} files do not hold; convert it to {PROBLEM}"
        )
    return 0


def _is_bounded(source: Path) -> bool:
    """Whether a file has constraints: a bound that sums of costs reach, linear constraints."""
    return has_bound(source) and bool(read_problem(source).constraints)


def _write_problem(source: Path, target: Path, row: int | None) -> None:
    problem, evidence = _problem(source, row)
    write_cfn(problem, target, evidence)


def _problem(source: Path, row: int | None) -> tuple[Problem, dict[int, int] | None]:
    from cmpe.formats.directory import read_directory

    content = read_directory(source)
    if row is None:
        return content.problem.observing(()), None
    return content.problem, _samples(content, row)[0]


def _write_evidence(source: Path, target: Path, row: int | None) -> None:
    from cmpe.formats.directory import read_directory
    from cmpe.formats.evidence import write_evid

    if not source.is_dir():
        raise InputError(f"{target}: evidence is in a problem directory, found {source}")
    write_evid(_samples(read_directory(source), row), target)


def _samples(content: ProblemDirectory, row: int | None) -> list[dict[int, int]]:
    """The test rows, or one of them, as mappings from variable to value."""
    if content.problem.continuous:
        raise InputError("this problem's evidence is in [0, 1]; .cfn and .evid hold whole numbers")
    count = len(content.test)
    if row is not None and row >= count:
        raise InputError(f"--row must be below {count} (the test rows), found {row}")
    chosen = content.test if row is None else content.test[row : row + 1]
    observed = content.problem.evidence_variables
    return [dict(zip(observed, values, strict=True)) for values in chosen.tolist()]
