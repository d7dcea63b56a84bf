"""Runs every benchmark, one after another, each in its own process: `make bench`."""

from __future__ import annotations

import subprocess
import sys

NAMES = ("reading", "evaluation", "milp")


def main() -> int:
    failed = 0
    for name in NAMES:
        print(f"== {name}", flush=True)
        failed += subprocess.run([sys.executable, "-m", f"benchmarks.{name}"]).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
