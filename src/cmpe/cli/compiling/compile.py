"""`cmpe compile`: compile everything in advance, on all cores."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from cmpe.errors import InputError


def compile(
    parts: Annotated[
        list[str] | None, typer.Argument(help="The parts to compile; default: all of them.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes at the same time; default: one per core.")
    ] = None,
) -> int:
    """Compile everything in advance, on all cores, so that no later call waits for it."""
    from cmpe.cli.options import progress_bar
    from cmpe.core.compiler import timing
    from cmpe.warming import PARTS, compile_parts

    unknown = sorted(set(parts or ()) - set(PARTS))
    if unknown:
        raise InputError(f"parts are {', '.join(PARTS)}; found {', '.join(unknown)}")
    begin = timing.wall()
    with progress_bar("compiling", "parts") as progress:
        kept = compile_parts(parts or PARTS, workers or os.cpu_count() or 1, progress)
    typer.echo(
        f"{kept.functions} functions compiled, {timing.wall() - begin:.1f} s, "
        f"{kept.megabytes:.1f} MB in {kept.folder}"
    )
    return 0
