"""`cmpe check`: whether the proofs of a certificate hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

FILE = typer.Argument(
    metavar="CERTIFICATE", help="A certificate written by `cmpe solve --certificate`."
)


def check(certificate: Annotated[Path, FILE]) -> int:
    """Verify the proofs of a certificate, or name the first step that fails."""
    from cmpe.certificates.checker import check as verdicts
    from cmpe.formats.text import read_bytes

    read_bytes(certificate)  # refuses what is no file
    good = True
    for row, holds, words in verdicts(certificate):
        good = good and holds
        typer.echo(words if row is None else f"row {row}: {words}")
    return int(not good)
