"""Table: mean regret of `search` on wide problems after 1, 10, 100 and 1,000 ms a row.

    python -m benchmarks.wide [--families NAME ...] [--parts search others] [--other-rows 4]

Part `search` answers test rows of every family of `benchmarks.wide_families` in one batch, on one
thread, and holds them against the kept references (the best value known; `to_bound` is the distance
to the lowest bound, for where that is not proved). There are 16 rows, which fill one block: what a
row of any large batch gets. Pool and schedule were chosen on the training rows. Budgets are CPU
seconds of the thread, so that other work on the machine does not count; `used_ms` is what was
used, taking up the rows and the last polish included. Building the pool, once per structure, is
`pool_s`.

Part `others` gives HiGHS, SCIP and toulbar2's three configurations 10 seconds a row on the first
rows of each family, in wide_others.jsonl; their clock is the wall's, and `cpu_share` says for how
much of it they had a core. With --clock cpu they have 10 seconds of CPU, up to eight times that by
the wall clock. A violated answer, or one above a proved bound, makes the exit code 1.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial

import numpy as np

import cmpe
from benchmarks.competition import cpu_seconds, watched
from benchmarks.frame import Record, Recorder, parser, print_table, with_cpu_share
from benchmarks.wide_families import FAMILIES, family, note, reference
from cmpe.solvers.search import BEGINNINGS, search
from cmpe.solvers.search.schedule import Budget

ROWS = 16
MILLISECONDS = (1, 3, 10, 30, 100, 300, 1000)
OTHERS = ("milp:highs", "milp:scip", "toulbar2", "toulbar2:vac", "toulbar2:vns")
STRETCH = 8.0  # times the limit, by the wall clock, where CPU seconds count
TARGETS = {
    "Grids_17_10_q30": {1: 2.0, 10: 0.3, 100: 0.1},
    "Grids_17_10_q80": {1: 2.0, 10: 0.3, 100: 0.1},
    "Grids_17_10_q30_gibbs": {1: 2.0, 10: 0.3, 100: 0.1},
    "Grids_17_10_q80_gibbs": {1: 2.0, 10: 0.3, 100: 0.1},
    "Grids_17_0_gibbs": {1: 8.0, 10: 1.0, 100: 0.5},
    "Grids_17_0": {1: 8.0, 10: 1.0, 100: 0.5},
    "Segmentation_14_0": {1: 0.2, 10: 0.05, 100: 0.0},
    "Ising_50": {10: 0.6, 100: 0.1},
    "Ising_100": {100: 1.0, 1000: 0.1},
}
COLUMNS = (
    "family", "rows", "method", "ms", "used_ms", "regret", "median", "largest", "to_bound",
    "optimal", "violated", "target",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--parts", nargs="+", choices=("search", "others"), default=["search"])
    options.add_argument("--other-rows", type=int, default=4, help="rows that other solvers get")
    options.add_argument("--others", nargs="+", default=list(OTHERS), help="the other solvers")
    options.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="of the others")
    options.add_argument("--limit", type=float, default=10.0, help="their seconds a row")
    options.add_argument("--begin", choices=BEGINNINGS, default=BEGINNINGS[0])
    options.add_argument("--budgets", nargs="+", type=int, default=list(MILLISECONDS))
    chosen = options.parse_args(arguments)
    wrong = 0
    if "search" in chosen.parts:
        with Recorder("wide", chosen) as recorder:
            for name in chosen.families:
                wrong += _searched(name, chosen, recorder)
    if "others" in chosen.parts:
        with Recorder("wide_others", chosen) as recorder:
            for name in chosen.families:
                wrong += _others(name, chosen, recorder)
    return int(wrong > 0)


def _searched(name: str, options: argparse.Namespace, recorder: Recorder) -> int:
    problem, rows = family(name).parts("test")[0]
    rows = rows[:ROWS]
    instances = problem.given(rows)
    begin = time.process_time()
    search(instances, budget=Budget(passes=0))
    ready = time.process_time() - begin
    search(instances, budget=Budget(passes=2))
    already, wrong = len(recorder.records), 0
    found: dict[int, tuple[np.ndarray, float]] = {}
    for ms in options.budgets:
        if ms == 1000 and 1000 not in TARGETS[name]:
            continue
        begin = time.process_time()
        budget = Budget(seconds=ms / 1000, clock=time.thread_time)
        answers = search(instances, budget=budget, begin=options.begin, seed=options.seed)
        found[ms] = answers, (time.process_time() - begin) / len(rows)
    best = np.max([_worth(problem, answers) for answers, _ in found.values()], axis=0)
    known = reference(name)
    note(name, [*best, *known.objective[ROWS:]], known.bound.tolist(), "search")
    for ms, (answers, used) in found.items():
        solutions = cmpe.Solutions.of(problem, answers, method="search", seconds=used)
        record = _record(name, solutions, slice(ROWS))
        wrong += record["violated"] + record["above_bound"]
        recorder.add(**record, ms=ms, target=TARGETS[name].get(ms), pool_s=ready)
    print_table(recorder.records[already:], COLUMNS)
    return wrong


def _worth(problem: cmpe.Problem, answers: np.ndarray) -> np.ndarray:
    return np.where(problem.is_feasible(answers), problem.objective.value(answers), -np.inf)


def _record(name: str, answers: cmpe.Solutions, rows: slice) -> Record:
    known = reference(name)
    regret = known.objective[rows] - np.where(answers.feasible, answers.objective, np.nan)
    gap = known.bound[rows] - np.where(answers.feasible, answers.objective, np.nan)
    some = bool(answers.feasible.any())
    return {
        "family": name,
        "rows": len(answers),
        "method": str(answers.method[0]),
        "used_ms": 1000 * float(answers.seconds.mean()),
        "regret": float(np.nanmean(regret)) if some else None,
        "median": float(np.nanmedian(regret)) if some else None,
        "largest": float(np.nanmax(regret)) if some else None,
        "to_bound": float(np.nanmean(gap)) if some else None,
        "optimal": int((regret < 1e-5).sum()),
        "violated": int((~answers.feasible).sum()),
        "above_bound": int((gap < -1e-5 * np.abs(known.bound[rows])).sum()),
        "regrets": regret,
    }


def _others(name: str, options: argparse.Namespace, recorder: Recorder) -> int:
    problem, rows = family(name).parts("test")[0]
    few = slice(0, options.other_rows)
    already, wrong = len(recorder.records), 0
    for method in options.others:
        try:
            answers, share = _answered(problem, rows[few], method, options)
        except cmpe.CmpeError as error:
            recorder.add(family=name, method=method, outcome=str(error))
            continue
        record = _record(name, answers, few)
        wrong += record["above_bound"]
        proved = int((answers.status == cmpe.Status.OPTIMAL).sum())
        recorder.add(**record, ms=1000 * options.limit, proved=proved, cpu_share=share)
    print_table(recorder.records[already:], (*COLUMNS[:-1], "proved", "cpu_share"))
    return wrong


def _answered(
    problem: cmpe.Problem, rows: np.ndarray, method: str, options: argparse.Namespace
) -> tuple[cmpe.Solutions, float]:
    """What another solver makes of the rows, and for how much of the time it had a core."""
    if options.clock == "wall":
        solve = partial(cmpe.solve, problem, rows, method=method, time_limit=options.limit)
        return with_cpu_share(solve)
    told = {"method": method, "limit_s": options.limit, "stretch": STRETCH, "seed": options.seed}
    found, spent = [], []
    for row in rows:
        begin = cpu_seconds()
        found.append(watched(problem, row[np.newaxis], told))
        spent.append(cpu_seconds() - begin)
    answers = cmpe.Solutions.of(
        problem,
        np.concatenate([answer.assignments for answer in found]),
        bound=np.concatenate([answer.bound for answer in found]),
        method=method,
        seconds=np.array(spent),
    )
    return answers, 1.0


if __name__ == "__main__":
    sys.exit(main())
