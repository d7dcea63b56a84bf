"""Table: what users call, in two checkouts of this repository, in turns, by CPU time.

    python -m benchmarks.checkouts OLD [PROBLEM ...] [--tasks exact search ...] [--turns 7]

OLD is another checkout; PROBLEM is a problem directory that both can read. The default set is two
of the paper's models (grids where these are absent) with 60 % and 10 % evidence. Each checkout has
a process with one thread that does a task when a line asks for it, on a fresh `Problem`, so that
conditioning and plans are included. Both work in turns, the first of a turn alternating, so that
other work on the machine slows both alike. A first call, which loads compiled code, is not counted.

`old_us` and `new_us` are the least CPU times, microseconds a row (a sample). `ratio` is the median
of the turns' ratios, new by old; `lower` and `upper` are their quartiles. `lost` is the mean number
of nats a row by which NEW's answers or bounds are lower than OLD's. The last lines are the
geometric means of the ratios and the worst cell. The exit code is 1 where a proof or a bound
differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import cmpe
from benchmarks.frame import HERE, Recorder, model_files, parser, print_table

COLUMNS = ("problem", "task", "old_us", "new_us", "ratio", "lower", "upper", "lost")
MODELS = ("Segmentation_14", "Grids_17")
EVIDENCE = (0.6, 0.1)
# Rows that each task takes (samples that it draws); tasks of `NARROW` need narrow problems.
TASKS = {
    "exact": 200, "lagrangian": 200, "local": 200, "search": 16, "front": 2, "best": 20,
    "bound:lagrangian": 100, "bound:splitting": 4, "bound:messages": 4, "bound:minibucket": 4,
    "sampling": 200,
}  # fmt: skip
NARROW = ("exact", "lagrangian", "front", "best", "bound:lagrangian")
HEURISTIC = ("lagrangian", "local", "search", "sampling")
# What each process runs: a task and a problem's number in, CPU seconds and the sum of values out.
SERVER = """
import json, sys, time
import cmpe
problems = [cmpe.read_directory(path) for path in json.loads(sys.argv[1])]
for line in sys.stdin:
    task, number, count = json.loads(line)
    given, rows = problems[number].problem, problems[number].test[:count]
    problem = cmpe.Problem(given.objective, given.constraints, given.evidence_variables)
    kind, _, name = task.partition(":")
    begin = time.process_time()
    if kind == "front":
        values = [h for front in cmpe.front(problem, rows) for h in front.objective]
    elif kind == "best":
        values = [h for ranked in cmpe.best(problem, rows, 100) for h in ranked.objective]
    elif kind == "bound":
        values = cmpe.bound(problem, rows, method=name, work=cmpe.Work(steps=50)).upper
    elif kind == "sampling":
        values = cmpe.sample(given.objective, count, 1, memory_limit=1 << 27).assignments[:, 0]
    else:
        values = cmpe.solve(problem, rows, method=kind).objective
    spent = time.process_time() - begin
    print(json.dumps([spent, float(sum(values))]), flush=True)
"""


class Server:
    """A process that runs one checkout."""

    def __init__(self, checkout: Path, problems: Sequence[Path]) -> None:
        source = {"PYTHONPATH": str(checkout.resolve() / "src"), "OMP_NUM_THREADS": "1"}
        paths = json.dumps([str(path.resolve()) for path in problems])
        self._checkout = checkout
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER, paths],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={**os.environ, **source},
        )

    def ask(self, task: str, problem: int, count: int) -> tuple[float, float]:
        """CPU seconds, and the sum of the values."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([task, problem, count]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._checkout} failed at {task}")
        spent, total = json.loads(line)
        return spent, total

    def stop(self) -> None:
        """No more questions."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def problems_of(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """The given directories, or those of the default set."""
    if paths:
        yield list(paths)
        return
    with tempfile.TemporaryDirectory() as folder, model_files(MODELS) as files:
        made = []
        for file in files:
            for share in EVIDENCE:
                recipe = cmpe.Recipe(evidence_fraction=share, percentile=30, samples=2000)
                found = cmpe.generate(cmpe.read_uai(file), recipe)
                rows = np.unique(found.test, axis=0)
                made.append(Path(folder, f"{file.stem}.{round(100 * share)}"))
                directory = cmpe.ProblemDirectory(found.problem, found.train, rows)
                cmpe.write_directory(directory, made[-1])
        yield made


def is_narrow(path: Path) -> bool:
    """Whether elimination is cheap: at least half of the variables are observed."""
    problem = cmpe.read_directory(path).problem
    return 2 * len(problem.evidence_variables) >= problem.variables


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("old", type=Path)
    options.add_argument("problems", type=Path, nargs="*")
    options.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    options.add_argument("--turns", type=int, default=7)
    chosen = options.parse_args(arguments)
    with problems_of(chosen.problems) as paths, Recorder("checkouts", chosen) as recorder:
        servers = [Server(at, paths) for at in (chosen.old, HERE.parent)]
        for number, path in enumerate(paths):
            for task in chosen.tasks:
                if chosen.problems or task not in NARROW or is_narrow(path):
                    cell = compared(servers, task, number, chosen.turns)
                    recorder.add(problem=path.name, task=task, **cell)
                    print_table(recorder.records[-1:], COLUMNS)
        for server in servers:
            server.stop()
    print()
    print_table(recorder.records, COLUMNS)
    for task in (*chosen.tasks, ""):
        ratios = [r["ratio"] for r in recorder.records if task in ("", r["task"])]
        if ratios:
            print(f"{task or 'all'}: geometric mean {np.exp(np.mean(np.log(ratios))):.3f}")
    worst = max(recorder.records, key=lambda r: float(r["ratio"]))
    print(f"worst: {worst['task']} of {worst['problem']}, {worst['ratio']:.3f}")
    return int(any(r["task"] not in HEURISTIC and not r["same"] for r in recorder.records))


def compared(
    servers: Sequence[Server], task: str, number: int, turns: int
) -> dict[str, float | bool]:
    """One cell of the table."""
    count = TASKS[task]
    seconds = np.zeros((turns, 2))
    totals = [server.ask(task, number, count)[1] for server in servers]
    for turn in range(turns):
        for k in (0, 1) if turn % 2 == 0 else (1, 0):
            seconds[turn, k], totals[k] = servers[k].ask(task, number, count)
    lower, ratio, upper = np.quantile(seconds[:, 1] / seconds[:, 0], [0.25, 0.5, 0.75])
    least = 1e6 * seconds.min(axis=0) / count
    same = bool(np.isclose(totals[0], totals[1], rtol=1e-9))
    return {
        "old_us": least[0], "new_us": least[1], "ratio": ratio, "lower": lower, "upper": upper,
        "lost": (totals[0] - totals[1]) / count, "same": same,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
