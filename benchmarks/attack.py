"""The classical attack on MNIST: distance, failures and time, by how hard it tries.

Three classifiers, trained here with Adam (8 epochs, batches of 128): 784-64-10, 784-64-64-10, and
784-64-1 for "is it a 3". Attacked are all test images that the classifier gets right. `against` is
the mean distance divided by that of the strongest attack of the table; microseconds are CPU time of
one thread (the best of `--repeats` calls), everything included. The 8-bit row also says what share
of the answers above it rounding to the nearest level breaks, and rounding outward.
"""

from __future__ import annotations

import time
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from benchmarks.frame import HERE, Record, Recorder, parser, print_table, race
from cmpe.formats.idx import read_idx
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.flips.attack import AttackSettings, attack, round_outward

MNIST = HERE.parent.parent / "shared" / "data" / "mnist"
NETWORKS = {"784-64-10": None, "784-64-64-10": None, "784-64-1": 3}  # the class of one output
CONFIGS = {
    "one walk, 3 targets": AttackSettings(targets=3, rounds=0),
    "1 round, 4 targets": AttackSettings(targets=4, rounds=1),
    "default": AttackSettings(),
    "default, 8 bits": AttackSettings(levels=True),
    "3 restarts": AttackSettings(restarts=3),
    "9 targets, 6 rounds, 10 restarts": AttackSettings(targets=9, rounds=6, restarts=10),
}
COLUMNS = (
    "network", "accuracy", "images", "attack", "distance", "against", "failures", "inputs",
    "microseconds", "nearest_breaks", "outward_breaks",
)  # fmt: skip


def digits(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (B, 784) from 0 to 1, and labels."""
    images = np.asarray(read_idx(folder / f"{part}-images-idx3-ubyte.gz"))
    labels = np.asarray(read_idx(folder / f"{part}-labels-idx1-ubyte.gz"))
    return images.reshape(len(images), -1) / 255.0, labels.astype(np.int64)


def classifier(name: str, images: np.ndarray, labels: np.ndarray, seed: int) -> ReluNetwork:
    """A network of these sizes, trained with cross-entropy."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(map(int, name.split("-"))):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    net = nn.Sequential(*layers[:-1])
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    points = torch.tensor(images, dtype=torch.float32)
    wanted = torch.tensor(labels)
    for _ in range(8):
        order = torch.randperm(len(points))
        for begin in range(0, len(points), 128):
            rows = order[begin : begin + 128]
            logits = net(points[rows])
            if NETWORKS[name] is None:
                loss = nn.functional.cross_entropy(logits, wanted[rows])
            else:
                truth = wanted[rows].float()[:, None]
                loss = nn.functional.binary_cross_entropy_with_logits(logits, truth)
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            optimizer.step()
    return ReluNetwork.of(net)


def records(name: str, network: ReluNetwork, images: np.ndarray, repeats: int) -> list[Record]:
    """One record per configuration."""
    answers = {key: attack(network, images, config=config) for key, config in CONFIGS.items()}
    calls = {key: partial(attack, network, images, config=c) for key, c in CONFIGS.items()}
    seconds = race(calls, repeats=repeats, warm_up=0, clock=time.process_time)
    strongest = answers["9 targets, 6 rounds, 10 restarts"].distance.mean()
    found: list[Record] = []
    for key, answer in answers.items():
        found.append(
            {
                "network": name,
                "images": len(images),
                "attack": key,
                "distance": answer.distance[answer.found].mean(),
                "against": answer.distance[answer.found].mean() / strongest,
                "failures": 1.0 - answer.found.mean(),
                "inputs": (answer.images != images).sum(axis=1).mean(),
                "microseconds": 1e6 * seconds[key].best / len(images),
            }
        )
        if key == "default, 8 bits":
            plain = answers["default"]
            nearest = np.rint(255 * plain.images) / 255
            outward = round_outward(images, plain.images) / 255.0
            for how, drawn in (("nearest", nearest), ("outward", outward)):
                found[-1][f"{how}_breaks"] = (network.decide(drawn) == plain.classes).mean()
    return found


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--mnist", type=Path, default=MNIST, help="folder of the idx.gz files")
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    torch.set_num_threads(1)
    images, labels = digits(given.mnist, "train")
    tests, truth = digits(given.mnist, "t10k")
    with Recorder("attack", given, data="MNIST") as recorder:
        for name, one in NETWORKS.items():
            wanted, right = (labels, truth) if one is None else (labels == one, truth == one)
            network = classifier(name, images, np.asarray(wanted, dtype=np.int64), given.seed)
            correct = network.decide(tests) == right
            for record in records(name, network, tests[correct], given.repeats):
                recorder.add(accuracy=correct.mean(), **record)
        print_table(recorder.records, COLUMNS)


if __name__ == "__main__":
    main()
