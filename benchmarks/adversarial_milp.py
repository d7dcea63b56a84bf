"""Table: the smallest L1 change that flips a ReLU network's decision, seconds an image.

    python -m benchmarks.adversarial_milp --rows 100 --time-limit 60 [--methods ours:highs ...]

Three classifiers of MNIST digits are trained here from the seed: 784-64-10, 784-64-1 (is it a 3?)
and 784-32-32-10. For the first test images each method looks for the nearest image of another
class, by a margin of 1e-3, within the time limit:

- ours:BACKEND        `cmpe.solvers.flips.proof.nearest_flip`; the back-end takes what the search
                      leaves to it;
- big-m:BACKEND       one program over the whole box with the bounds of interval arithmetic, the
                      textbook encoding, by the same back-ends;
- encoder:scip        the general encoder PySCIPOpt-ML with SCIP;
- encoder:gurobi      the general encoder gurobi-machinelearning with Gurobi, where its licence
                      allows the size.

Starts come from `cmpe.solvers.flips.attack`, where it exists, or from --starts FILE.npz (an array
NETWORK of images); without either, ours begins from nothing. The others get the same start as an
objective cutoff where their interface has one. Times are wall-clock and CPU seconds of one
process on one thread. A run goes on from what results/adversarial_milp.jsonl (or its .part) holds:
rows already there are not solved again. Two methods disagree on a row where one's bound is above
the other's distance by more than 1e-5; any of them makes the exit code 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.adversarial_encoders import Answer, big_m, encoder_gurobi, encoder_scip
from benchmarks.frame import HERE, Record, Recorder, parser, print_table
from cmpe.errors import CmpeError
from cmpe.formats.idx import read_idx
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.base import Limits
from cmpe.solvers.flips.proof import nearest_flip

Floats = NDArray[np.float64]

NAME = "adversarial_milp"
MNIST = HERE.parent.parent / "shared" / "data" / "mnist"
DIGIT = 3  # of the network with one output
SIZES = {"784-64-10": (784, 64, 10), "784-64-1": (784, 64, 1), "784-32-32-10": (784, 32, 32, 10)}
METHODS = (
    "ours:highs", "ours:scip", "big-m:highs", "big-m:scip", "encoder:scip", "encoder:gurobi",
)  # fmt: skip
EPOCHS, BATCH, RATE = 8, 128, 4e-3
TOLERANCE = 1e-5
COLUMNS = (
    "network", "method", "rows", "proved", "distance", "bound", "mean_cpu_s", "median_cpu_s",
    "max_cpu_s", "mean_wall_s",
)  # fmt: skip


@dataclass(frozen=True)
class Data:
    """MNIST with pixels in [0, 1]."""

    train: Floats
    train_labels: NDArray[np.int64]
    test: Floats
    test_labels: NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=10, help="test images")
    options.add_argument("--time-limit", type=float, default=60.0, help="seconds an image")
    options.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    options.add_argument("--networks", nargs="+", choices=SIZES, default=list(SIZES))
    options.add_argument("--mnist", type=Path, default=MNIST, help="folder of the idx.gz files")
    options.add_argument("--starts", type=Path, help="npz of images to begin from")
    chosen = options.parse_args(arguments)
    before = _recorded(chosen)
    with Recorder(NAME, chosen, data="MNIST, the first test images") as recorder:
        for record in before:
            recorder.add(**record)
        data = _read(chosen.mnist)
        for name in chosen.networks:
            _run(name, data, chosen, recorder)
    rows = [r for r in recorder.records if "method" in r]
    print_table(list(_summary(rows)), COLUMNS)
    wrong = _disagreements(rows)
    print(f"{wrong} rows in disagreement")
    return int(wrong > 0)


def _recorded(options: argparse.Namespace) -> list[Record]:
    """What an earlier run with the same seed left, finished or not."""
    for path in (options.results / f"{NAME}.jsonl.part", options.results / f"{NAME}.jsonl"):
        if path.exists():
            header, *records = (json.loads(x) for x in path.read_text("utf-8").splitlines())
            if records and header.get("seed") == options.seed:
                return records
    return []


def _read(folder: Path) -> Data:
    def images(part: str) -> Floats:
        return read_idx(folder / f"{part}-images-idx3-ubyte.gz").reshape(-1, 784) / 255.0

    def labels(part: str) -> NDArray[np.int64]:
        return read_idx(folder / f"{part}-labels-idx1-ubyte.gz").astype(np.int64)

    return Data(images("train"), labels("train"), images("t10k"), labels("t10k"))


def _train(name: str, data: Data, seed: int) -> tuple[ReluNetwork, float]:
    """The network, and its accuracy on the test images."""
    import torch
    from torch import nn

    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    sizes = SIZES[name]
    parts: list[nn.Module] = []
    for a, b in pairwise(sizes):
        parts += [nn.Linear(a, b), nn.ReLU()]
    model = nn.Sequential(*parts[:-1])
    images = torch.tensor(data.train, dtype=torch.float32)
    one = sizes[-1] == 1
    target = data.train_labels == DIGIT if one else data.train_labels
    labels = torch.tensor(target, dtype=torch.float32 if one else torch.int64)
    loss = nn.BCEWithLogitsLoss() if one else nn.CrossEntropyLoss()
    steps = len(images) // BATCH
    optimizer = torch.optim.Adam(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images), generator=generator)
        for i in range(steps):
            rows = order[i * BATCH : (i + 1) * BATCH]
            out = model(images[rows])
            optimizer.zero_grad()
            loss(out[:, 0] if one else out, labels[rows]).backward()
            optimizer.step()
            schedule.step()
    network = ReluNetwork.of(model)
    truth = data.test_labels == DIGIT if one else data.test_labels
    return network, float((network.decide(data.test) == truth).mean())


def _run(name: str, data: Data, options: argparse.Namespace, recorder: Recorder) -> None:
    done = {(r["network"], r["method"], r["image"]) for r in recorder.records if "method" in r}
    wanted = [(m, i) for i in range(options.rows) for m in options.methods]
    missing = [(m, i) for m, i in wanted if (name, m, i) not in done]
    if not missing:
        return
    network, accuracy = _train(name, data, options.seed)
    if not any(r.get("trained") == name for r in recorder.records):
        recorder.add(trained=name, accuracy=accuracy)
    images = data.test[: options.rows]
    starts, source = _starts(name, network, images, options)
    for method, row in missing:
        start = None if starts is None or not np.isfinite(starts[row]).all() else starts[row]
        record = _measured(method, network, images[row], start, options.time_limit)
        about = {"network": name, "method": method, "image": row, "start": source}
        recorder.add(**about, **record)


def _starts(
    name: str, network: ReluNetwork, images: Floats, options: argparse.Namespace
) -> tuple[Floats | None, str]:
    if options.starts is not None:
        return np.load(options.starts)[name][: len(images)], options.starts.name
    try:
        from cmpe.solvers.flips.attack import attack
    except ImportError:
        return None, "none"
    return np.asarray(attack(network, images).images), "attack"


def _measured(
    method: str, network: ReluNetwork, image: Floats, start: Floats | None, limit: float
) -> Record:
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        answer = _solver(method)(network, image, start, limit)
    except CmpeError as error:
        return {"status": "unavailable", "reason": str(error)}
    spent = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    proved = answer.distance - answer.bound <= TOLERANCE
    status = "optimal" if proved else "unknown" if answer.image is None else "feasible"
    begin = None if start is None else float(np.abs(start - image).sum())
    return {
        "status": status, "distance": answer.distance, "bound": answer.bound,
        "gap": answer.distance - answer.bound, "nodes": answer.nodes, **spent,
        "start_distance": begin, "time_limit": limit,
    }  # fmt: skip


Method = Callable[[ReluNetwork, Floats, Floats | None, float], Answer]


def _solver(method: str) -> Method:
    kind, backend = method.split(":")
    if kind == "encoder":
        return encoder_scip if backend == "scip" else encoder_gurobi
    if kind == "big-m":
        return lambda network, image, start, limit: big_m(network, image, start, limit, backend)
    return lambda network, image, start, limit: _ours(network, image, start, limit, backend)


def _ours(
    network: ReluNetwork, image: Floats, start: Floats | None, limit: float, backend: str
) -> Answer:
    flip = nearest_flip(network, image, start=start, solver=backend, limits=Limits(seconds=limit))
    return Answer(flip.image, flip.distance, flip.bound, flip.nodes)


def _summary(rows: Sequence[Record]) -> Iterator[Record]:
    for network, method in dict.fromkeys((r["network"], r["method"]) for r in rows):
        own = [r for r in rows if (r["network"], r["method"]) == (network, method)]
        solved = [r for r in own if r["status"] != "unavailable"]
        record: Record = {"network": network, "method": method, "rows": len(solved)}
        if solved:
            cpu = [r["cpu_s"] for r in solved]
            record |= {
                "proved": sum(r["status"] == "optimal" for r in solved),
                "distance": _mean(solved, "distance"),
                "bound": _mean(solved, "bound"),
                "mean_cpu_s": float(np.mean(cpu)),
                "median_cpu_s": float(np.median(cpu)),
                "max_cpu_s": float(np.max(cpu)),
                "mean_wall_s": _mean(solved, "wall_s"),
            }
        yield record


def _mean(rows: Sequence[Record], field: str) -> float:
    """Over the rows that have a finite value."""
    values = [r[field] for r in rows if r[field] is not None and np.isfinite(r[field])]
    return float(np.mean(values)) if values else float("nan")


def _disagreements(rows: Sequence[Record]) -> int:
    wrong = 0
    for key in dict.fromkeys((r["network"], r["image"]) for r in rows):
        own = [r for r in rows if (r["network"], r["image"]) == key and r.get("bound") is not None]
        nearest = min((r["distance"] for r in own if r["distance"] is not None), default=np.inf)
        wrong += any(r["bound"] > nearest + TOLERANCE * (1 + nearest) for r in own)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
