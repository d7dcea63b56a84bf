"""`cmpe info`: the contents of a model file or a problem directory."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cmpe.inspection import Facts


class InfoFormat(StrEnum):
    """How facts are written."""

    json = "json"
    table = "table"


def info(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A model file or a problem directory.")
    ],
    format: Annotated[
        InfoFormat, typer.Option(help="table: for people; json: for programs.")
    ] = InfoFormat.table,
) -> int:
    """Show counts, sizes, zeros, induced width, and for a directory its rows and limits."""
    facts = _facts(path)
    if format is InfoFormat.json:
        typer.echo(json.dumps(facts))
        return 0
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        text = json.dumps(value) if isinstance(value, dict | list) else str(value)
        typer.echo(f"{name:<{width}}  {text}")
    return 0


def _facts(path: Path) -> Facts:
    from cmpe.formats.directory import read_directory
    from cmpe.formats.registry import read_model
    from cmpe.inspection import describe, describe_directory

    if path.is_dir():
        return describe_directory(read_directory(path))
    return describe(read_model(path))
