"""Speed-up with the number of workers: the same training tasks on 1, 2, 4 and 8.

    PYTHONPATH=src:. python -m benchmarks.paper.scaling PACK.zip [--workers 1 2 4 8]
        [--executor local|ray] [--tasks 16] [--epochs 10] [--results DIR]

PACK.zip is what `python -m benchmarks.paper pack` makes. Every task trains one network on one
core; the clock starts when all workers have loaded their code. The record says whether every
result was the same, byte for byte, as with the first number of workers. Needs torch, numpy and
scipy only, and for --executor ray also Ray.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.frame import Recorder, parser, print_table
from benchmarks.paper.gpu import without_compiler
from cmpe.execution import executor
from cmpe.execution.base import Executor

WARM_UP = 1.0  # seconds that a worker is kept busy at first, so that all of them start


def train(settings: dict[str, Any], names: list[str], *artifacts: Any) -> Any:
    """One task, on a worker."""
    without_compiler()
    from benchmarks.paper import training

    return training.train(settings, dict(zip(names, artifacts, strict=True)))


def load() -> None:
    """Make a worker load what it will need."""
    without_compiler()
    from benchmarks.paper import training  # noqa: F401

    time.sleep(WARM_UP)


def measure(work: Executor, tasks: list[Any], inputs: dict[str, Any]) -> tuple[float, float, Any]:
    """Seconds to start, seconds of the tasks, and their results by key."""
    begin = time.perf_counter()
    for number in range(work.capacity):
        work.submit(f"load {number}", load)
    for _ in range(work.capacity):
        _checked(work.next())
    started = time.perf_counter()
    shared = {key: work.share(artifact) for key, artifact in inputs.items()}
    for task, settings in tasks:
        read = [shared[key] for key in task.inputs.values()]
        work.submit(task.key, train, settings, list(task.inputs), *read)
    outcomes = [_checked(work.next()) for _ in tasks]
    ended = time.perf_counter()
    work.close()
    return started - begin, ended - started, {o.name: dict(o.result.files) for o in outcomes}


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
    chosen = options.parse_args()
    without_compiler()
    from benchmarks.paper.packing import read_packed

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
            start, seconds, found = measure(work, tasks, inputs)
            first = (seconds, found, workers) if first is None else first
            recorder.add(
                executor=chosen.executor, workers=workers, tasks=len(tasks), start_s=start,
                seconds=seconds, speed_up=first[0] / seconds * first[2],
                identical=found == first[1],
            )  # fmt: skip
            print(recorder.records[-1], flush=True)
        columns = ("executor", "workers", "tasks", "start_s", "seconds", "speed_up", "identical")
        print_table(recorder.records, columns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
