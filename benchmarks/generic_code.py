"""Table: what compiled code loses if it is made for a generic processor, as a wheel would hold it.

    python -m benchmarks.generic_code [--turns 5]

Each target is a process of its own with an empty cache: it compiles, then answers the same
questions in turns. `seconds` is the least CPU time of a turn, `ratio` that to the code for this
machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from benchmarks.frame import Recorder, parser, print_table

COLUMNS = ("work", "target", "seconds", "ratio")
HERE = "this machine"
TARGETS = (HERE, "generic", "x86-64-v3")  # the last: processors since about 2015
CALL = """
import json, sys, time
import cmpe
from cmpe.generation import Recipe, generate, grid

def problem(size, share, rows):
    made = generate(grid(size, size, seed=1), Recipe(share, percentile=20, samples=10 * rows))
    return made.problem, made.test

narrow, wide, small = problem(10, 0.4, 300), problem(20, 0.1, 32), problem(6, 0.3, 40)
works = {
    "exact": lambda: cmpe.solve(*narrow, method="exact"),
    "search": lambda: cmpe.solve(*wide, method="search"),
    "local": lambda: cmpe.solve(*wide, method="local"),
    "fronts": lambda: cmpe.front(*small),
    "splitting": lambda: cmpe.bound(*wide, method="splitting", work=cmpe.Work(steps=50)),
}
found = {}
for name, work in works.items():
    work()
    spent = []
    for _ in range(int(sys.argv[1])):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    found[name] = min(spent)
print(json.dumps(found))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--turns", type=int, default=5)
    chosen = options.parse_args(arguments)
    found = {target: _measured(target, chosen.turns) for target in TARGETS}
    with Recorder("generic_code", chosen) as recorder:
        for work, best in found[HERE].items():
            for target in TARGETS:
                seconds = found[target][work]
                recorder.add(
                    work=work, target=target, seconds=round(seconds, 3),
                    ratio=round(seconds / best, 2),
                )  # fmt: skip
    print_table(recorder.records, COLUMNS)
    return 0


def _measured(target: str, turns: int) -> dict[str, float]:
    chosen = {} if target == HERE else {"NUMBA_CPU_NAME": target, "NUMBA_CPU_FEATURES": ""}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CALL, str(turns)], capture_output=True, text=True, check=True,
            env=os.environ | chosen | {"NUMBA_CACHE_DIR": folder},
        )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.exit(main())
