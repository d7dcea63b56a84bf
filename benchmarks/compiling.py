"""Table: what a first use compiles, with an empty cache, and what loading it takes afterwards.

    python -m benchmarks.compiling [--parts exact auto search]

Each part, and `auto`, is run twice in processes of their own that share a cache of their own:
first empty, then full. `seconds` are CPU seconds of the call, without importing Python modules
(torch among them, which training imports);
`functions` are those of this package that were compiled, inner ones included. CPU seconds are
longer where other work shares the core: `loop` is the median of what a fixed loop
in Python took meanwhile, in CPU milliseconds, so that two runs can be compared.
`cmpe.core.compiler.costs` holds what this prints, rounded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.frame import Recorder, parser, print_table
from cmpe.warming import PARTS

COLUMNS = ("part", "functions", "seconds", "loop", "wall", "loading", "megabytes")
CALL = """
import contextlib, json, statistics, sys, threading, time
import numpy as np
from cmpe import warming
from cmpe.core.compiler import notices
import cmpe.core.compiler.functions
import cmpe.solvers.dispatch
warming.kernels()
with contextlib.suppress(ImportError):
    import torch
parts = sys.argv[1].split(",")
count, loops, over = [], [], threading.Event()
def loop():
    while not over.wait(1.0):
        begun, found = time.thread_time(), {}
        for i in range(150000):
            found[i % 997] = str(i)
        loops.append(time.thread_time() - begun)
meanwhile = threading.Thread(target=loop, daemon=True)
meanwhile.start()
with notices.telling(lambda n: None if n.is_over else count.append(n.function)):
    cpu, wall = time.process_time(), time.perf_counter()
    for part in parts:
        warming.PARTS[part]() if part in warming.PARTS else warming.solve_small(part)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
over.set()
meanwhile.join()
print(json.dumps([len(count), cpu - sum(loops), wall, statistics.median(loops or [0.0])]))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", default=["auto", *PARTS, "all"])
    chosen = options.parse_args(arguments)
    with Recorder("compiling", chosen) as recorder:
        for part in chosen.parts:
            recorder.add(**_measured(part))
    print_table(recorder.records, COLUMNS)
    return 0


def _measured(part: str) -> dict[str, object]:
    parts = ",".join(PARTS) if part == "all" else part
    with tempfile.TemporaryDirectory() as folder:
        functions, seconds, wall, loop = _called(parts, folder)
        loading = _called(parts, folder)[1]
        size = sum(f.stat().st_size for f in Path(folder).rglob("*.nb*")) / 1e6
    return {
        "part": part, "functions": functions, "seconds": round(seconds, 1),
        "loop": round(1e3 * loop, 1), "wall": round(wall, 1),
        "loading": round(loading, 2), "megabytes": round(size, 1),
    }  # fmt: skip


def _called(parts: str, folder: str) -> tuple[int, float, float, float]:
    environment = os.environ | {"NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CALL, parts], env=environment, stdout=subprocess.PIPE, check=True
    )
    functions, seconds, wall, loop = json.loads(done.stdout)
    return functions, seconds, wall, loop


if __name__ == "__main__":
    sys.exit(main())
