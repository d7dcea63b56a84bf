"""Training on a GPU: the paper's schedule for one model, and for 150 of them stacked.

Two steps, because the machine with the GPU may lack numba:

    python -m benchmarks.learned_gpu prepare DIR PROBLEM_DIR...   here: labels, bounds, coefficients
    python benchmarks/learned_gpu.py time OUT.jsonl FILE.pkl...   there, with PYTHONPATH=src

PROBLEM_DIR is what `cmpe generate` writes. The schedule is the preset `paper` with ss_cmpe_pen:
9,000 rows, batches of 128, 300 epochs; the stack is its grid of 6 x 5 settings on 5 folds.
"""

from __future__ import annotations

import itertools
import json
import pickle
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from benchmarks.dual_gpu import without_numba
else:  # run as a file, beside its neighbour
    from dual_gpu import without_numba  # type: ignore[import-not-found,no-redef]


def prepare(out: Path, folders: list[Path]) -> None:
    """Pack each problem with what training reads: data, and the coefficients of every row."""
    import cmpe
    from cmpe.learning.config import paper
    from cmpe.learning.data import prepare as make
    from cmpe.learning.relaxation import Relaxation

    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        content = cmpe.read_directory(folder)
        p = content.problem
        plain = cmpe.Problem(p.objective, p.constraints, p.evidence_variables, p.name)
        data = make(plain, content.train, paper("ss_cmpe_pen"), measured=np.arange(9000))
        pack(data, Relaxation(plain).rows(data.evidence), out / f"{p.name}.pkl")


def pack(data: Any, rows: Any, path: Path) -> None:
    """Write training data with its rows' coefficients, without what can be made again."""
    import lzma

    p = data.problem
    plain = type(p)(p.objective, p.constraints, p.evidence_variables, p.name)
    small = replace(data, problem=plain, labels=data.labels.astype(np.int8))
    whole = pickle.dumps((small, [part.numpy() for part in rows]))
    path.write_bytes(lzma.compress(whole, preset=1))


def unpack(path: Path) -> Any:
    """The training data; from now on its rows' coefficients are the packed ones."""
    import lzma

    import torch

    from cmpe.learning.relaxation import Coefficients, Relaxation

    data, rows = pickle.loads(lzma.decompress(path.read_bytes()))

    def given(self: Relaxation, evidence: Any) -> Coefficients:
        assert len(evidence) == len(rows[0]) + 1  # the last row stands for none
        whole = (np.concatenate([part, part[:1]]) for part in rows)
        return Coefficients(*(torch.as_tensor(part, device=self.device) for part in whole))

    Relaxation.rows = given  # type: ignore[method-assign]
    return replace(data, labels=data.labels.astype(np.int32))


def train(data: Any, configs: list[Any], splits: list[Any]) -> tuple[Any, float]:
    """Train to the end: the trainer and the seconds, from the first tensor on."""
    import torch

    from cmpe.learning.training import Trainer

    torch.cuda.synchronize()
    begin = time.perf_counter()
    trainer = Trainer(data, configs, splits, device="cuda")
    for _ in trainer.epochs():
        pass
    torch.cuda.synchronize()
    return trainer, time.perf_counter() - begin


def measure(file: Path) -> list[dict[str, Any]]:
    """One record for one model, one for 150."""
    from cmpe.learning.config import paper
    from cmpe.learning.data import folds

    data = unpack(file)
    whole = (np.arange(len(data)), np.arange(0))
    grid = itertools.product((0.1, 1.0, 2.0, 5.0, 10.0, 20.0), (0.01, 0.1, 1.0, 10.0, 100.0))
    settings = [paper("ss_cmpe_pen", beta=b, rho=r) for b, r in grid]
    parts = folds(len(data), 5, 0)
    stack = [(config, part) for config in settings for part in parts]
    records = []
    train(data, [paper("ss_cmpe_pen", epochs=2)], [whole])  # loads every kernel
    for name, configs, splits in (
        ("one", [paper("ss_cmpe_pen")], [whole]),
        ("stack", [c for c, _ in stack], [p for _, p in stack]),
    ):
        trainer, seconds = train(data, configs, splits)
        record = {
            "part": name,
            "model": data.problem.name,
            "members": len(configs),
            "rows": len(splits[0][0]),
            "epochs": trainer.epoch,
            "steps": trainer.epoch * trainer.steps,
            "seconds": round(seconds, 2),
            "us_per_step": round(1e6 * seconds / (trainer.epoch * trainer.steps), 1),
        }
        records.append(record)
        print(json.dumps(record), flush=True)
    return records


def main() -> None:
    mode, first, *rest = sys.argv[1:]
    if mode == "prepare":
        prepare(Path(first), [Path(p) for p in rest])
        return
    import torch

    without_numba()
    header = {"machine": torch.cuda.get_device_name(), "versions": {"torch": torch.__version__}}
    lines = [json.dumps(r) for r in (header, *(r for p in rest for r in measure(Path(p))))]
    Path(first).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
