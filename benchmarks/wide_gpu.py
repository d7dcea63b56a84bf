"""Wide problems in torch on a GPU: microseconds a row of local search, messages and split bounds.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.wide_gpu prepare DIR PROBLEM_DIR...   here: rows, a split, CPU bounds
    python benchmarks/wide_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. A record holds the median of five runs of each, how far
the split bounds are from the compiled ones, and in how many rows single moves from the messages'
decoding reach a feasible assignment (counted on the first 200 rows).
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
from cmpe.tensor.settings import TENSOR

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


def moved(instances: Any, starts: np.ndarray, device: str) -> np.ndarray:
    """`tensor.answers.improved` less its last look in float64, which needs numba to be fast."""
    from cmpe.tensor.moves import walked
    from cmpe.tensor.tables import WideTables

    return np.asarray(walked(WideTables(instances, device), starts, TENSOR.moves))


def measure(file: Path, device: str = "cuda") -> Iterator[Record]:
    """One record."""
    from cmpe.bounds import Work
    from cmpe.tensor.max_product import max_product
    from cmpe.tensor.messages import message_bounds
    from cmpe.tensor.split import split_bounds

    problem, rows, split, bound, cpu = pickle.loads(file.read_bytes())
    instances, work = problem.given(rows), Work(steps=STEPS)
    record: Record = {"model": problem.name, "rows": len(rows), "steps": STEPS}
    record["us_per_row_split_cpu"] = round(1e6 * cpu, 2)
    starts = max_product(instances, device)
    calls: dict[str, Callable[[], Any]] = {
        "max_product": lambda: max_product(instances, device),
        "local": lambda: moved(instances, starts, device),
        "messages": lambda: message_bounds(instances, work, device),
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
    record["feasible_of_200"] = int(problem.is_feasible(found["local"][:CHECKED]).sum())
    yield record


if __name__ == "__main__":
    run_modes(prepare, measure)
