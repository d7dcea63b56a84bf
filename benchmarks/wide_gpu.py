"""Wide problems in torch on a GPU: microseconds a row of split bounds.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.wide_gpu prepare DIR PROBLEM_DIR...   here: rows, a split, CPU bounds
    python benchmarks/wide_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. A record holds the median of five runs, and how far the
bounds of the first 200 rows are from the compiled ones.
"""

from __future__ import annotations

import pickle
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file: the repository's root is one folder up
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.device_frame import Record, median_seconds, pack_problems, run_modes

ROWS, CHECKED, REPEATS, STEPS = 4096, 200, 5, 65


def prepare(out: Path, folders: list[Path]) -> None:
    """Pack each problem with rows, a split, and the CPU's split bounds of the first 200 rows."""
    from cmpe.bounds import Work
    from cmpe.bounds.descent import minimise
    from cmpe.bounds.splitting import by_size

    def bounds(problem: Any, rows: Any) -> tuple[Any, ...]:
        split = by_size(problem.conditioning, Work(time_limit=0.05))
        begin = time.perf_counter()
        bound = minimise(problem.given(rows[:CHECKED]), split, Work(steps=STEPS)).upper
        return split, bound, (time.perf_counter() - begin) / len(bound)

    pack_problems(out, folders, ROWS, bounds)


def measure(file: Path, device: str = "cuda") -> Iterator[Record]:
    """One record."""
    from cmpe.bounds import Work
    from cmpe.tensor.split import split_bounds

    problem, rows, split, bound, cpu = pickle.loads(file.read_bytes())
    instances, work = problem.given(rows), Work(steps=STEPS)
    record: Record = {"model": problem.name, "rows": len(rows), "steps": STEPS}
    record["us_per_row_split_cpu"] = round(1e6 * cpu, 2)
    calls: dict[str, Callable[[], Any]] = {
        "split": lambda: split_bounds(instances, split, work, device, graph=False),
        "split_graphs": lambda: split_bounds(instances, split, work, device),
    }
    found = {}
    for name, call in calls.items():
        found[name], seconds = median_seconds(call, REPEATS)
        record[f"us_per_row_{name}"] = round(1e6 * seconds / len(rows), 3)
    known = np.isfinite(bound)
    for name in ("split", "split_graphs"):
        away = np.abs(found[name].upper[:CHECKED] - bound)[known]
        record[f"largest_difference_{name}"] = float(away.max(initial=0.0))
    yield record


if __name__ == "__main__":
    run_modes(prepare, measure)
