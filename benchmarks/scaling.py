"""Speed-up of `solve` with the number of processes, and whether the machine or we hold it back.

    python -m benchmarks.scaling [--workers 1 2 4 8 16] [--executor local] [--rounds 2]
        [--work compute memory exact search milp] [--seconds 2] [--name scaling] [--results DIR]

Blocks of equal work are answered through `execution.blocks.map_blocks`, as `cmpe solve` does it
with a folder of parts, by 1, 2, 4, ... processes, 20 blocks for each of them: `exact` on a narrow
problem (a grid of 15 x 15, 60 % observed), `search` on a wide one (20 x 20, 10 % observed) and
`milp` on a small one (8 x 8, 30 % observed), each an amount of work that no clock cuts short.

Two probes run on the same processes, at the same time of day. `compute` adds numbers in a loop and
needs no memory: where it slows down, cores are shared or their clock falls. `memory` copies arrays
larger than any cache: where it alone slows down, the memory bus is shared. Every record has

    efficiency = blocks a second / (processes x blocks a second of one)
    busy       = seconds in which processes had a block / (processes x seconds)
    slowdown   = seconds of a block where it ran / the same with one process

so efficiency = busy / slowdown, but for what busy falls short of 1 with one process. What is lost
by busy is ours: handing out blocks, and waiting for the last ones. What slows blocks down beyond
both probes is ours as well: threads, or tables that are copied and not shared.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
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
from cmpe.solving import solve

BLOCKS = 20  # for each process
READY = 0.5  # seconds that a process is kept busy at first, so that all of them start
COPIED = 1 << 24  # numbers: 128 MiB
ADDED = 1_500_000
ARRAYS: list[Any] = []  # of the process that probes its memory
# Side of the grid, share observed, rows that a block may have.
PROBLEMS = {"exact": (15, 0.6, 20000), "search": (20, 0.1, 256), "milp": (8, 0.3, 2048)}
PROBES = ("compute", "memory")
COLUMNS = ("executor", "work", "workers", "blocks_per_s", "efficiency", "busy", "slowdown",
           "block_wall_s", "block_cpu_s", "identical")  # fmt: skip


@dataclass(frozen=True)
class Timed:
    """What a block took where it ran."""

    wall: float
    cpu: float
    found: str  # a hash of its answers


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


@dataclass(frozen=True)
class SolveBlock:
    """Answers rows, which lie in the job: a block is a number."""

    problem: cmpe.Problem
    rows: Any
    method: str
    size: int = 1  # rows of a block
    times: int = 1  # that they are answered

    def __call__(self, number: int) -> Timed:
        """Answer the rows of a block; after the last rows come the first again."""
        first = number * self.size % (len(self.rows) - self.size + 1)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(self.times):
            answers = solve(self.problem, self.rows[first : first + self.size], method=self.method)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return Timed(wall, cpu, hash_of(answers.assignments.tobytes()))

    def sized(self, seconds: float) -> SolveBlock:
        """The same with blocks that take about so long."""
        some = min(len(self.rows) // 4, 4 if self.method != "exact" else 4096)
        tried = replace(self, size=some)
        tried(0)  # compiles, plans
        wanted = seconds / max(tried(0).cpu, 1e-4) * some
        size = max(1, min(len(self.rows) // 4, int(wanted)))
        return replace(self, size=size, times=max(1, round(wanted / size)))


def compute(number: int) -> Timed:
    """Add numbers in a loop."""
    wall, cpu = time.perf_counter(), time.process_time()
    total = 0
    for number in range(ADDED):
        total += number
    return Timed(time.perf_counter() - wall, time.process_time() - cpu, str(total))


def memory(number: int) -> Timed:
    """Copy an array that no cache holds, a few times."""
    if not ARRAYS:
        ARRAYS.extend((np.full(COPIED, 1.0), np.full(COPIED, 2.0)))  # touched: pages are there
    source, target = ARRAYS
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(4):
        target[:] = source
    return Timed(time.perf_counter() - wall, time.process_time() - cpu, str(target[-1]))


@dataclass(frozen=True)
class Ready:
    """Makes a process load what a job needs, and keeps it busy until the others are there."""

    job: Callable[[int], Timed]

    def __call__(self, number: int) -> Timed:
        """Run the job once, whatever the number."""
        begin = time.perf_counter()
        found = self.job(0)
        time.sleep(max(0.0, READY - (time.perf_counter() - begin)))
        return found


def problem_for(method: str, seed: int) -> tuple[cmpe.Problem, Any]:
    side, observed, rows = PROBLEMS[method]
    recipe = Recipe(samples=2 * rows, seed=seed, evidence_fraction=observed, percentile=50,
                    time_limit=20.0)  # fmt: skip
    made = generate(grid(side, side, seed=seed), recipe)
    distinct = np.unique(np.concatenate([made.train, made.test]), axis=0)
    return made.problem, np.random.default_rng(seed).permutation(distinct)[:rows]


def jobs(chosen: Any) -> Iterator[tuple[str, Callable[[int], Timed]]]:
    """The work by name, in blocks of equal length."""
    for name in chosen.work:
        if name in PROBES:
            yield name, {"compute": compute, "memory": memory}[name]
        elif name == "milp" and find_spec("highspy") is None:
            print("milp is left out: highspy is not installed", flush=True)
        else:
            problem, rows = problem_for(name, chosen.seed)
            yield name, SolveBlock(problem, rows, name).sized(chosen.seconds / BLOCKS)


def answered(work: Executor, job: Callable[[int], Timed], count: int) -> tuple[float, list[Timed]]:
    """Seconds of all blocks, and what each took."""
    begin = time.perf_counter()
    found = dict(map_blocks(work, job, ((k, (k,)) for k in range(count))))
    return time.perf_counter() - begin, [found[k] for k in range(count)]


def measure(
    recorder: Recorder, work: Executor, named: dict[str, Callable[[int], Timed]], chosen: Any
) -> None:
    """One record for each work and round, with these processes."""
    workers = work.capacity
    for job in named.values():
        answered(work, Ready(job), workers)
    for turn in range(chosen.rounds):
        for name, job in named.items():
            wall, blocks = answered(work, job, BLOCKS * workers)
            recorder.add(
                executor=chosen.executor, work=name, workers=workers, turn=turn, wall_s=wall,
                blocks_per_s=len(blocks) / wall, load=os.getloadavg()[0],
                busy=sum(block.wall for block in blocks) / wall / workers,
                block_wall_s=statistics.mean(block.wall for block in blocks),
                block_cpu_s=statistics.mean(block.cpu for block in blocks),
                found=hash_of("".join(block.found for block in blocks[:BLOCKS]).encode()),
            )  # fmt: skip


def compared(records: Sequence[Record]) -> Iterator[Record]:
    """Medians of the rounds of one work and number of processes, against one process."""
    numbers = ("blocks_per_s", "busy", "block_wall_s", "block_cpu_s")
    groups: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        groups.setdefault((record["work"], record["workers"]), []).append(record)
    first: dict[str, Record] = {}
    for (name, workers), same in sorted(groups.items()):
        found = {k: statistics.median(r[k] for r in same) for k in numbers}
        one = first.setdefault(name, {**found, "workers": workers, "found": same[0]["found"]})
        rate = one["blocks_per_s"] / one["workers"]
        yield {
            "executor": same[0]["executor"], "work": name, "workers": workers, **found,
            "efficiency": found["blocks_per_s"] / workers / rate,
            "slowdown": found["block_wall_s"] / one["block_wall_s"],
            "identical": all(r["found"] == one["found"] for r in same),
        }  # fmt: skip


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
    options.add_argument("--executor", choices=("local", "ray"), default="local")
    options.add_argument("--work", nargs="+", choices=(*PROBES, *PROBLEMS),
                         default=(*PROBES, *PROBLEMS))  # fmt: skip
    options.add_argument("--seconds", type=float, default=2.0, help="of all blocks of a process")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--name", default="scaling", help="of the result file")
    chosen = options.parse_args(arguments)
    with Recorder(chosen.name, chosen, "random grids, made by the seed") as recorder:
        named = dict(jobs(chosen))
        for workers in chosen.workers:
            work = executor(chosen.executor, workers=workers)
            try:
                measure(recorder, work, named, chosen)
            finally:
                work.close()
            print(f"{workers} done", flush=True)
        print_table(list(compared(recorder.records)), COLUMNS)
        recorder.add(work="container", **throttled())
    return 0


if __name__ == "__main__":
    sys.exit(main())
