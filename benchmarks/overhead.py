"""What a block costs beside its rows: Ray tasks against Ray Data, and where the head saturates.

    python -m benchmarks.overhead [--nodes 1 8 32] [--blocks 400] [--naps 0.3 2] [--no-data]
        [--name overhead] [--results DIR]

`tasks`: blocks through `map_blocks` on a Ray cluster of so many fake nodes of one core each
(`benchmarks.fake_nodes`). `data`: the same blocks through `ray.data`, on one node. `local`: the
same through 2 and 8 local processes. `here`: in this process. A block carries 64 KiB, as 8,192 rows
of eight values do. Empty blocks show what handing out costs: the record has blocks a second by the
clock, and the CPU milliseconds that this process, which hands out the blocks, and Ray's two
processes of the head spent on each. Blocks that sleep (`--naps`, in seconds) stand for work that
needs no core here: `busy` is the share of the claimed cores that the head kept busy.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.fake_nodes import fake_cluster
from benchmarks.frame import Recorder, parser, print_table
from cmpe.execution import executor
from cmpe.execution.base import Executor
from cmpe.execution.blocks import map_blocks

ROWS, COLUMNS_OF_A_ROW = 8192, 8
NAPS_OF_A_NODE = 6  # blocks that sleep
FIRST_NAP, FIRST_ROUNDS = 0.3, 60  # until every node has run one: its worker is there
SHOWN = ("way", "nodes", "nap_s", "blocks", "blocks_per_s", "busy", "driver_cpu_ms",
         "gcs_server_cpu_ms", "raylet_cpu_ms", "start_s")  # fmt: skip


def block_of(seconds: float, rows: Any) -> int:
    """Sleep, as a block of no work that takes so long; say which process did."""
    if seconds:
        time.sleep(seconds)
    return os.getpid()


def empty_batch(batch: dict[str, Any]) -> dict[str, Any]:
    """A block of no work for Ray Data."""
    return {"found": batch["data"][:1, 0]}


def spent() -> float:
    """CPU seconds of this process until now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def by_blocks(work: Executor, seconds: float, count: int) -> set[int]:
    """The processes that ran the blocks."""
    rows = np.ones((ROWS, COLUMNS_OF_A_ROW), dtype=np.int8)
    job = partial(block_of, seconds)
    found = [process for _, process in map_blocks(work, job, ((k, (rows,)) for k in range(count)))]
    assert len(found) == count
    return set(found)


def by_data(count: int) -> None:
    """The same blocks through Ray Data."""
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = np.ones((ROWS, COLUMNS_OF_A_ROW), dtype=np.int8)
    parts = ray.data.from_numpy([rows] * count)
    assert parts.map_batches(empty_batch, batch_size=ROWS).count() >= count


def started(work: Executor) -> float:
    """Seconds until as many processes as there are cores have run a block."""
    begin = time.perf_counter()
    for _ in range(FIRST_ROUNDS):
        if len(by_blocks(work, FIRST_NAP, 2 * work.capacity)) >= work.capacity:
            break
    return time.perf_counter() - begin


def timed(
    recorder: Recorder,
    run: Callable[[int], object],
    count: int,
    heads: Callable[[], dict[str, float]] = dict,
    **known: Any,
) -> None:
    """Run so many blocks; record the clock, and the CPU time of what hands them out."""
    begin, cpu, others = time.perf_counter(), spent(), heads()
    run(count)
    seconds, cpu = time.perf_counter() - begin, spent() - cpu
    now = heads()
    nap, nodes = known.get("nap_s", 0.0), known["nodes"]
    recorder.add(
        **known, blocks=count, seconds=seconds, blocks_per_s=count / seconds,
        busy=count * nap / seconds / nodes if nap else None, driver_cpu_ms=1e3 * cpu / count,
        **{f"{name}_cpu_ms": 1e3 * (now[name] - others[name]) / count for name in others},
    )  # fmt: skip
    print_table(recorder.records[-1:], SHOWN)
    sys.stdout.flush()


def with_naps(
    recorder: Recorder,
    work: Executor,
    known: dict[str, Any],
    chosen: Any,
    naps: Sequence[float],
    heads: Callable[[], dict[str, float]] = dict,
) -> None:
    """Empty blocks, and blocks that sleep."""
    for nap in (0.0, *naps):
        count = max(0 if nap else chosen.blocks, NAPS_OF_A_NODE * known["nodes"])
        timed(recorder, partial(by_blocks, work, nap), count, heads, **known, nap_s=nap)


def on_cluster(recorder: Recorder, nodes: int, chosen: Any) -> None:
    """All measurements with so many nodes."""
    begin = time.perf_counter()
    with fake_cluster(nodes) as cluster:
        there = time.perf_counter() - begin
        work = executor("ray", address=cluster.address)
        known = {"way": "tasks", "nodes": nodes, "nodes_s": there, "start_s": started(work)}
        with_naps(recorder, work, known, chosen, chosen.naps, cluster.spent)
        if chosen.data and nodes == 1:
            by_data(4)
            timed(recorder, by_data, chosen.blocks, way="data", nodes=nodes)
        work.close()


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--nodes", nargs="*", type=int, default=[1, 8, 32])
    options.add_argument("--blocks", type=int, default=400)
    options.add_argument("--naps", nargs="*", type=float, default=[0.3, 2.0])
    options.add_argument("--no-data", dest="data", action="store_false")
    options.add_argument("--name", default="overhead", help="of the result file")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    with Recorder(chosen.name, chosen, "none") as recorder:
        for way, workers in (("here", 1), ("local", 2), ("local", 8)):
            work = executor("local", workers=workers)
            known = {"way": way, "nodes": workers, "start_s": started(work)}
            with_naps(recorder, work, known, chosen, chosen.naps if workers > 2 else ())
            work.close()
        for nodes in chosen.nodes:
            on_cluster(recorder, nodes, chosen)
        print_table(recorder.records, SHOWN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
