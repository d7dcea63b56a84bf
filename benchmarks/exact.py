"""Table: method `exact` beside the MILP back-ends and toulbar2, against its targets.

    taskset -c 1 python -m benchmarks.exact [--parts paper,hard] [--rows 20] [--time-limit 10]
    python -m benchmarks.exact --quick

Parts, each of which leaves results/exact_PART.jsonl (with --quick: in another folder):
  paper       the paper's models, 60 % evidence, q at 10, 30 and 80, all test rows
  hard        the same with noise variance 0.001 and q at the 1st percentile
  kinds       several constraints, 3-5 values, tables of three variables
  less        the paper's models with 30 % and 10 % evidence
  growth      grids of growing side

Times are wall-clock, one thread; compiled code and back-ends are loaded before. `mean_us` is one
call on a fresh problem divided by its rows, so conditioning and the plan are in it; equal rows are
answered once, and `each_mean_us` is the same with every row solved on its own. `ready_us` is a call
on a problem that was solved before. The back-ends get distinct rows, those first whose
unconstrained optimum breaks a constraint; `same_mean_us` is `exact` on exactly these, repeated to
a batch, and ratios called "on the same rows" compare with it. A back-end that reaches its time
limit counts with the time it took. Only wrong answers make the exit code 1: an unproved row, where
a proof is the target, or a bound below another method's feasible objective. A `cpu_share` below 1
means that other work held this core meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from benchmarks.exact_kinds import growth, kinds
from benchmarks.exact_measure import QUICK, Settings, warm_up
from benchmarks.exact_paper import HIGHS, SCIP, TOULBAR2, hard, less, paper
from benchmarks.frame import MODELS, Recorder, parser
from benchmarks.targets import Check, run_parts

PARTS: Mapping[str, Callable[[Settings, Recorder], list[Check]]] = {
    "paper": paper,
    "hard": hard,
    "kinds": kinds,
    "less": less,
    "growth": growth,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options().parse_args(arguments)
    settings = _settings(options)
    parts = {part: partial(PARTS[part], settings) for part in options.parts}
    return run_parts("exact", parts, options, settings=asdict(settings))


def _options() -> argparse.ArgumentParser:
    options = parser(__doc__)
    options.add_argument("--parts", type=_parts, default=list(PARTS), help="a list with commas")
    options.add_argument("--models", nargs="+", choices=MODELS, help="of the paper")
    options.add_argument("--rows", type=int, help="at most so many rows a cell for the back-ends")
    options.add_argument("--time-limit", type=float, help="seconds a row")
    options.add_argument("--quick", action="store_true", help="a smoke run of about a minute")
    return options


def _parts(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"a part is one of {', '.join(PARTS)}; found {name!r}")
    return names


def _settings(options: argparse.Namespace) -> Settings:
    """The scale of the run, with what the command line says."""
    settings = replace(QUICK if options.quick else Settings(), seed=options.seed)
    if options.models:
        settings = replace(settings, models=tuple(options.models))
    if options.rows:
        settings = replace(settings, rows=options.rows)
    if options.time_limit:
        settings = replace(settings, limit=options.time_limit)
    return replace(settings, references=tuple(warm_up((HIGHS, SCIP, TOULBAR2))))


if __name__ == "__main__":
    sys.exit(main())
