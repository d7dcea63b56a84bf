"""Table: what each part of the fast compiler brings, for first and for later calls.

    python -m benchmarks.compilers [--without NAME ...]

Every variant is a process of its own with an empty cache and one thread: the fast compiler, it
again without one of its parts, it once more, and numba alone. `cold` are CPU seconds of the first
answers by each task, `warm` are microseconds a row of the quickest of `TURNS` calls, `..._by` both
by those of the first variant; `same`: whether the answers are. The two equal variants show how much
of a difference is noise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.checkouts import problems_of
from benchmarks.frame import HERE, Record, Recorder, parser, print_table

COLUMNS = ("without", "task", "cold", "cold_by", "warm", "warm_by", "same")
TASKS = {"exact": 200, "search": 8}  # rows
TURNS = 7
# How a part of the fast compiler is left out.
PARTS = {
    "inner functions": (
        "was = fast.compiled\n"
        "fast.compiled = lambda function, options, is_inner: was(function, options, is_inner=False)"
    ),
    "no unrolling": (
        "library.Library._optimize_final_module = library.JITCodeLibrary._optimize_final_module"
    ),
    "the collector's rest": "fast.Rest.on_start = fast.Rest.on_end = lambda self, event: None",
    "elements of arrays": "lowering.LeanLower._is_element = lambda self, array, index: False",
    "types found once": "compilers.remembering = lambda context: context",
    "uncounted arguments": "lowering.LeanLower._borrows = lambda self, inst: False",
    "uncounted functions": (
        "was = fast.compiled\n"
        "fast.compiled = lambda function, options, is_inner: was(\n"
        "    function, {k: v for k, v in options.items() if k != '_nrt'}, is_inner=is_inner)"
    ),
    "forced inlining": (
        "was = fast.compiled\n"
        "fast.compiled = lambda function, options, is_inner: was(\n"
        "    function, options | {'forceinline': False}, is_inner=is_inner)"
    ),
}
CALL = """
import json, logging, sys, time
logging.disable()
if sys.argv[1]:
    from cmpe.core.compiler import fast
    from cmpe.core.compiler.fast import compilers, library, lowering
    exec(sys.argv[1])
import cmpe
given, turns, tasks = cmpe.read_directory(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
for task, count in tasks.items():
    seconds = []
    for turn in range(1 + turns):
        old = given.problem
        problem = cmpe.Problem(old.objective, old.constraints, old.evidence_variables)
        begin = time.process_time()
        found = cmpe.solve(problem, given.test[:count], method=task)
        seconds.append(time.process_time() - begin)
    print(json.dumps([task, seconds[0], 1e6 * min(seconds[1:]) / count, found.objective.sum()]))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--without", nargs="+", choices=list(PARTS), default=list(PARTS))
    chosen = options.parse_args(arguments)
    variants = ["nothing", *chosen.without, "nothing, again", "all of it"]
    with problems_of([]) as problems, Recorder("compilers", chosen) as recorder:
        base: dict[str, Record] = {}
        for variant in variants:
            for record in measured(variant, problems[0]):
                first = base.setdefault(str(record["task"]), record)
                record["same"] = bool(np.isclose(record["total"], first["total"], rtol=1e-9))
                by = {f"{k}_by": round(record[k] / first[k], 3) for k in ("cold", "warm")}
                recorder.add(**record, **by)
                print_table(recorder.records[-1:], COLUMNS)
    print()
    print_table(recorder.records, COLUMNS)
    for variant in variants:
        mine = [r for r in recorder.records if r["without"] == variant]
        means = [np.exp(np.mean([np.log(r[k]) for r in mine])) for k in ("cold_by", "warm_by")]
        print(f"without {variant}: cold {means[0]:.2f}, warm {means[1]:.2f} times as long")
    return 0


def measured(variant: str, problem: Path) -> list[Record]:
    """Cold and warm times of one variant."""
    with tempfile.TemporaryDirectory() as folder:
        place = {"NUMBA_CACHE_DIR": folder, "OMP_NUM_THREADS": "1"}
        if variant == "all of it":
            place["CMPE_PLAIN_NUMBA"] = "1"
        call = [sys.executable, "-c", CALL, PARTS.get(variant, ""), str(problem), str(TURNS)]
        out = subprocess.run(
            [*call, json.dumps(TASKS)],
            capture_output=True,
            text=True,
            check=True,
            cwd=HERE.parent,
            env={**os.environ, **place},
        ).stdout
    return [
        {"without": variant, "task": task, "cold": cold, "warm": warm, "total": total}
        for task, cold, warm, total in map(json.loads, out.splitlines())
    ]


if __name__ == "__main__":
    sys.exit(main())
