"""Training on a GPU: the paper's schedule for one model, and for 150 of them stacked.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.learned_gpu prepare DIR PROBLEM_DIR...   here: labels, bounds, coefficients
    python benchmarks/learned_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. The schedule is the preset `paper` with ss_cmpe_pen and
ALPHA: 9,000 rows, batches of 128, 300 epochs; the stack is its grid of 6 x 5 settings on 5 folds.
"""

from __future__ import annotations

import itertools
import pickle
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file: the repository's root is one folder up
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.device_frame import Record, plain_problem, run_modes

# Not as printed: alpha is fixed, with a contrast and a temperature.
ALPHA: dict[str, Any] = {"alpha": "fixed", "contrast": 25.0, "temperature": 2.0}


def prepare(out: Path, folders: list[Path]) -> None:
    """Pack each problem with what training reads: data, and the coefficients of every row."""
    import cmpe
    from cmpe.learning.losses.relaxation import RelaxedProblem
    from cmpe.learning.training.config import paper, tuned
    from cmpe.learning.training.data import prepare as make

    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        content = cmpe.read_directory(folder)
        plain = plain_problem(content.problem)
        rows = RelaxedProblem(plain).rows(plain.given(content.train).evidence)
        for kind, config in (("paper", paper("distill")), ("tuned", tuned())):  # all data of each
            data = make(plain.given(content.train), config)
            pack(data, rows, out / f"{kind}-{folder.name}.pkl")


def pack(data: Any, rows: Any, path: Path) -> None:
    """Write training data with its rows' coefficients, without what can be made again."""
    import lzma

    small = replace(data, problem=plain_problem(data.problem), labels=data.labels.astype(np.int8))
    whole = pickle.dumps((small, [part.numpy() for part in rows]))
    path.write_bytes(lzma.compress(whole, preset=1))


def unpack(path: Path) -> Any:
    """The training data; from now on its rows' coefficients are the packed ones."""
    import lzma

    import torch

    from cmpe.learning.losses.relaxation import Coefficients, RelaxedProblem

    data, rows = pickle.loads(lzma.decompress(path.read_bytes()))

    def given(self: RelaxedProblem, evidence: Any) -> Coefficients:
        assert len(evidence) == len(rows[0]) + 1  # the last row stands for none
        whole = (np.concatenate([part, part[:1]]) for part in rows)
        return Coefficients(*(torch.as_tensor(part, device=self.device) for part in whole))

    # Replaced for the whole process, on purpose: this machine cannot compute them.
    RelaxedProblem.rows = given  # type: ignore[method-assign]
    return replace(data, labels=data.labels.astype(np.int32))


def train(data: Any, configs: list[Any], splits: list[Any]) -> tuple[Any, float]:
    """Train to the end: the trainer and the seconds, from the first tensor on."""
    import torch

    from cmpe.learning.training.trainer import Trainer

    torch.cuda.synchronize()
    begin = time.perf_counter()
    trainer = Trainer(data, configs, splits, device="cuda")
    for _ in trainer.epochs():
        pass
    torch.cuda.synchronize()
    return trainer, time.perf_counter() - begin


def measure(file: Path) -> Iterator[Record]:
    """One record for one model, one for 150."""
    from cmpe.learning.training.config import paper
    from cmpe.learning.training.data import folds

    data = unpack(file)
    whole = (np.arange(len(data)), np.arange(0))
    grid = itertools.product((0.1, 1.0, 2.0, 5.0, 10.0, 20.0), (0.01, 0.1, 1.0, 10.0, 100.0))
    settings = [paper("ss_cmpe_pen", beta=b, rho=r, **ALPHA) for b, r in grid]
    parts = folds(len(data), 5, 0)
    stack = [(config, part) for config in settings for part in parts]
    train(data, [paper("ss_cmpe_pen", epochs=2, **ALPHA)], [whole])  # loads every kernel
    for name, configs, splits in (
        ("one", [paper("ss_cmpe_pen", **ALPHA)], [whole]),
        ("stack", [c for c, _ in stack], [p for _, p in stack]),
    ):
        trainer, seconds = train(data, configs, splits)
        yield {
            "part": name,
            "model": data.problem.name,
            "members": len(configs),
            "rows": len(splits[0][0]),
            "epochs": trainer.epoch,
            "steps": trainer.epoch * trainer.steps,
            "seconds": round(seconds, 2),
            "us_per_step": round(1e6 * seconds / (trainer.epoch * trainer.steps), 1),
        }


if __name__ == "__main__":
    run_modes(prepare, measure)
