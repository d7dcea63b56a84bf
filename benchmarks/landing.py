"""README's table: constrained rows beside HiGHS, SCIP and toulbar2, where the limit matters.

    python -m benchmarks.landing [--rows 20] [--limit 5] [--tasks NAME ...] [--into README.md ...]

The constraint *binds* on a row whose unconstrained optimum breaks it; only distinct test rows on
which it binds are solved, because on all others any solver of plain MPE has the answer. Of the
limits that the paper's recipe makes, the tightest (q at 10) is taken where 60 % are seen: there the
constraint binds on most rows. The wide tasks have the limit of their family (q at 30).

Ours is `cmpe.solve` as a user calls it, on all such rows in one call on a new problem, plan
included, and once more with a call for each row (`alone`). The others get the first of these rows
one by one, each with a limit, through `cmpe.solve` as well. All clocks are CPU seconds, so that
other work on the machine does not count. Kept in results/landing.jsonl; `--into` measures nothing
and writes the tables of the pages from what is kept. With `--tasks` the others stay as they are.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import cmpe
from benchmarks.competition import cpu_seconds, watched
from benchmarks.exact_measure import Rows
from benchmarks.frame import HERE, UAI_FILES, Record, Recorder, parser
from benchmarks.wide_families import family
from cmpe.formats.debd import read_debd
from cmpe.formats.text import write_text
from study.paper.readme import markdown, percent, put

KEPT = HERE / "results" / "landing.jsonl"
OTHERS = ("milp:highs", "milp:scip", "toulbar2", "toulbar2:vac", "toulbar2:vns")
LABELS = {
    "milp:highs": "HiGHS",
    "milp:scip": "SCIP",
    "toulbar2": "toulbar2",
    "toulbar2:vac": "toulbar2 (VAC)",
    "toulbar2:vns": "toulbar2 (VNS)",
}
STRETCH = 60.0  # times the limit, by the wall clock, so that a busy machine does not end a row
REACHED = 1e-3  # nats: an answer closer to the optimum than this is the optimum
REPEATS, SHORT = 3, 5.0  # calls of ours, of which the median counts; one where it takes longer
Task = tuple[cmpe.Problem, Rows]


def _paper(model: cmpe.LogLinearModel) -> Task:
    """A problem of the paper's recipe, at its tightest limit, and its test rows."""
    made = cmpe.generate(model, cmpe.Recipe(percentile=10, samples=10_000))
    return made.problem, made.test


def _uai(name: str) -> Callable[[], Task]:
    return lambda: _paper(cmpe.read_uai(UAI_FILES / f"{name}.uai"))


def _words() -> Task:
    files = (UAI_FILES.parent / "density" / f"bbc.{part}.data.gz" for part in ("train", "valid"))
    train, valid = map(read_debd, files)
    return _paper(cmpe.learn_chow_liu(train, valid=valid).to_model())


def _wide(name: str) -> Callable[[], Task]:
    return lambda: family(name).parts("test")[0]


TASKS: dict[str, tuple[str, Callable[[], Task]]] = {
    "Segmentation_14": ("image labels, 60 % seen", _uai("Segmentation_14")),
    "bbc": ("document words, 60 % seen", _words),
    "Grids_17": ("20 x 20 grid, 60 % seen", _uai("Grids_17")),
    "Ising_50": ("50 x 50 Ising, 20 % seen", _wide("Ising_50")),
    "Grids_17_0": ("20 x 20 grid, none seen", _wide("Grids_17_0")),
}


def measured(name: str, options: argparse.Namespace) -> Record:
    """One line of the table."""
    title, make = TASKS[name]
    problem, rows = make()
    plain = cmpe.queries.mpe(problem.objective, problem.evidence_variables)
    binds = ~problem.is_feasible(cmpe.solve(plain, rows).assignments)
    picked = np.unique(rows[binds], axis=0)
    np.random.default_rng(options.seed).shuffle(picked)
    answers, seconds = _ours(problem, picked)
    found = {
        "name": name,
        "task": title,
        "limit": problem.limits,
        "rows": len(rows),
        "binding": float(binds.mean()),
        "solved": len(picked),
        "proved": int((answers.status == cmpe.Status.OPTIMAL).sum()),
        "seconds": seconds,
    }
    few = min(options.rows, len(picked))
    best = answers.take(np.arange(few))
    begin = time.process_time()
    for row in picked[:few]:
        cmpe.solve(problem, row[np.newaxis])
    alone, beside = (time.process_time() - begin) / few, {}
    for method in OTHERS:
        beside[method] = _other(problem, picked[:few], method, best, options)
        print(name, method, beside[method], flush=True)
    return {**found, "alone": alone, "compared": few, "others": beside}


def _ours(problem: cmpe.Problem, rows: Rows) -> tuple[cmpe.Solutions, float]:
    """Answers, and CPU seconds a row."""
    cmpe.solve(replace(problem), rows)  # loads compiled code
    spent: list[float] = []
    while len(spent) < REPEATS:
        new, begin = replace(problem), time.process_time()
        answers = cmpe.solve(new, rows)
        spent.append(time.process_time() - begin)
        if spent[0] > SHORT:
            break
    return answers, float(np.median(spent)) / len(rows)


def _other(
    problem: cmpe.Problem, rows: Rows, method: str, best: cmpe.Solutions, told: argparse.Namespace
) -> Record:
    """CPU seconds a row of another solver, and how far its answers are from the optimum."""
    limits = {"method": method, "limit_s": told.limit, "stretch": STRETCH, "seed": told.seed}
    watched(problem, rows[:1], {**limits, "limit_s": 1.0})  # starts its process
    begin = cpu_seconds()
    answers = [watched(problem, row[np.newaxis], limits) for row in rows]
    seconds = (cpu_seconds() - begin) / len(rows)
    values = np.array([a.objective[0] if a.feasible[0] else np.nan for a in answers])
    regret = best.objective - values
    return {
        "seconds": seconds,
        "regret": float(np.nanmean(regret)) if np.isfinite(regret).any() else None,
        "none": int(np.isnan(values).sum()),
        "proved": sum(int(a.status[0] == cmpe.Status.OPTIMAL) for a in answers),
    }


def read_kept(path: Path = KEPT) -> dict[str, Record]:
    """Records by the name of their task."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {r["name"]: r for r in map(json.loads, lines) if "task" in r}


def tables(kept: Path = KEPT) -> dict[str, str]:
    """Markdown by name, from what is kept."""
    records = list(read_kept(kept).values())
    return {"landing": _landing(records), "landing others": _beside(records)}


def _landing(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        method, best = min(record["others"].items(), key=_rank)
        ours = [record[clock] for clock in ("seconds", "alone")]
        times = (float(f"{best['seconds'] / each:.2g}") for each in ours)
        rows.append([
            record["task"],
            percent(record["binding"]),
            " / ".join(map(time_text, ours)),
            f"{LABELS[method]}, {_reached(best)}",
            " / ".join(f"{each:,g}" for each in times),
        ])  # fmt: skip
    return markdown(["task", "binds", "cmpe", "best alternative", "times faster"], rows)


def _beside(records: Sequence[Record]) -> str:
    rows = []
    for record in records:
        others = record["others"]
        method, best = min((o for o in others.items() if o[0].startswith("toulbar2")), key=_rank)
        rows.append([
            record["task"],
            f"{record['solved']:,} / {record['compared']}",
            *(time_text(record[clock]) for clock in ("seconds", "alone")),
            *(_reached(others[m]) for m in OTHERS[:2]),
            f"{_reached(best)} ({method.partition(':')[2] or 'default'})",
        ])  # fmt: skip
    head = ["task", "rows, ours / others", "cmpe, one call", "cmpe, a call a row", "HiGHS", "SCIP"]
    return markdown([*head, "toulbar2, best of three"], rows)


def _rank(item: tuple[str, Record]) -> tuple[int, float, float]:
    """The nearest to the optimum first, of those that reach it the fastest."""
    found = item[1]
    off = np.inf if found["regret"] is None else max(0.0, found["regret"])
    return found["none"], 0.0 if off < REACHED else off, found["seconds"]


def _reached(found: Record) -> str:
    if found["regret"] is None:
        return f"{time_text(found['seconds'])}, no answer"
    missing = f", {found['none']} without answer" if found["none"] else ""
    off = "" if found["regret"] < REACHED else f", {found['regret']:.2g} nats off"
    return f"{time_text(found['seconds'])}{off}{missing}"


def time_text(seconds: float) -> str:
    """Two digits, in the unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return "0 s"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    options.add_argument("--rows", type=int, default=20, help="rows that the others get")
    options.add_argument("--limit", type=float, default=5.0, help="their CPU seconds a row")
    options.add_argument("--into", type=Path, nargs="+", default=[], help="pages with the marks")
    chosen = options.parse_args(arguments)
    if not chosen.into:
        before = read_kept(chosen.results / KEPT.name)
        with Recorder("landing", chosen) as recorder:
            for name in TASKS:
                if name in chosen.tasks:
                    recorder.add(**measured(name, chosen))
                elif name in before:
                    recorder.add(**before[name])
    for page in chosen.into:
        write_text(page, put(page.read_text(encoding="utf-8"), tables()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
