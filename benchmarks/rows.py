"""Table: batches of rows with scores and limits of their own, as `cmpe.solve` answers them.

    python -m benchmarks.rows [--tasks NAME ...] [--limit 30]

Images are Potts grids with one shared smoothness term, noisy scores of each image's own, and each
image's own limit on the area. Chains have 30 labels of ten values with a score for each, at most so
many labels of one kind, as each row says; beside them a Viterbi pass in NumPy over all rows, which
knows no limit. Labels are under a hierarchy (of imclef07a where ../shared/data is), each label
implying its parent, with random scores.

`ours_us` is CPU time of one call for all rows on a new problem, microseconds a row, plan included;
compiled code is loaded before. Others get the first rows one by one, each as a problem of its own
through `cmpe.solve`, with a limit of CPU seconds. Kept in results/rows.jsonl.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cmpe
from benchmarks.competition import cpu_seconds, watched
from benchmarks.frame import HERE, Record, Recorder, parser, print_table
from cmpe.arrays import Floats
from cmpe.problem.rows import Rows

COLUMNS = ("task", "rows", "ours_us", "proved", "binding", "beside", "other_us")
LABELS = HERE.parent.parent / "shared" / "data" / "labels" / "imclef07a_others.npz"
OTHERS = ("milp:highs", "toulbar2")
STRETCH = 60.0  # times the limit, by the wall clock, so that a busy machine does not end a row


@dataclass(frozen=True)
class Task:
    """A problem, and the numbers of its rows."""

    problem: cmpe.Problem
    potentials: Any
    limits: Any = None
    compared: int = 0  # rows that other solvers get
    beside: Callable[[], object] | None = None  # a method for all rows that knows no limit


def images(rng: np.random.Generator, side: int, count: int = 500) -> Task:
    """Blobs under noise; at most 70 to 95 % of the pixels whose own score is above 0."""
    number = np.arange(side * side).reshape(side, side)
    pairs = [*zip(number[:, :-1].flat, number[:, 1:].flat, strict=True)]
    pairs += zip(number[:-1].flat, number[1:].flat, strict=True)
    same = 0.7 * np.eye(2)
    grid = cmpe.LogLinearModel.from_tables(
        [2] * side**2, [((int(a), int(b)), same) for a, b in pairs]
    )
    problem = cmpe.Problem(
        grid, [cmpe.count(dict.fromkeys(range(side**2), 1), name="area") <= side**2]
    )
    at = np.mgrid[:side, :side] / side
    centres = rng.uniform(0.3, 0.7, (count, 2, 1, 1))
    widths = rng.uniform(0.15, 0.35, (count, 2, 1, 1))
    inside = 1 - (((at - centres) / widths) ** 2).sum(axis=1)  # above 0 in an ellipse
    scores = np.clip(2 * inside, -1.5, 1.5) + rng.normal(0, 1, (count, side, side))
    potentials = np.zeros((count, side**2, 2))
    potentials[:, :, 1] = scores.reshape(count, -1)
    area = (potentials[:, :, 1] > 0).sum(axis=1)
    limits = np.floor(rng.uniform(0.7, 0.95, count) * area)
    return Task(problem, potentials, {"area": limits}, compared=5)


def chains(rng: np.random.Generator, count: int = 10_000) -> Task:
    """Sequence labels: at most so many of the first label, fewer than scores alone would give."""
    length, values = 30, 10
    step = rng.normal(size=(values, values))
    chain = cmpe.LogLinearModel.from_tables(
        [values] * length, [((i, i + 1), step) for i in range(length - 1)]
    )
    first = cmpe.count(dict.fromkeys(range(length), 0), name="first")
    problem = cmpe.Problem(chain, [first <= length])
    potentials = rng.normal(size=(count, length, values))
    potentials[:, :, 0] += 1.0
    limits = rng.integers(1, 8, count)
    return Task(problem, potentials, {"first": limits}, beside=lambda: viterbi(step, potentials))


def viterbi(step: Floats, scores: Floats) -> np.ndarray:
    """The best paths of all rows, without a limit."""
    best, back = scores[:, 0], []
    for emission in scores[:, 1:].transpose(1, 0, 2):
        through = best[:, :, np.newaxis] + step
        back.append(through.argmax(axis=1))
        best = np.take_along_axis(through, back[-1][:, np.newaxis], axis=1)[:, 0] + emission
    path = [best.argmax(axis=1)]
    for before in reversed(back):
        path.append(np.take_along_axis(before, path[-1][:, np.newaxis], axis=1)[:, 0])
    return np.stack(path[::-1], axis=1)


def labels(rng: np.random.Generator, count: int = 10_000) -> Task:
    """Each label implies its parent."""
    if LABELS.is_file():
        with np.load(LABELS) as kept:
            edges = [(int(a), int(b)) for a, b in kept["edges"]]
            total = len(kept["names"])
    else:  # a tree of the same size
        total = 96
        edges = [(v, int(rng.integers(0, max(1, v // 3)))) for v in range(8, total)]
    model = cmpe.LogLinearModel((2,) * total, ())
    rules = [cmpe.implies({child: 1}, {parent: 1}) for child, parent in edges]
    potentials = np.zeros((count, total, 2))
    potentials[:, :, 1] = rng.normal(size=(count, total))
    return Task(cmpe.Problem(model, rules), potentials)


TASKS: dict[str, Callable[[np.random.Generator], Task]] = {
    "500 images 24 x 24": lambda rng: images(rng, 24),
    "500 images 64 x 64": lambda rng: images(rng, 64),
    "10,000 chains of 30": chains,
    "10,000 label sets": labels,
}


def measured(name: str, options: argparse.Namespace) -> Record:
    """One line of the table."""
    task = TASKS[name](np.random.default_rng(options.seed))
    few = {"potentials": task.potentials[:2], "limits": _first(task.limits, 2)}
    cmpe.solve(replace_of(task.problem), **few)  # loads compiled code
    new = replace_of(task.problem)
    begin = time.process_time()
    found = cmpe.solve(new, potentials=task.potentials, limits=task.limits)
    seconds = time.process_time() - begin
    binding = None
    if task.limits is not None:
        free = cmpe.Problem(task.problem.objective)
        some = cmpe.solve(free, potentials=task.potentials[:100])
        values = task.problem.constraint_values(some.assignments)[:, 0]
        binding = float((values > next(iter(task.limits.values()))[:100]).mean())
    record: Record = {
        "task": name,
        "rows": len(found),
        "ours_us": 1e6 * seconds / len(found),
        "proved": float(found.proved.mean()),
        "infeasible": float((found.status == cmpe.Status.INFEASIBLE).mean()),
        "binding": binding,
    }
    if task.beside is not None:
        task.beside()
        begin = time.process_time()
        task.beside()
        record |= {
            "beside": "Viterbi, no limit",
            "other_us": 1e6 * (time.process_time() - begin) / len(found),
        }
    others = {method: _other(task, method, found, options) for method in OTHERS if task.compared}
    return record | {"others": others}


def replace_of(problem: cmpe.Problem) -> cmpe.Problem:
    """The same problem without what was kept with it."""
    return problem.made_of(problem.parts)


def _first(limits: Any, count: int) -> Any:
    return None if limits is None else {key: q[:count] for key, q in limits.items()}


def _other(task: Task, method: str, ours: cmpe.Solutions, options: argparse.Namespace) -> Record:
    """CPU seconds a row of another solver, and how far its answers are from ours."""
    rows = Rows.of(task.problem, None, task.potentials, task.limits)
    limits = {"method": method, "limit_s": options.limit, "stretch": STRETCH, "seed": options.seed}
    nothing = np.zeros((1, 0), dtype=int)
    watched(rows.problem_of(0), nothing, {**limits, "limit_s": 1.0})  # starts its process
    seconds, regrets, proved = 0.0, [], 0
    for row in range(task.compared):
        problem = rows.problem_of(row)
        begin = cpu_seconds()
        answer = watched(problem, nothing, limits)
        seconds += cpu_seconds() - begin
        value = answer.objective[0] if answer.feasible[0] else np.nan
        regrets.append(float(ours.objective[row] - value))
        proved += int(answer.status[0] == cmpe.Status.OPTIMAL)
    return {"seconds": seconds / task.compared, "regrets": regrets, "proved": proved}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    options.add_argument("--limit", type=float, default=30.0, help="CPU seconds a row of others")
    chosen = options.parse_args(arguments)
    with Recorder("rows", chosen) as recorder:
        for name in chosen.tasks:
            recorder.add(**measured(name, chosen))
            print_table(recorder.records[-1:], COLUMNS)
            print(recorder.records[-1].get("others"), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
