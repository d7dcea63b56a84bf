"""Fronts and ranks of many rows, as tasks that processes share and a later run goes on with.

A task is some rows of one model. What it measured is a line of a journal, with the hash of the code
it is of; a task whose line is there is not run again. Times are CPU seconds of one process, after a
first row that is not counted.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import HERE, MODELS, UAI_FILES, Record, answer_each, code_of
from cmpe.formats.debd import read_debd

DATA = HERE.parent.parent / "shared" / "data" / "density"
LEARNED = ("dna", "bbc", "ad", "cwebkb", "c20ng")  # Chow-Liu trees of public binary data sets
NAMES = (*MODELS, *LEARNED)
SECONDS = {"Grids_17": 0.7, "Grids_18": 1.1, "bbc": 1.1, "cwebkb": 0.9, "c20ng": 1.0, "ad": 10.0}
SHORT_SECONDS = 0.07  # about what a front of the other models takes
TASK_SECONDS = 4.0  # of fronts that are one task
SAMPLED = 3  # limits of a task's last front that are solved one by one
RANKS = (1, 10, 100)
SOURCES = ("tradeoffs", "solvers/exact", "elimination")  # what measurements depend on
ROUNDS = 3  # of solves and ranks, in a batch: the least of so many is taken
TICK = 1e-9  # seconds: a clock that stands still while code is loaded may measure none


@dataclass(frozen=True)
class Task:
    """Rows first..end of the distinct rows of a model: their fronts, ranks or answers."""

    kind: str
    model: str
    first: int
    end: int
    rows: int  # of which these are the distinct ones
    limit: float | None  # seconds of one front
    packs: Path | None

    def key(self) -> str:
        """What decides the result, but for the code."""
        facts = asdict(self)
        del facts["packs"]
        return json.dumps(facts, sort_keys=True)


def made(name: str, evidence: float = 0.6) -> cmpe.ProblemDirectory:
    """The problem of a model: q at the 30th percentile."""
    if name in LEARNED:
        train, valid = (read_debd(DATA / f"{name}.{part}.data.gz") for part in ("train", "valid"))
        model = cmpe.learn_chow_liu(train, valid=valid).to_model()
    else:
        model = cmpe.read_uai(UAI_FILES / f"{name}.uai")
    recipe = cmpe.Recipe(samples=10_000, percentile=30, evidence_fraction=evidence)
    found = cmpe.generate(model, recipe)
    return cmpe.ProblemDirectory(found.problem, found.train[:0], found.test)


def pack(folder: Path, names: Iterable[str], rows: int) -> None:
    """Write the problems that tasks read, for a machine without the data."""
    for name in names:
        content = made(name)
        cmpe.write_directory(
            cmpe.ProblemDirectory(content.problem, content.train, content.test[:rows]),
            folder / name,
        )


@cache
def problem_of(model: str, packs: Path | None) -> cmpe.ProblemDirectory:
    """From a pack, else made."""
    return made(model) if packs is None else cmpe.read_directory(packs / model)


@cache
def distinct(model: str, packs: Path | None, count: int) -> tuple[Any, Any]:
    """The distinct ones of the first `count` rows, as they come, and how often each appears."""
    rows, first, often = np.unique(
        problem_of(model, packs).test[:count], axis=0, return_index=True, return_counts=True
    )
    order = np.argsort(first)
    return rows[order], often[order]


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


@cache
def warm(kind: str, model: str, packs: Path | None) -> None:
    """Compile or load what a task needs, and make the plan."""
    problem = problem_of(model, packs).problem
    row = problem_of(model, packs).test[:1]
    answer_each(problem, row, "exact")
    q = problem.limits[0]
    if kind == "fronts":
        cmpe.front(problem, row, between=(q - 1e-3, q))
    if kind == "best":
        cmpe.best(problem, row, 2)


def run(task: Task) -> Record:
    """What a task measured."""
    warm(task.kind, task.model, task.packs)
    rows, often = distinct(task.model, task.packs, task.rows)
    part = slice(task.first, task.end)
    problem = problem_of(task.model, task.packs).problem
    found = KINDS[task.kind](problem, rows[part], task)
    found |= {"often": int(often[part].sum()), "free": len(problem.free)}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"task": task.key(), "code": code_of(SOURCES), **found, "peak_mib": peak}


def _fronts(problem: cmpe.Problem, rows: Any, task: Task) -> Record:
    """Complete fronts, and `exact` at some of the last one's own limits."""
    begin = time.process_time()
    found = cmpe.front(problem, rows, time_limit=task.limit)
    spent = time.process_time() - begin
    limits = np.random.default_rng(task.first).choice(found[-1].values, SAMPLED)
    return {
        "cpu_s": spent,
        "points": [len(f) for f in found],
        "complete": sum(f.complete for f in found),
        "wall_s": max(f.seconds for f in found),
        "q_by_q_s": _one_by_one(problem, rows[-1:], limits.tolist()),
    }


def _one_by_one(problem: cmpe.Problem, row: Any, limits: Sequence[float]) -> float:
    """CPU seconds of one `exact` solve at a limit of the front, its plan not counted."""
    own = problem.constraints[0].function
    total = 0.0
    for q in limits:
        posed = cmpe.Problem(
            problem.objective, [cmpe.Constraint(own, float(q))], problem.evidence_variables
        )
        rows = np.repeat(row, 64, axis=0)
        answer_each(posed, rows[:1], "exact")
        total += cpu(partial(answer_each, posed, rows, "exact")) / 64
    return total / len(limits)


def _solve(problem: cmpe.Problem, rows: Any, task: Task) -> Record:
    """One `exact` solve of every row."""
    return {"cpu_s": _least(partial(cmpe.solve, problem, rows, method="exact")) / len(rows)}


def _least(work: Callable[[], object]) -> float:
    return min(cpu(work) for _ in range(ROUNDS))


def _best(problem: cmpe.Problem, rows: Any, task: Task) -> Record:
    """The k best beside one solve, and the hardest of 50 rows by itself."""
    one = _solve(problem, rows, task)["cpu_s"]
    record: Record = {"model": task.model, "rows": len(rows), "exact_us": 1e6 * one}
    for k in RANKS:
        ranked: list[cmpe.Ranked] = []

        def work(k: int = k, ranked: list[cmpe.Ranked] = ranked) -> None:
            ranked[:] = cmpe.best(problem, rows, k)

        each = _least(work) / len(rows)
        record |= {f"k{k}_ms": 1e3 * each, f"k{k}_times_exact": each / one}
        record |= {f"k{k}_proved": sum(r.complete for r in ranked)}
    alone = [partial(cmpe.best, problem, row[np.newaxis], RANKS[-1]) for row in rows[:50]]
    record["alone_hardest_ms"] = 1e3 * max(map(cpu, alone))
    record["k100_read_times_exact"] = (
        _least(lambda: [r.assignments for r in cmpe.best(problem, rows, RANKS[-1])])
        / len(rows)
        / one
    )
    return record


KINDS: dict[str, Callable[[cmpe.Problem, Any, Task], Record]] = {
    "fronts": _fronts,
    "exact": _solve,
    "best": _best,
}


def tasks(kind: str, options: Namespace) -> Iterator[Task]:
    """All tasks of a kind: every model's first rows before the next, the slowest model first.

    So a run that is stopped has about the same share of every model's rows; but for ad, which takes
    five times as long as all others together and comes last.
    """
    out: list[tuple[bool, float, float, Task]] = []
    for model in options.models:
        count = len(distinct(model, options.packs, options.rows)[0])
        each = SECONDS.get(model, SHORT_SECONDS)
        step = max(1, int(TASK_SECONDS / each)) if kind == "fronts" else count
        limit = options.row_limit if kind == "fronts" else None
        for first in range(0, count, step):
            end = min(count, first + step)
            task = Task(kind, model, first, end, options.rows, limit, options.packs)
            out.append((each > TASK_SECONDS, first / count, -each, task))
    return (line[-1] for line in sorted(out, key=lambda line: line[:3]))


def done(kinds: Sequence[str], options: Namespace) -> list[Record]:
    """Run what the journal lacks, until --stop-after: all records there are then."""
    journal: Path = options.journal / "front_rows.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    known = {r["task"]: r for r in map(json.loads, lines) if r["code"] == code_of(SOURCES)}
    wanted = [task for kind in kinds for task in tasks(kind, options)]
    missing = [task for task in wanted if task.key() not in known]
    with journal.open("a", encoding="utf-8") as file:
        for record in _in_turn(missing, options):
            known[record["task"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    return [known[task.key()] for task in wanted if task.key() in known]


def _in_turn(missing: Sequence[Task], options: Namespace) -> Iterator[Record]:
    """Short calls first, in this process, beside nothing else; then fronts, in several."""
    alone = [t for t in missing if t.kind != "fronts" or options.workers <= 1]
    for task in alone:
        if time.monotonic() >= options.ends:
            return
        yield run(task)
    together = [t for t in missing if t.kind == "fronts" and options.workers > 1]
    for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = "1"
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=fresh) as pool:
        for task in together[:1]:  # one process compiles, the others load
            pool.submit(warm, task.kind, task.model, task.packs).result()
        for each in as_completed([pool.submit(_unless_over, t, options.ends) for t in together]):
            try:
                record = each.result()
            except ModuleNotFoundError as error:  # `exact` went on to a MILP for one of its q
                print(f"a task is left out: {error}", file=sys.stderr, flush=True)
                continue
            if record is not None:
                yield record


def _unless_over(task: Task, ends: float) -> Record | None:
    return None if time.monotonic() >= ends else run(task)


def fronts(options: Namespace) -> Iterator[Record]:
    """Complete fronts, a record a model."""
    records = done(("exact", "fronts"), options)
    facts = [(json.loads(record["task"]), record) for record in records]
    one = {about["model"]: r["cpu_s"] for about, r in facts if about["kind"] == "exact"}
    for model in options.models:
        own = [r for about, r in facts if about["kind"] == "fronts" and about["model"] == model]
        if own and model in one:
            yield {"model": model, **_summary(own, one[model])}


def _summary(own: Sequence[Record], one: float) -> Record:
    points = [count for record in own for count in record["points"]]
    spent = sum(record["cpu_s"] for record in own)
    by_q = sum(record["q_by_q_s"] * sum(record["points"]) for record in own)
    return {
        "free": own[0]["free"],
        "distinct": len(points),
        "rows": sum(record["often"] for record in own),
        "complete": sum(record["complete"] for record in own),
        "points": float(np.mean(points)),
        "most_points": max(points),
        "front_ms": 1e3 * spent / len(points),
        "hardest_wall_ms": 1e3 * max(record["wall_s"] for record in own),
        "us_a_point": 1e6 * spent / max(1, sum(points)),
        "exact_us": 1e6 * one,
        "times_exact": spent / len(points) / max(one, TICK),
        "q_by_q_us": 1e6 * by_q / max(1, sum(points)),
        "share_of_q_by_q": spent / max(by_q, TICK),
        "peak_mib": max(record["peak_mib"] for record in own),
        "code": code_of(SOURCES),
    }


def best(options: Namespace) -> Iterator[Record]:
    """The k best beside one solve, a record a model."""
    for record in done(("best",), options):
        yield {key: value for key, value in record.items() if key not in ("task", "often")}
