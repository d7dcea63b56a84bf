"""Table: evaluating 10,000 random assignments, beside the memory-traffic floor.

    python -m benchmarks.evaluation [--rows 10000] [--models Segmentation_12 Grids_17]

The floor is the time to read the assignments and tables and to write the values, at the rate at
which this machine reads as many bytes over and over in the same run: out of its last cache where
they fit. `floors` says how many of those times cmpe takes, `memory_floors` how many at the rate
of a buffer that fits no cache. The yardstick is plain numpy: one fancy index per factor, over
columns laid out for it beforehand. Times are CPU times of one thread.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import cmpe
from benchmarks.frame import (
    MODELS,
    Record,
    Recorder,
    Timing,
    model_files,
    parser,
    print_table,
    race,
)

NO_CACHE = 2**28  # bytes
COLUMNS = (
    "model", "rows", "rows_per_s", "ms", "floor_ms", "floors", "memory_floors", "ns_per_factor",
    "numpy_ms", "times_numpy", "cache_gb_s", "memory_gb_s", "difference",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10_000)
    options.add_argument(
        "--models", nargs="+", choices=MODELS, default=["Segmentation_12", "Grids_17"]
    )
    chosen = options.parse_args(arguments)
    with Recorder("evaluation", chosen) as recorder, model_files(chosen.models) as paths:
        for path in paths:
            _measure(path.stem, cmpe.read_uai(path), chosen.rows, chosen.seed, recorder)
    print_table(recorder.records, COLUMNS)
    return 0


def _measure(
    name: str, model: cmpe.LogLinearModel, count: int, seed: int, recorder: Recorder
) -> None:
    generator = np.random.default_rng(seed)
    rows = generator.integers(0, model.cardinalities, (count, model.variables), dtype=np.int32)
    columns = np.ascontiguousarray(rows.T)
    timings = race(
        {"cmpe": lambda: model.value(rows), "numpy": lambda: _plain_numpy(model, columns)},
        clock=time.process_time,
    )
    difference = np.abs(model.value(rows) - _plain_numpy(model, columns)).max()
    tables = sum(factor.log_table.nbytes for factor in model.factors)
    recorder.add(
        model=name,
        rows=count,
        variables=model.variables,
        factors=len(model.factors),
        ns_per_factor=1e9 * timings["cmpe"].best / (count * len(model.factors)),
        difference=difference,
        **_speeds(timings["cmpe"], timings["numpy"], count),
        **_floors(timings["cmpe"].best, rows.nbytes, rows.nbytes + tables + 8 * count),
    )


def _speeds(ours: Timing, plain: Timing, count: int) -> Record:
    return {
        "rows_per_s": count / ours.best,
        "ms": 1e3 * ours.best,
        "median_ms": 1e3 * ours.median,
        "numpy_ms": 1e3 * plain.best,
        "times_numpy": plain.best / ours.best,
    }


def _floors(seconds: float, size: int, traffic: int) -> Record:
    """How far `seconds` is from moving `traffic` bytes, by cache (`size` bytes) and by memory."""
    cache, memory = _bytes_per_second(size), _bytes_per_second(NO_CACHE)
    return {
        "traffic_bytes": traffic,
        "cache_gb_s": 1e-9 * cache,
        "memory_gb_s": 1e-9 * memory,
        "floor_ms": 1e3 * traffic / cache,
        "floors": seconds * cache / traffic,
        "memory_floors": seconds * memory / traffic,
    }


def _bytes_per_second(size: int) -> float:
    """The best rate at which numpy reads `size` bytes again and again."""
    read = np.ones(size // 8, dtype=np.int64).max
    return size / race({"read": read}, clock=time.process_time)["read"].best


def _plain_numpy(model: cmpe.LogLinearModel, columns: NDArray[np.int32]) -> NDArray[np.float64]:
    total = np.zeros(columns.shape[1])
    for factor in model.factors:
        total += factor.log_table[tuple(columns[v] for v in factor.scope)]
    return total


if __name__ == "__main__":
    sys.exit(main())
