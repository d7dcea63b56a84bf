"""Table: `exact` of two checkouts of this repository, in turns, by CPU time.

    python -m benchmarks.checkouts OLD PROBLEM [PROBLEM ...] [--turns 15] [--rows 200]

OLD is another checkout; PROBLEM is a problem directory that both can read. Each checkout has a
process with one thread that answers the test rows of a problem when it is asked to, on a fresh
`Problem`, so that conditioning and plan are in it. They are asked in turns, the first of a turn
alternating, so that what else runs on the machine hits both alike. `old_us` and `new_us` are the
least CPU times, microseconds a row; `ratio` is the median of the turns' ratios, new by old, and
`lower`, `upper` their quartiles. The exit code is 1 where the objectives differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.frame import HERE, Recorder, parser, print_table

COLUMNS = ("problem", "old_us", "new_us", "ratio", "lower", "upper", "same")
# What each process runs: a line with a number of a problem in, CPU seconds and objectives out.
SERVER = """
import json, sys, time
from pathlib import Path
import cmpe
from cmpe.formats.directory import read_directory
paths, count = json.loads(sys.argv[1]), int(sys.argv[2])
found = [read_directory(Path(path)) for path in paths]
for line in sys.stdin:
    kept = found[int(line)]
    given, rows = kept.problem, kept.test[:count]
    fresh = cmpe.Problem(given.objective, given.constraints, given.evidence_variables)
    begin = time.process_time()
    answers = cmpe.solve(fresh, rows, method="exact")
    spent = time.process_time() - begin
    print(json.dumps([spent / len(rows), float(answers.objective.sum())]), flush=True)
"""


class Server:
    """A process that runs one checkout."""

    def __init__(self, checkout: Path, problems: Sequence[Path], rows: int) -> None:
        source = {"PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
        paths = json.dumps([str(path.resolve()) for path in problems])
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, paths, str(rows)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={**os.environ, **source},
        )

    def ask(self, problem: int) -> tuple[float, float]:
        """CPU seconds a row, and the sum of the objectives."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{problem}\n")
        self._process.stdin.flush()
        spent, total = json.loads(self._process.stdout.readline())
        return spent, total

    def stop(self) -> None:
        """No more questions."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("old", type=Path)
    options.add_argument("problems", type=Path, nargs="+")
    options.add_argument("--turns", type=int, default=15)
    options.add_argument("--rows", type=int, default=200)
    options.add_argument("--name", default="checkouts", help="of the result file")
    chosen = options.parse_args(arguments)
    servers = [Server(at, chosen.problems, chosen.rows) for at in (chosen.old, HERE.parent)]
    with Recorder(chosen.name, chosen) as recorder:
        for number, path in enumerate(chosen.problems):
            seconds = np.zeros((chosen.turns, 2))
            totals = [server.ask(number)[1] for server in servers]  # loads compiled code
            for turn in range(chosen.turns):
                for k in (0, 1) if turn % 2 == 0 else (1, 0):
                    seconds[turn, k], totals[k] = servers[k].ask(number)
            lower, ratio, upper = np.quantile(seconds[:, 1] / seconds[:, 0], [0.25, 0.5, 0.75])
            least = 1e6 * seconds.min(axis=0)
            same = bool(np.isclose(totals[0], totals[1], rtol=1e-9))
            recorder.add(
                problem=path.name, old_us=least[0], new_us=least[1], ratio=ratio, lower=lower,
                upper=upper, same=same,
            )  # fmt: skip
            print_table(recorder.records[-1:], COLUMNS)
    for server in servers:
        server.stop()
    print()
    print_table(recorder.records, COLUMNS)
    return 0 if all(r["same"] for r in recorder.records) else 1


if __name__ == "__main__":
    sys.exit(main())
