"""Wide problems in torch on a GPU: microseconds a row of local search, messages and split bounds.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.wide_gpu prepare DIR PROBLEM_DIR...   here: rows, a split, CPU bounds
    python benchmarks/wide_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. A record holds the median of five runs of each, how far
the split bounds are from the compiled ones, and in how many rows single moves from the messages'
decoding reach a feasible assignment (counted on the first 200 rows).
"""

from __future__ import annotations

import json
import pickle
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from benchmarks.dual_gpu import without_numba
else:  # run as a file, beside its neighbour
    from dual_gpu import without_numba  # type: ignore[import-not-found,no-redef]

ROWS, CHECKED, REPEATS, STEPS, ROUNDS = 4096, 200, 5, 65, 15


def prepare(out: Path, folders: list[Path]) -> None:
    """Pack each problem with rows, a split, and the CPU's split bounds of the first 200 rows."""
    import cmpe
    from cmpe.bounds import Work
    from cmpe.bounds.descent import minimise
    from cmpe.bounds.splitting import by_size

    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        content = cmpe.read_directory(folder)
        rows = np.concatenate([content.test, content.train])
        rows = rows[np.arange(ROWS) % len(rows)].astype(np.uint8)
        p = content.problem
        plain = cmpe.Problem(p.objective, p.constraints, p.evidence_variables, p.name)
        split = by_size(p.conditioning, Work(time_limit=0.05))
        begin = time.perf_counter()
        bound = minimise(p.given(rows[:CHECKED]), split, Work(steps=STEPS)).upper
        seconds = (time.perf_counter() - begin) / len(bound)
        packed = pickle.dumps((plain, rows, split, bound, seconds))
        (out / f"{p.name}.pkl").write_bytes(packed)


def median_seconds(call: Callable[[], Any]) -> tuple[Any, float]:
    """The last answer and the median time; the first call warms up."""
    seconds = []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        answer = call()  # numpy arrays: nothing is left to wait for
        seconds.append(time.perf_counter() - begin)
    return answer, statistics.median(seconds[1:])


def moved(instances: Any, starts: np.ndarray, device: str) -> np.ndarray:
    """`inference_local.improve` less its last look in float64, which needs numba to be fast."""
    from cmpe.inference_local import walked
    from cmpe.inference_wide import WideTables

    return walked(WideTables(instances, device, "float64"), starts)


def measure(file: Path, device: str) -> dict[str, Any]:
    """One record."""
    from cmpe.inference_messages import max_product, message_bounds
    from cmpe.inference_split import split_bounds

    problem, rows, split, bound, cpu = pickle.loads(file.read_bytes())
    instances = problem.given(rows)
    record: dict[str, Any] = {"model": problem.name, "rows": len(rows), "steps": STEPS}
    record["us_per_row_split_cpu"] = round(1e6 * cpu, 2)
    starts = max_product(instances, rounds=ROUNDS, coloured=True, device=device)
    calls: dict[str, Callable[[], Any]] = {
        "max_product": lambda: max_product(instances, rounds=ROUNDS, coloured=True, device=device),
        "local": lambda: moved(instances, starts, device),
        "messages": lambda: message_bounds(instances, STEPS, coloured=True, device=device),
        "split": lambda: split_bounds(instances, split, STEPS, device=device),
        "split_graphs": lambda: split_bounds(instances, split, STEPS, device=device, graph=True),
    }
    found = {}
    for name, call in calls.items():
        found[name], seconds = median_seconds(call)
        record[f"us_per_row_{name}"] = round(1e6 * seconds / len(rows), 3)
    known = np.isfinite(bound)
    for name in ("split", "split_graphs"):
        away = np.abs(found[name].upper[:CHECKED] - bound)[known]
        record[f"largest_difference_{name}"] = float(away.max(initial=0.0))
    record["feasible_of_200"] = int(problem.is_feasible(found["local"][:CHECKED]).sum())
    return record


def main() -> None:
    mode, first, *rest = sys.argv[1:]
    if mode == "prepare":
        prepare(Path(first), [Path(p) for p in rest])
        return
    import torch

    without_numba()
    header = {"machine": torch.cuda.get_device_name(), "versions": {"torch": torch.__version__}}
    lines = [json.dumps(r) for r in (header, *(measure(Path(p), "cuda") for p in rest))]
    Path(first).write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
