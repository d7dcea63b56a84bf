"""`study report`: tables, figures and one HTML page from kept results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    results: Annotated[Path, typer.Argument(help="A results directory (with cells.jsonl).")],
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("report.html"),
    assets: Annotated[
        Path | None,
        typer.Option(
            help="Also write every table (csv, md, tex) and figure (svg, png) into this directory."
        ),
    ] = None,
) -> int:
    """Make one self-contained HTML page, with tables and figures, without running anything."""
    from study.reporting.report import write_report

    made = write_report(results, out, assets)
    typer.echo(f"{out}: {made.extent}")
    if assets is not None:
        typer.echo(f"{assets}: the same as files, in tables/ and figures/")
    return 0
