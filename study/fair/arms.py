"""The arms of the fair study, and how one of them is trained.

Every arm has four settings and the same three margins. Seed 0 of all settings is trained first; the
validation rows choose one setting with one margin, the one of least regret among those that violate
at most ALLOWED of the rows; four more seeds are trained with that setting. Test rows are answered
at the chosen setting and every margin, and read by `figures` alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.formats.text import atomic_writer
from cmpe.learning.losses.catalogue import Family, loss_kind
from cmpe.learning.prediction import Predictor
from cmpe.learning.runs import Trained
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.trainer import Trainer
from cmpe.problem import Instances
from study.fair.cells import ALLOWED, MARGINS, KeptCell, write_json

SEEDS = (0, 1, 2, 3, 4)
TEMPERATURES = (0.0, 2.0)
EPOCHS, LONG_EPOCHS = 100, 300


@dataclass(frozen=True)
class Arm:
    """A loss, where its alpha comes from, and the four settings that it may choose from."""

    name: str
    loss: str
    data: str  # one of cells.KINDS
    setting: str  # the field of TrainingConfig that differs between settings
    values: tuple[float, float, float, float]
    alpha: str = "fixed"
    contrast: float = 1.0

    @property
    def temperatures(self) -> tuple[float, ...]:
        """Losses that learn from labels have no entropy bonus."""
        return (0.0,) if loss_kind(self.loss).labels else TEMPERATURES

    def config(self, epochs: int, value: float, temperature: float, seed: int) -> TrainingConfig:
        """One run of this arm; everything else is the paper's."""
        is_supervised = loss_kind(self.loss).family is Family.supervised
        base = TrainingConfig(
            loss=self.loss, alpha=self.alpha, contrast=self.contrast, epochs=epochs, beta=1.0,
            plateau_factor=1.0 if is_supervised else 0.9, margins=MARGINS, keep_best=False,
            evaluate_every=epochs, temperature=temperature, seed=seed,
        )  # fmt: skip
        changes: dict[str, Any] = {self.setting: value}
        return replace(base, **changes)


BETAS = (0.1, 1.0, 5.0, 20.0)
RHOS = (0.01, 0.1, 1.0, 10.0)
ARMS = (
    Arm("ss_cmpe, refined alpha", "ss_cmpe", "printed", "beta", BETAS, alpha="paper"),
    Arm("ss_cmpe, precomputed alpha", "ss_cmpe", "printed", "beta", BETAS, alpha="precomputed"),
    Arm("ss_cmpe, contrast 3", "ss_cmpe", "fixed", "beta", BETAS, contrast=3.0),
    Arm("ssl_pen", "ssl_pen", "none", "rho", RHOS),
    Arm("pdl", "pdl", "none", "penalty_start", RHOS),
    Arm("mse_pen", "mse_pen", "labels", "rho", RHOS),
    Arm("mae_pen", "mae_pen", "labels", "rho", RHOS),
)


@dataclass(frozen=True)
class Choice:
    """The setting and the margin that the validation rows chose for one temperature."""

    temperature: float
    value: float
    margin: float
    regret: float
    violation: float


def choose(
    members: Sequence[tuple[float, float]], regret: NDArray[Any], violation: NDArray[Any]
) -> list[Choice]:
    """For each temperature the best (setting, margin); arrays are (margins, members)."""
    chosen = []
    for temperature in dict.fromkeys(t for t, _ in members):
        tried = [
            Choice(temperature, value, margin, float(regret[i, k]), float(violation[i, k]))
            for k, (t, value) in enumerate(members)
            for i, margin in enumerate(MARGINS)
            if t == temperature
        ]
        safe = [c for c in tried if c.violation <= ALLOWED and np.isfinite(c.regret)]
        if safe:
            chosen.append(min(safe, key=lambda c: c.regret))
        else:
            chosen.append(min(tried, key=lambda c: c.violation))
    return chosen


def train_arm(cell: KeptCell, arm: Arm, epochs: int, device: str = "cpu") -> None:
    """Train one arm of one cell, and keep its answers to the test rows."""
    data = cell.data(arm.data)
    parts = (cell.train, cell.validation)
    members = [(t, v) for t in arm.temperatures for v in arm.values]
    first = _trained(data, [arm.config(epochs, v, t, 0) for t, v in members], parts, device)
    looks = [first.look(margin) for margin in MARGINS]
    choices = choose(
        members, np.array([x.regret for x in looks]), np.array([x.violation for x in looks])
    )
    again = [arm.config(epochs, c.value, c.temperature, s) for c in choices for s in SEEDS[1:]]
    second = _trained(data, again, parts, device)
    answers, runs = [], []
    for i, choice in enumerate(choices):
        at = members.index((choice.temperature, choice.value))
        more = len(SEEDS) - 1
        nets = [(first, at), *((second, i * more + j) for j in range(more))]
        answers.append([_answers(cell, trainer, member, device) for trainer, member in nets])
        runs.append({**vars(choice), "arm": arm.name, "epochs": epochs, "setting": arm.setting})
    free = list(cell.problem.free)
    whole = np.array(answers)[..., free]  # (temperatures, seeds, margins, rows, free variables)
    path = cell.folder / f"{file_name(arm)}.npz"
    write_json(path.with_suffix(".json"), runs)
    with atomic_writer(path) as stream:
        np.savez_compressed(stream, answers=np.packbits(whole == 1, axis=-1))


def _trained(
    data: Any, configs: Sequence[TrainingConfig], parts: tuple[Any, Any], device: str
) -> Trainer:
    trainer = Trainer(data, configs, [parts] * len(configs), device=device)
    for _ in trainer.epochs():
        pass
    return trainer


def _answers(cell: KeptCell, trainer: Trainer, member: int, device: str) -> list[NDArray[Any]]:
    """Assignments of the test rows, for each margin."""
    program = trainer.program
    weights = {k: v.detach() for k, v in program.adam.member(member).items()}
    trained = Trained(trainer.configs[member], "", weights)
    network = Predictor(cell.problem, trained, device, program.relaxation)
    instances = Instances(cell.problem, cell.test)
    return [network.predict(instances, margin)[0] for margin in MARGINS]


def file_name(arm: Arm) -> str:
    """The files of an arm, without their suffix."""
    return arm.name.replace(",", "").replace(" ", "-")


def is_done(folder: Path, arm: Arm) -> bool:
    """Whether an arm of a cell has been trained: its answers are written last."""
    return (folder / f"{file_name(arm)}.npz").exists()


def kept_runs(cell: KeptCell) -> Iterator[tuple[dict[str, Any], NDArray[np.int32]]]:
    """What was trained in a cell: each choice, and its answers to the test rows.

    The answers are values of the free variables (seeds, margins, rows, free variables).
    """
    for arm in ARMS:
        if not is_done(cell.folder, arm):
            continue
        path = cell.folder / f"{file_name(arm)}.npz"
        with np.load(path) as kept:
            bits = np.unpackbits(kept["answers"], axis=-1, count=len(cell.problem.free))
        choices = json.loads(path.with_suffix(".json").read_text())
        yield from zip(choices, bits.astype(np.int32), strict=True)
