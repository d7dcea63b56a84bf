"""What each process of a data-parallel run does; `test_distributed` starts two of them.

Run as a module with a folder and two ports: it trains with the group of the first port, then
calls `fit` with the group of the second, and writes what it found to FOLDER/RANK.npz.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

from cmpe.errors import MethodError
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.data import prepare, split
from cmpe.learning.training.distributed import Ranks, ranks_from_environment
from cmpe.learning.training.fitting import Session, fit
from cmpe.learning.training.trainer import Trainer
from tests.learning.cases import quick, small_grid

# 43 rows to train on: the last batch is not full.
CONFIGS = {
    "ss_cmpe": quick("ss_cmpe", epochs=4, beta=5.0, learning_rate=1e-2, plateau_patience=0),
    "ssl_pen": quick("ssl_pen", epochs=4, rho=5.0, learning_rate=1e-2),
    "pdl": quick("pdl", epochs=10, learning_rate=1e-2),
    "margins": quick("distill", epochs=3, margins=(-1.0, 0.0, 0.5), predict_multiplier=True),
    "large_batch": quick("ssl_pen", epochs=3, batch_size=128, learning_rate=1e-2),
}
FITTED = quick("ss_cmpe", epochs=3, learning_rate=1e-2)


def train_all(ranks: Ranks) -> dict[str, np.ndarray]:
    """Weights, curves and what is kept per example, of every config."""
    one = small_grid()
    found: dict[str, np.ndarray] = {}
    for name, config in CONFIGS.items():
        data = prepare(one.problem.given(one.train), config)
        trainer = Trainer(data, [config], [split(len(data), config)], ranks=ranks)
        epochs = list(trainer.epochs())
        found[f"{name}.weights"] = trainer.program.adam.flat.numpy()
        found[f"{name}.p_upper"] = trainer.program.examples.p_upper.numpy()
        found[f"{name}.penalty"] = trainer.program.examples.penalty.numpy()
        for measure in ("loss", "excess", "gradient_norm", "rounded_violation"):
            found[f"{name}.{measure}"] = np.array([e.measures[measure] for e in epochs])
        found[f"{name}.rates"] = np.array([e.rates for e in epochs])
        found[f"{name}.score"] = np.array([e.look.score for e in epochs if e.look is not None])
    return found


def fit_here(folder: Path) -> np.ndarray:
    """The weights that `fit` ends with."""
    one = small_grid()
    solver = fit(one.problem, one.train, FITTED, Session(out=folder))
    return in_one_row(solver)


def in_one_row(solver: NeuralSolver) -> np.ndarray:
    """All weights, by name."""
    parts = sorted(solver.trained.parameters.items())
    return np.concatenate([value.numpy().ravel() for _, value in parts])


def refusal(ranks: Ranks) -> str:
    """What is said of a batch that the processes cannot share."""
    one = small_grid()
    config = quick(batch_size=15)
    data = prepare(one.problem.given(one.train), config)
    try:
        Trainer(data, [config], [split(len(data), config)], ranks=ranks)
    except MethodError as error:
        return str(error)
    return "accepted"


def main(folder: Path, port: str) -> None:
    with ranks_from_environment("cpu") as ranks:
        found = train_all(ranks)
        found["rank"] = np.array([ranks.rank, ranks.size])
        found["refusal"] = np.array(refusal(ranks))
    os.environ["MASTER_PORT"] = port
    found["fitted"] = fit_here(folder / "run")
    np.savez(folder / f"{os.environ['RANK']}.npz", **found)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
