"""Runs every benchmark, one after another, each in its own process: `make bench`."""

from __future__ import annotations

import subprocess
import sys

GRIDS = ("--models", "Grids_17", "Grids_18")
RUNS = (
    ("reading",),
    ("evaluation",),
    ("milp",),
    ("milp", "--gibbs", "--rows", "10", *GRIDS),
    ("exact",),
    ("tractable",),
)


def main() -> int:
    failed = 0
    for name, *options in RUNS:
        print("==", name, *options, flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", *options]
        failed += subprocess.run(command).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
