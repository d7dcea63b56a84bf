"""The Lagrangian dual in torch on a GPU: microseconds a row for 10,000 rows of each problem.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.dual_gpu prepare DIR PROBLEM_DIR...   here: rows and the bounds of numba
    python benchmarks/dual_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. A record holds the median of seven runs without and
with CUDA graphs, and how far the bounds are from those of the compiled CPU code.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file: the repository's root is one folder up
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.device_frame import Record, median_seconds, pack_problems, run_modes

ROWS, CHECKED = 10_000, 200


def prepare(out: Path, folders: list[Path]) -> None:
    """Pack each problem with 10,000 rows of evidence and the CPU's bounds of the first 200."""
    from cmpe.bounds.lagrangian import lagrangian_dual

    def bounds(problem: Any, rows: Any) -> tuple[Any]:
        return (lagrangian_dual(problem.given(rows[:CHECKED])).bound,)

    pack_problems(out, folders, ROWS, bounds)


def measure(file: Path) -> Iterator[Record]:
    """One record."""
    from cmpe.tensor.dual import minimised

    problem, rows, bound = pickle.loads(file.read_bytes())
    instances = problem.given(rows)
    record: Record = {"model": problem.name, "rows": len(rows)}
    for name, graph in (("eager", False), ("graphs", True)):
        found, seconds = median_seconds(
            lambda g=graph: minimised(instances, "cuda", graph=g),  # type: ignore[misc]
            warm_up=3,
        )
        record[f"us_per_row_{name}"] = round(1e6 * seconds / len(rows), 3)
    record["constrained"] = int((found.multipliers > 0).any(axis=1).sum())
    known = np.isfinite(bound)
    record["largest_difference"] = float(np.abs(found.bound[:CHECKED] - bound)[known].max())
    yield record


if __name__ == "__main__":
    run_modes(prepare, measure)
