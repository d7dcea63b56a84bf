"""The Lagrangian dual in torch on a GPU: microseconds a row for 10,000 rows of each problem.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.dual_gpu prepare DIR PROBLEM_DIR...   here: rows and the bounds of numba
    python benchmarks/dual_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. A record holds the median of seven runs without and
with CUDA graphs, and how far the bounds are from those of the compiled CPU code.
"""

from __future__ import annotations

import json
import pickle
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROWS, CHECKED, REPEATS = 10_000, 200, 7


def without_numba() -> None:
    """Stand in for numba where it is missing: torch needs only the plan, which is plain numpy."""
    try:
        import numba  # noqa: F401
    except ImportError:
        stub = types.ModuleType("numba")
        stub.njit = lambda *a, **_: a[0] if a and callable(a[0]) else (lambda f: f)  # type: ignore[attr-defined]
        sys.modules["numba"] = stub


def prepare(out: Path, folders: list[Path]) -> None:
    """Pack each problem with 10,000 rows of evidence and the CPU's bounds of the first 200."""
    import cmpe
    from cmpe.bounds.lagrangian import lagrangian_dual

    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        content = cmpe.read_directory(folder)
        rows = np.concatenate([content.test, content.train])
        rows = rows[np.arange(ROWS) % len(rows)].astype(np.uint8)
        p = content.problem
        plain = cmpe.Problem(p.objective, p.constraints, p.evidence_variables, p.name)
        bound = lagrangian_dual(p.given(rows[:CHECKED])).bound
        (out / f"{p.name}.pkl").write_bytes(pickle.dumps((plain, rows, bound)))


def median_seconds(call: Callable[[], Any]) -> tuple[Any, float]:
    """The last answer and the median time; the first three calls warm up and capture graphs."""
    seconds = []
    for _ in range(3 + REPEATS):
        begin = time.perf_counter()
        answer = call()  # numpy arrays: nothing is left to wait for
        seconds.append(time.perf_counter() - begin)
    return answer, statistics.median(seconds[3:])


def measure(file: Path) -> dict[str, Any]:
    """One record."""
    from cmpe.inference_dual import minimise_dual

    problem, rows, bound = pickle.loads(file.read_bytes())
    record: dict[str, Any] = {"model": problem.name, "rows": len(rows)}
    for name, graph in (("eager", False), ("graphs", True)):
        found, seconds = median_seconds(
            lambda g=graph: minimise_dual(problem, rows, "cuda", "float64", g)  # type: ignore[misc]
        )
        record[f"us_per_row_{name}"] = round(1e6 * seconds / len(rows), 3)
    record["constrained"] = int((found.kind == 3).sum())
    known = np.isfinite(bound)
    record["largest_difference"] = float(np.abs(found.upper[:CHECKED] - bound)[known].max())
    return record


def main() -> None:
    mode, first, *rest = sys.argv[1:]
    if mode == "prepare":
        prepare(Path(first), [Path(p) for p in rest])
        return
    import torch

    without_numba()
    header = {"machine": torch.cuda.get_device_name(), "versions": {"torch": torch.__version__}}
    lines = [json.dumps(r) for r in (header, *(measure(Path(p)) for p in rest))]
    Path(first).write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
