"""Proofs of wide rows by reduction: how many, how fast.

    python -m benchmarks.wide_reduction [--families NAME ...] [--limit 60]

Every family's 20 test rows: `search` gives a start (its seconds a row are listed), `reduction`
proves it or improves it. The first row pays for the splits that all rows share: `first_s`; the
others take `mean_s` on average and `worst_s` at most. `gained` counts rows whose proved optimum is
above the best value known before (results/wide_references.json).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np

import cmpe
from benchmarks.frame import Record, Recorder, parser, print_table
from benchmarks.wide_families import FAMILIES, family, note, reference
from cmpe.solvers.reduction import Reduction

COLUMNS = ("family", "rows", "proved", "first_s", "mean_s", "worst_s", "search_s", "gained", "gap")


def measure(name: str, limit: float, search: float, seed: int) -> Record:
    """All test rows of one family."""
    known, answers, spent = reference(name), [], []
    for problem, rows in family(name).parts("test"):
        cmpe.solve(problem, rows[:1], method="search", time_limit=search)  # compiles
        start = cmpe.solve(problem, rows, method="search", time_limit=search, seed=seed)
        spent.append(start.seconds)
        running = cmpe.Running(start=start.assignments)
        found = cmpe.solve(
            problem, rows, method=Reduction(), time_limit=limit, seed=seed, running=running
        )
        answers.append(found)
    found = cmpe.Solutions.concatenate(answers)
    return {
        "rows": len(found),
        "proved": int((found.status == cmpe.Status.OPTIMAL).sum()),
        "first_s": found.seconds[0],
        "mean_s": found.seconds[1:].mean(),
        "worst_s": found.seconds[1:].max(),
        "search_s": np.concatenate(spent).mean(),
        "gained": int((found.objective > known.objective + 1e-5).sum()),
        "gap": (found.bound - found.objective).max(),
        "seconds": found.seconds,
        "objective": found.objective,
        "bound": found.bound,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--limit", type=float, default=60.0, help="seconds a row")
    options.add_argument("--search", type=float, default=0.1, help="seconds a row for a start")
    options.add_argument("--keep", action="store_true", help="keep better reference values")
    chosen = options.parse_args(arguments)
    with Recorder("wide_reduction", chosen) as recorder:
        for name in chosen.families:
            record = measure(name, chosen.limit, chosen.search, chosen.seed)
            recorder.add(family=name, **record)
            if chosen.keep:
                how = f"reduction {chosen.limit:g} s"
                note(name, record["objective"], record["bound"], how)
            print_table(recorder.records[-1:], COLUMNS)
    print_table(recorder.records, COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
