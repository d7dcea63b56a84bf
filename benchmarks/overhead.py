"""What a block costs beside its rows: Ray tasks against Ray Data, and where the head saturates.

    python -m benchmarks.overhead [--nodes 1 2 4 8] [--blocks 400] [--results DIR]

`tasks`: empty blocks through `map_blocks` on a Ray cluster of so many nodes, each a raylet of its
own on this machine that claims four cores. `data`: the same blocks through `ray.data`, on one node.
`local`: the same through local processes. `here`: in this process. A block carries 64 KiB, as 8,192
rows of eight values do. The record has blocks a second by the clock, and the CPU seconds that this
process, which hands out the blocks, spent on each: on a machine of its own it saturates at the
inverse of that.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.frame import Recorder, parser, print_table
from cmpe.execution import executor
from cmpe.execution.base import Executor
from cmpe.execution.blocks import map_blocks

ROWS, COLUMNS_OF_A_ROW = 8192, 8
CORES = 4  # that each node claims
SHOWN = ("way", "nodes", "blocks", "seconds", "blocks_per_s", "driver_cpu_ms", "start_s")


def empty(rows: Any) -> int:
    """What a block of no work gives back."""
    return int(rows[0, 0])


def empty_batch(batch: dict[str, Any]) -> dict[str, Any]:
    """The same for Ray Data."""
    return {"found": batch["data"][:1, 0]}


def spent() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def by_blocks(work: Executor, count: int) -> None:
    rows = np.ones((ROWS, COLUMNS_OF_A_ROW), dtype=np.int8)
    done = sum(1 for _ in map_blocks(work, empty, ((k, (rows,)) for k in range(count))))
    assert done == count


def by_data(count: int) -> None:
    import ray

    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = np.ones((ROWS, COLUMNS_OF_A_ROW), dtype=np.int8)
    parts = ray.data.from_numpy([rows] * count)
    assert parts.map_batches(empty_batch, batch_size=ROWS).count() >= count


def timed(recorder: Recorder, way: str, nodes: int, count: int, run: Callable[[int], None]) -> None:
    begin = time.perf_counter()
    run(4 * CORES)  # workers start
    start = time.perf_counter() - begin
    begin, cpu = time.perf_counter(), spent()
    run(count)
    seconds, cpu = time.perf_counter() - begin, spent() - cpu
    recorder.add(
        way=way, nodes=nodes, blocks=count, seconds=seconds, blocks_per_s=count / seconds,
        driver_cpu_ms=1e3 * cpu / count, start_s=start,
    )  # fmt: skip
    print_table(recorder.records[-1:], SHOWN)


def on_cluster(recorder: Recorder, nodes: int, count: int, *, data: bool) -> None:
    import ray
    from ray.cluster_utils import Cluster

    claims = {"num_cpus": CORES, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**claims, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(**claims)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        work = executor("ray", address=cluster.address)
        timed(recorder, "tasks", nodes, count, partial(by_blocks, work))
        if data:
            timed(recorder, "data", nodes, count, by_data)
        work.close()
    finally:
        ray.shutdown()
        cluster.shutdown()


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--nodes", nargs="*", type=int, default=[1, 2, 4, 8])
    options.add_argument("--blocks", type=int, default=400)
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    with Recorder("overhead", chosen, "none") as recorder:
        for way, workers in (("here", 1), ("local", 2)):
            work = executor("local", workers=workers)
            timed(recorder, way, 1, chosen.blocks, partial(by_blocks, work))
            work.close()
        for nodes in chosen.nodes:
            on_cluster(recorder, nodes, chosen.blocks, data=nodes == 1)
        print_table(recorder.records, SHOWN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
