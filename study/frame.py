"""What the study and the benchmarks share: the machine, versions, and a printed table."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "cmpe", "numpy", "numba", "scipy", "highspy", "pyscipopt", "gurobipy", "pytoulbar2", "pgmpy",
    "pyagrum",
)  # fmt: skip

Record = dict[str, Any]


def print_table(records: Sequence[Record], columns: Sequence[str]) -> None:
    """Print the chosen fields of `records`, one line each; a missing field is left empty."""
    cells = [[_shown(record.get(column, "")) for column in columns] for record in records]
    lines = [list(columns), *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        padded = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(padded), flush=True)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def cpu_model() -> str:
    """The processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def versions() -> Record:
    """Of Python, the package and what it calls; None where a package is absent."""
    found: Record = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found
