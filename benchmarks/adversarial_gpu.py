"""Adversarial examples on a GPU: the paper's autoencoder under each loss, and our heads.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.adversarial_gpu prepare FILE.npz STUDY_DIR MNIST_DIR   here
    PYTHONPATH=src python benchmarks/adversarial_gpu.py train OUT.jsonl FILE.npz [EPOCHS]  there

STUDY_DIR is what `study adversarial` wrote: its classifier, and its answers as labels. A record has
the mean distance and the share of test images that do not flip, decided in float64, and the seconds
of training. Every method is trained on the same images with the settings of `study adversarial`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file: the repository's root is one folder up
    sys.path[0] = str(Path(__file__).parents[1])

from cmpe.learning.losses.catalogue import PAPER_LOSSES
from study.bare import without_numba, without_safetensors

METHODS = ("copy", *PAPER_LOSSES, "residual", "linear")


def prepare(out: Path, study: Path, mnist: Path) -> None:
    """Pack the classifier, the images as bytes, and the attack's answers to the training images."""
    from cmpe.formats.images import read_images
    from cmpe.solvers.flips.attack import attack
    from study.adversarial.study import read_networks

    data = read_images(mnist)
    (network,) = read_networks(study / "classifier.npz")
    train = data.train[network.decide(data.train) == data.train_labels]
    test = data.test[network.decide(data.test) == data.test_labels]
    labels = attack(network, train).images
    arrays: dict[str, Any] = {f"weights_{k}": w for k, w in enumerate(network.weights)}
    arrays |= {f"biases_{k}": b for k, b in enumerate(network.biases)}
    np.savez_compressed(
        out, train=_bytes(train), test=_bytes(test),
        change=(labels - train).astype(np.float16), **arrays,
    )  # fmt: skip


def _bytes(images: Any) -> Any:
    return np.rint(255.0 * images).astype(np.uint8)


def unpack(path: Path) -> tuple[Any, Any, Any, Any]:
    """The network, training images, their labels, and test images."""
    from cmpe.models.relu import ReluNetwork

    with np.load(path) as kept:
        network = ReluNetwork(
            tuple(kept[f"weights_{k}"] for k in range(2)),
            tuple(kept[f"biases_{k}"] for k in range(2)),
        )
        train, test = (kept[name] / 255.0 for name in ("train", "test"))
        labels = np.clip(train + kept["change"].astype(np.float64), 0.0, 1.0)
    return network, train, labels, test


def training_data(network: Any, images: Any, labels: Any, config: Any) -> Any:
    """What `learning.data.prepare` makes, with the labels that are there already."""
    from cmpe.bounds.networks.slopes import quick_loss_bound
    from cmpe.learning.training.data import blank
    from cmpe.queries import adversarial

    problem = adversarial(network)
    instances = problem.given(images)
    data = blank(problem, instances.evidence, np.array(config.margins))
    for k in range(len(config.margins)):
        data.labels[:, k] = np.concatenate([images, labels], axis=1)
        if config.kind.alpha:
            data.p_upper[:, k] = problem.shift + np.abs(labels - images).sum(axis=1)
            data.q_lower[:, k] = problem.shift + quick_loss_bound(network, images)
    data.reference[:] = problem.objective.value(np.concatenate([images, labels], axis=1))
    return data


def measure(trainer: Any, network: Any, test: Any, margin: float) -> dict[str, float]:
    """Distances and flips of the answers to test images, decided in float64."""
    import torch

    from cmpe.learning.networks.networks import NetworkInputs, encode, with_margin_input

    program = trainer.program
    relaxation, problem = program.relaxation, trainer.data.problem
    begin = time.perf_counter()
    with torch.no_grad():
        evidence = problem.given(test).evidence
        read = relaxation.head.inputs(encode(problem, evidence).to(program.device))
        asked = torch.full((1, len(test)), margin, device=program.device)
        rows = relaxation.rows(evidence)
        rows = type(rows)(*(part.unsqueeze(0) for part in rows))
        encoded = with_margin_input(read.unsqueeze(0), asked, program.config)
        outputs = program.network(program.adam.parameters, NetworkInputs(encoded, rows), relaxation)
        points = relaxation.head.points(rows, outputs.logits, asked)[0].double().cpu().numpy()
    spent = time.perf_counter() - begin
    margins = network.margins(points, network.decide(test))
    distance = np.abs(points - test).sum(axis=1)
    return {
        "objective": float(distance.mean()),
        "objective_std": float(distance.std()),
        "violation": float((margins > 0).mean()),
        "seconds": spent / len(test),
        "margin": margin,
    }


def train(out: Path, file: Path, epochs: int, device: str = "cuda") -> None:
    """Every method, one record each."""
    import torch

    from cmpe.learning.training.trainer import Trainer
    from study.adversarial.methods import StudyEffort, config_of

    network, images, labels, test = unpack(file)
    effort = StudyEffort(epochs=epochs, linear_epochs=min(epochs, 40), device=device)
    name = torch.cuda.get_device_name() if device == "cuda" else device
    wait: Callable[[], object] = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    with out.open("w") as stream:
        for method in METHODS:
            config = replace(config_of(method, effort), evaluate_every=epochs)
            data = training_data(network, images, labels, config)
            order = np.random.default_rng(0).permutation(len(images))
            split = np.sort(order[1000:]), np.sort(order[:1000])
            wait()
            begin = time.perf_counter()
            trainer = Trainer(data, [config], [split], device=device)
            for _ in trainer.epochs():
                pass
            wait()
            spent = time.perf_counter() - begin
            margin = 0.0 if len(config.margins) == 1 else max(config.margins) / 2
            record = {
                "method": method, "epochs": trainer.epoch, "steps": trainer.epoch * trainer.steps,
                "rows": len(test), "train_seconds": spent, "device": name,
                **measure(trainer, network, test, margin),
            }  # fmt: skip
            stream.write(json.dumps(record) + "\n")
            stream.flush()
            print(json.dumps(record), flush=True)
            del trainer, data


def main() -> None:
    mode, first, second, *rest = sys.argv[1:]
    if mode == "prepare":
        prepare(Path(first), Path(second), Path(rest[0]))
    else:
        without_numba()
        without_safetensors()
        train(Path(first), Path(second), int(rest[0]) if rest else 60, *rest[1:])


if __name__ == "__main__":
    main()
