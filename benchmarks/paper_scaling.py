"""Speed-up with the number of workers: the same training tasks on 1, 2, 4 and 8.

    PYTHONPATH=src:. python -m benchmarks.paper_scaling PACK.zip [--workers 1 2 4 8]
        [--executor local|ray] [--tasks 16] [--epochs 10] [--cold] [--results DIR]

PACK.zip is what `python -m study paper pack` makes. Every task trains one network on one
core. The clock starts when every worker has trained for an epoch, or with `--cold` when it has
imported the code: the first training of a process then loads what torch and numba load late. The
record says whether every result was the same, byte for byte, as with the first number of workers,
how long a task took where it ran (the first one of a process, and later ones), and which share of
the time the workers were `busy`. OMP_NUM_THREADS and its like hold in the workers as they are set.
Needs torch, numpy and scipy only, and for --executor ray also Ray.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.frame import Recorder, parser, print_table
from cmpe.execution import executor
from cmpe.execution.base import Executor
from study.paper.gpu import without_compiler

WARM_UP = 1.0  # seconds that a worker is kept busy at first, so that all of them start


@dataclass(frozen=True)
class Trained:
    """What a task gave, the seconds that it took where it ran, and in which process."""

    files: dict[str, bytes]
    wall: float
    cpu: float
    process: str


def train(settings: dict[str, Any], names: list[str], *artifacts: Any) -> Trained:
    """One task, on a worker."""
    without_compiler()
    from study.paper import training

    wall, cpu = time.perf_counter(), time.process_time()
    found = training.train(settings, dict(zip(names, artifacts, strict=True)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Trained(dict(found.files), wall, cpu, f"{platform.node()} {os.getpid()}")


def load(settings: dict[str, Any] | None, names: list[str], *artifacts: Any) -> None:
    """Make a worker load what it will need; with settings, by training for an epoch."""
    without_compiler()
    from study.paper import training  # noqa: F401

    begin = time.perf_counter()
    if settings is not None:
        train({**settings, "config": {**settings["config"], "epochs": 1}}, names, *artifacts)
    time.sleep(max(0.0, WARM_UP - (time.perf_counter() - begin)))


def measure(
    work: Executor, tasks: list[Any], inputs: dict[str, Any], *, cold: bool
) -> tuple[float, float, list[Any]]:
    """Seconds to start, seconds of all tasks, and how they ended, in this order."""
    begin = time.perf_counter()
    shared = {key: work.share(artifact) for key, artifact in inputs.items()}
    sent = [(s, list(t.inputs), *[shared[key] for key in t.inputs.values()]) for t, s in tasks]
    for number in range(work.capacity):
        work.submit(f"load {number}", load, *((None, []) if cold else sent[0]))
    for _ in range(work.capacity):
        _checked(work.next())
    started = time.perf_counter()
    for (task, _), arguments in zip(tasks, sent, strict=True):
        work.submit(task.key, train, *arguments)
    outcomes = [_checked(work.next()) for _ in tasks]
    ended = time.perf_counter()
    work.close()
    return started - begin, ended - started, outcomes


def summary(outcomes: list[Any], seconds: float, workers: int) -> dict[str, Any]:
    """How long tasks took where they ran: all, the first of a process, and the others."""
    known: set[str] = set()
    times: dict[bool, list[float]] = {True: [], False: []}
    for ended in (outcome.result for outcome in outcomes):
        times[ended.process not in known].append(ended.wall)
        known.add(ended.process)
    first, later = times[True], times[False]
    return {
        "first_s": statistics.mean(first),
        "later_s": statistics.mean(later) if later else None,
        "longest_s": max(first + later),
        "task_cpu_s": statistics.mean(outcome.result.cpu for outcome in outcomes),
        "busy": sum(first + later) / seconds / workers,
        "processes": len(known),
    }


def _checked(outcome: Any) -> Any:
    if outcome.error is not None:
        raise SystemExit(f"{outcome.error}\n{outcome.trace}")
    return outcome


def main() -> int:
    options = parser(__doc__)
    options.add_argument("pack", type=Path)
    options.add_argument("--workers", nargs="+", type=int, default=(1, 2, 4, 8))
    options.add_argument("--executor", choices=("local", "ray"), default="local")
    options.add_argument("--tasks", type=int, default=16)
    options.add_argument("--epochs", type=int, default=10)
    options.add_argument("--cold", action="store_true", help="workers load code, but train nothing")
    chosen = options.parse_args()
    without_compiler()
    from study.paper.packing import read_packed

    listed, inputs = read_packed(chosen.pack)
    alone = [t for t in listed if t.stage == "train" and "choice" not in t.inputs]
    tasks = [
        (t, {**t.settings, "config": {**t.settings["config"], "epochs": chosen.epochs}})
        for t in alone[: chosen.tasks]
    ]
    with Recorder("paper_scaling", chosen, f"packed tasks of {chosen.pack.stem}") as recorder:
        first: Any = None
        for workers in chosen.workers:
            work = executor(chosen.executor, workers=workers)
            start, seconds, outcomes = measure(work, tasks, inputs, cold=chosen.cold)
            found = {outcome.name: outcome.result.files for outcome in outcomes}
            first = (seconds, found, workers) if first is None else first
            recorder.add(
                executor=chosen.executor, workers=workers, tasks=len(tasks), start_s=start,
                seconds=seconds, speed_up=first[0] / seconds * first[2],
                identical=found == first[1], threads=os.environ.get("OMP_NUM_THREADS"),
                cold=chosen.cold, **summary(outcomes, seconds, workers),
            )  # fmt: skip
            print(recorder.records[-1], flush=True)
        columns = ("threads", "cold", "workers", "seconds", "speed_up", "first_s", "later_s",
                   "longest_s", "busy", "identical")  # fmt: skip
        print_table(recorder.records, columns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
