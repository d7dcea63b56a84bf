"""`cmpe convert`: models to .uai or .LG, compressed or not; problems to toulbar2's .cfn.

A learned model becomes tables: one function per variable of a tree; a cutset network is expanded.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cmpe.errors import InputError

if TYPE_CHECKING:
    from cmpe.models.loglinear import LogLinearModel
    from cmpe.problem import Problem

MODELS = (".uai", ".LG")


def convert(
    source: Annotated[
        Path, typer.Argument(metavar="IN", help="A model file or a problem directory.")
    ],
    target: Annotated[
        Path, typer.Argument(metavar="OUT", help="Ends in .uai, .LG or .cfn (+ .gz, .xz, .bz2).")
    ],
    row: Annotated[
        int | None, typer.Option(min=0, help="For a directory: fix this test row's evidence.")
    ] = None,
) -> int:
    """Write IN in the format that OUT's suffix names."""
    from cmpe.formats.cfn import write_cfn
    from cmpe.formats.text import suffix_of
    from cmpe.formats.uai import write_uai

    suffix = suffix_of(target)
    if suffix not in (*MODELS, ".cfn"):
        raise InputError(
            f"{target}: expected a suffix of .uai, .LG or .cfn, found {suffix or 'none'!r}"
        )
    if source.is_dir() and suffix in MODELS:
        raise InputError(
            f"{target}: a problem directory holds several models; expected a .cfn target"
        )
    if row is not None and not source.is_dir():
        raise InputError(f"--row goes with a problem directory, found {source}")
    if suffix == ".cfn":
        problem, evidence = _problem(source, row)
        write_cfn(problem, target, evidence)
    else:
        write_uai(_tables(source), target)
    return 0


def _tables(source: Path) -> LogLinearModel:
    from cmpe.cli.options import read_function

    return read_function(source).to_model()


def _problem(source: Path, row: int | None) -> tuple[Problem, dict[int, int] | None]:
    from cmpe.formats.directory import read_directory
    from cmpe.formats.text import stem_of
    from cmpe.problem import Problem

    if not source.is_dir():
        return Problem(_tables(source), name=stem_of(source)), None
    content = read_directory(source)
    if row is None:
        return content.problem.observing(()), None
    if row >= len(content.test):
        raise InputError(f"--row must be below {len(content.test)} (the test rows), found {row}")
    observed = content.problem.evidence_variables
    return content.problem, dict(zip(observed, content.test[row].tolist(), strict=True))
