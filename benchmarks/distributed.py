"""Training by several processes against one: the same weights, and how long a step takes.

    python -m benchmarks.distributed --device cuda                                  # one process
    torchrun --nproc_per_node 2 -m benchmarks.distributed --device cpu              # gloo
    torchrun --nproc_per_node 1 -m benchmarks.distributed --device cuda             # nccl
    python -m benchmarks.distributed --ray 2 --nodes 2      # gloo, on two Ray nodes started here

Trains on a generated grid and prints one record: processes, back-end, seconds, a hash of the
weights, and how far they are from those of one process (`--against FILE.npy`, which a run without
it writes with `--keep FILE.npy`). With a process group it also times the all-reduce that a step
makes, of all gradients in one row.

Under nccl this assumes one process for each GPU, chosen by LOCAL_RANK, all of the same kind, and
that every machine reaches MASTER_ADDR:MASTER_PORT.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.frame import parser
from cmpe.generation import Generated, Recipe, generate, grid
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.distributed import Ranks, ranks_from_environment
from cmpe.learning.training.fitting import Session, fit

REDUCED = 1 << 20  # numbers of a timed all-reduce
TIMES = 50


def problem() -> Generated:
    return generate(grid(6, 6, seed=3), Recipe(samples=2000, percentile=30, seed=3), name="grid6")


def config(epochs: int) -> TrainingConfig:
    return TrainingConfig(
        loss="ss_cmpe", hidden=(64,), epochs=epochs, batch_size=128, beta=5.0, patience=0
    )


def weights_of(solver: NeuralSolver) -> Any:
    """All weights in one row, by name."""
    parts = sorted(solver.trained.parameters.items())
    return np.concatenate([value.cpu().numpy().ravel() for _, value in parts])


def all_reduce_seconds(ranks: Ranks) -> float | None:
    """What one all-reduce takes, which must add up; None without a process group."""
    if not ranks.grouped:
        return None
    numbers = torch.ones(REDUCED, device=ranks.device)
    ranks.add_up(numbers)
    assert (numbers == ranks.size).all(), "an all-reduce did not add up"
    _settle(ranks.device)
    begin = time.perf_counter()
    for _ in range(TIMES):
        ranks.add_up(numbers.fill_(1.0))
    _settle(ranks.device)
    return (time.perf_counter() - begin) / TIMES


def _settle(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def nodes_here(count: int) -> str:
    """The address of a cluster of so many nodes, processes of their own on this machine."""
    from ray.cluster_utils import Cluster

    claims = {"num_cpus": 1, "object_store_memory": 80 << 20}
    cluster = Cluster(initialize_head=True, head_node_args={**claims, "include_dashboard": False})
    for _ in range(count - 1):
        cluster.add_node(**claims)
    return str(cluster.address)


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--device", default="cpu")
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--ray", type=int, default=0, help="processes on a Ray cluster")
    options.add_argument(
        "--nodes", type=int, default=0, help="Ray nodes to start here, a core each"
    )
    options.add_argument("--address", help="of the Ray cluster")
    options.add_argument("--keep", type=Path)
    options.add_argument("--against", type=Path)
    chosen = options.parse_args()
    made, session = problem(), Session(device=chosen.device)
    taken, backend = None, None
    if chosen.ray:
        from cmpe.learning.launching import fit_on_ray

        if chosen.nodes:
            chosen.address = nodes_here(chosen.nodes)
        begin = time.perf_counter()
        solver = fit_on_ray(
            (made.problem, made.train), config(chosen.epochs), session,
            processes=chosen.ray, address=chosen.address,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
    else:
        with ranks_from_environment(chosen.device) as ranks:
            taken = all_reduce_seconds(ranks)
            backend = dist.get_backend() if ranks.grouped else None
            begin = time.perf_counter()
            solver = fit(made.problem, made.train, config(chosen.epochs), session)
            seconds = time.perf_counter() - begin
    if os.environ.get("RANK", "0") != "0":
        return 0
    weights = weights_of(solver)
    record = {
        "processes": chosen.ray or int(os.environ.get("WORLD_SIZE", "1")),
        "backend": "gloo" if chosen.ray else backend,
        "device": chosen.device,
        "all_reduce_us": None if taken is None else round(1e6 * taken, 1),
        "seconds": round(seconds, 3),
        "weights": hashlib.sha256(weights.tobytes()).hexdigest()[:16],
    }
    if chosen.keep:
        np.save(chosen.keep, weights)
    if chosen.against:
        record["largest_difference"] = float(np.abs(weights - np.load(chosen.against)).max())
    print(json.dumps(record), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
