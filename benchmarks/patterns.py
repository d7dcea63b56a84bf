"""Table: 1,000 rows with 300 patterns of missing values, in one batch.

    python -m benchmarks.patterns [--rows 1000] [--patterns 300] [--networks alarm child ...]

Of each network that comes with pgmpy: seconds of `cmpe.solve` for MPE and for MPE under the two
constraints of `benchmarks.real_networks`; `times_charged` is that over the sum of the rows'
`seconds`, at most 2 if they are honest; `apart` is what a plan for each pattern takes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np

import cmpe
from benchmarks.frame import Recorder, parser, print_table
from benchmarks.real_networks import FINDINGS, folder, problems, sampled

NETWORKS = ("child", "alarm", "insurance", "hailfinder", "win95pts")
COLUMNS = ("network", "question", "proved", "seconds", "times_charged", "apart")


def rows_of(model: cmpe.LogLinearModel, count: int, patterns: int, seed: int) -> Any:
    """Rows (count, n), -1 where free, that know half to all of 20 variables, as sampled."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(model.variables, min(FINDINGS, model.variables // 2), replace=False)
    known: set[tuple[int, ...]] = set()
    while len(known) < patterns:
        size = rng.integers(len(chosen) // 2, len(chosen) + 1)
        known.add(tuple(sorted(rng.choice(chosen, size, replace=False).tolist())))
    rows, full = np.full((count, model.variables), -1), sampled(model, count, seed)
    listed = sorted(known)
    for number, row in enumerate(rows):
        seen = list(listed[number % patterns])
        row[seen] = full[number, seen]
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1000)
    options.add_argument("--patterns", type=int, default=300)
    options.add_argument("--networks", nargs="*", default=NETWORKS)
    chosen = options.parse_args(arguments)
    with Recorder("patterns", chosen, data="the BIF files of pgmpy") as recorder:
        for name in chosen.networks:
            model = cmpe.read_model(folder() / f"{name}.bif.gz").to_model()
            rows = rows_of(model, chosen.rows, chosen.patterns, chosen.seed)
            for question, problem in problems(model, chosen.seed).items():
                recorder.add(network=name, question=question, **_measured(problem, rows))
    print_table(recorder.records, COLUMNS)
    return 0


def _measured(problem: cmpe.Problem, rows: Any) -> dict[str, Any]:
    cmpe.solve(problem, rows[:9])  # compiled code is loaded
    begin = time.perf_counter()
    answers = cmpe.solve(problem, rows)
    seconds = time.perf_counter() - begin
    with mock.patch("cmpe.solvers.dispatch.PREPARATION", 0.0):
        begin = time.perf_counter()
        cmpe.solve(problem, rows)
        apart = time.perf_counter() - begin
    return {
        "rows": len(rows),
        "proved": sum(label in ("optimal", "infeasible") for label in answers.labels),
        "seconds": seconds,
        "charged": float(answers.seconds.sum()),
        "times_charged": seconds / float(answers.seconds.sum()),
        "apart": apart,
    }


if __name__ == "__main__":
    sys.exit(main())
