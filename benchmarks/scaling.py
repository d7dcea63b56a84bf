"""Speed-up of `solve` with the number of processes, and whether the machine or we hold it back.

    python -m benchmarks.scaling [--workers 1 2 4 8 16] [--executor local ray]
        [--methods exact search milp] [--seconds 8] [--results DIR]

The same blocks of rows are answered through `execution.blocks.map_blocks`, as `cmpe solve` does it
with a folder of parts, by 1, 2, 4, ... processes: `exact` on a narrow problem (a grid of 15 x 15,
60 % observed), `search` on a wide one (20 x 20, 10 % observed) and `milp` on a small one (8 x 8,
30 % observed), each an amount of work that no clock cuts short. Every record has the wall-clock
time of all blocks, and the CPU and wall-clock time that a block took where it ran.

Two probes run on the same number of processes. `compute` adds numbers in a loop and needs no
memory: where it slows down, cores are shared or their clock falls. `memory` copies arrays larger
than any cache: where it alone slows down, the memory bus is shared. What slows `solve` down beyond
both is ours.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import Record, Recorder, parser, print_table
from cmpe.execution import executor
from cmpe.execution.base import Executor
from cmpe.execution.blocks import map_blocks
from cmpe.generation import Recipe, generate, grid
from cmpe.solvers.dispatch import solve

BLOCKS = 32  # of work: twice as many as the most processes
READY = 1.0  # seconds that a process is kept busy at first, so that all of them start
COPIED = 1 << 25  # numbers: 256 MiB
ADDED = 4_000_000
ARRAYS: list[Any] = []  # of the process that probes its memory
# Side of the grid, share observed, rows that a block may have.
PROBLEMS = {"exact": (15, 0.6, 20000), "search": (20, 0.1, 256), "milp": (8, 0.3, 2048)}
COLUMNS = ("executor", "work", "workers", "start_s", "wall_s", "speed_up", "efficiency",
           "block_wall_s", "block_cpu_s", "identical")  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """What a block took where it ran."""

    wall: float
    cpu: float
    found: str  # a hash of its answers


@dataclass(frozen=True)
class SolveBlock:
    """Answers rows, which lie in the job: a block is two numbers."""

    problem: cmpe.Problem
    rows: Any
    method: str
    times: int = 1  # that the rows of a block are answered

    def __call__(self, first: int, last: int) -> Timed:
        """Answer rows from `first` to `last`."""
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(self.times):
            answers = solve(self.problem, self.rows[first:last], method=self.method)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return Timed(wall, cpu, hashlib.sha256(answers.assignments.tobytes()).hexdigest()[:16])


def compute(first: int, last: int) -> Timed:
    """Add numbers in a loop."""
    wall, cpu = time.perf_counter(), time.process_time()
    total = 0
    for number in range(ADDED):
        total += number
    return Timed(time.perf_counter() - wall, time.process_time() - cpu, str(total))


def memory(first: int, last: int) -> Timed:
    """Copy an array that no cache holds, a few times."""
    if not ARRAYS:
        ARRAYS.extend((np.full(COPIED, 1.0), np.full(COPIED, 2.0)))  # touched: pages are there
    source, target = ARRAYS
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(4):
        target[:] = source
    return Timed(time.perf_counter() - wall, time.process_time() - cpu, str(target[-1]))


def ready(job: Callable[..., Timed], number: int) -> Timed:
    """Make a process load what it needs, and keep it busy until the others are there."""
    begin = time.perf_counter()
    found = job(0, 1)
    time.sleep(max(0.0, READY - (time.perf_counter() - begin)))
    return found


@dataclass(frozen=True)
class Ready:
    """`ready` as a job."""

    job: Callable[..., Timed]

    def __call__(self, number: int) -> Timed:
        """Run the job once, whatever the number."""
        return ready(self.job, number)


def problem_for(method: str, seed: int) -> tuple[cmpe.Problem, Any]:
    side, observed, rows = PROBLEMS[method]
    recipe = Recipe(samples=2 * rows, seed=seed, evidence_fraction=observed, percentile=50,
                    time_limit=20.0)  # fmt: skip
    made = generate(grid(side, side, seed=seed), recipe)
    distinct = np.unique(np.concatenate([made.train, made.test]), axis=0)
    return made.problem, np.random.default_rng(seed).permutation(distinct)[:rows]


def sized(job: SolveBlock, seconds: float) -> tuple[SolveBlock, int]:
    """The job, and rows of a block, of which all together take about so long on one process."""
    some = min(len(job.rows) // BLOCKS, 4 if job.method != "exact" else 4096)
    job(0, some)  # compiles, plans
    each = max(job(0, some).cpu, 1e-4) / some
    wanted = seconds / BLOCKS / each
    rows = max(1, min(len(job.rows) // BLOCKS, int(wanted)))
    return replace(job, times=max(1, round(wanted / rows))), rows


def answer(
    work: Executor, job: Callable[..., Timed], size: int
) -> tuple[float, float, list[Timed]]:
    """Seconds until all processes are there, seconds of all blocks, and what each took."""
    begin = time.perf_counter()
    warm = ((k, (k,)) for k in range(work.capacity))
    for _ in map_blocks(work, Ready(job), warm):
        pass
    started = time.perf_counter()
    blocks = ((k, (k * size, (k + 1) * size)) for k in range(BLOCKS))
    found = dict(map_blocks(work, job, blocks))
    ended = time.perf_counter()
    return started - begin, ended - started, [found[k] for k in range(BLOCKS)]


def measure(
    recorder: Recorder, name: str, job: Callable[..., Timed], size: int, chosen: Any
) -> None:
    for kind in chosen.executor:
        first: tuple[float, list[str]] | None = None
        for workers in chosen.workers:
            work = executor(kind, workers=workers)
            try:
                start, wall, blocks = answer(work, job, size)
            finally:
                work.close()
            answers = [block.found for block in blocks]
            first = first or (wall * workers, answers)
            recorder.add(
                executor=kind, work=name, workers=workers, rows_of_a_block=size, start_s=start,
                wall_s=wall, speed_up=first[0] / wall, efficiency=first[0] / wall / workers,
                block_wall_s=statistics.median(b.wall for b in blocks),
                block_cpu_s=statistics.median(b.cpu for b in blocks),
                identical=answers == first[1], load=os.getloadavg()[0],
            )  # fmt: skip
            print({k: recorder.records[-1][k] for k in COLUMNS}, flush=True)


def throttled() -> Record:
    """How often the container was held back by its share of cores, where that is told."""
    file = Path("/sys/fs/cgroup/cpu.stat")
    try:
        pairs = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
        return {f"cgroup_{k}": int(v) for k, v in pairs if "throttled" in k}
    except (OSError, ValueError):
        return {}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--workers", nargs="+", type=int, default=(1, 2, 4, 8, 16))
    options.add_argument("--executor", nargs="+", choices=("local", "ray"), default=["local"])
    options.add_argument("--methods", nargs="*", choices=tuple(PROBLEMS), default=list(PROBLEMS))
    options.add_argument("--seconds", type=float, default=8.0, help="of each kind of work")
    options.add_argument("--no-probes", dest="probes", action="store_false")
    options.add_argument("--name", default="scaling", help="of the result file")
    chosen = options.parse_args(arguments)
    with Recorder(chosen.name, chosen, "random grids, made by the seed") as recorder:
        local = [*chosen.executor]
        chosen.executor = ["local"]
        if chosen.probes:
            measure(recorder, "compute", compute, 1, chosen)
            measure(recorder, "memory", memory, 1, chosen)
        chosen.executor = [k for k in local if k == "local" or find_spec("ray") is not None]
        for method in chosen.methods:
            if method == "milp" and find_spec("highspy") is None:
                print("milp is left out: highspy is not installed", flush=True)
                continue
            problem, rows = problem_for(method, chosen.seed)
            job = SolveBlock(problem, rows, method)
            measure(recorder, method, *sized(job, chosen.seconds), chosen)
        recorder.add(work="container", **throttled())
        print_table(recorder.records, COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
