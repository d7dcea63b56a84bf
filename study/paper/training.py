"""The stages that train: one task alone, or many tasks of one GPU side by side.

A task trains one network, or one member per setting of its grid, of which the validation rows
choose one. A `Stack` is a batched program of all tasks that differ in their seed only; several
stacks may take turns (see gpu.py). Nothing here needs compiled code.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cmpe.formats.labels import problem_digest
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.prediction import Predictor
from cmpe.learning.runs import Trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.calibration import calibrate, choose_passes
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.data import TrainingData, asked_margins, split
from cmpe.learning.training.stacking import FoldPlan, choose, settings_of
from cmpe.learning.training.trainer import Epoch, Trainer
from cmpe.problem import Instances
from cmpe.solvers.base import Running
from cmpe.tensor.device import torch_threads
from study.paper.artifacts import (
    ANSWERS,
    Rows,
    answers_file,
    assignments_of,
    rows_of,
    unpacked,
)
from study.paper.store import Artifact, Json, json_file

LABELS, BOUNDS, RESULT, CURVE = "labels.npz", "bounds.npz", "result.json", "curve.json"
CHOICE, ROWS, LESSONS = "choice.json", "rows.npz", "lessons.npz"
REPEATS = 3  # of a timed forward pass


def with_drawn(rows: Rows, drawn: Artifact) -> NDArray[np.int32]:
    """The training rows, and the drawn ones behind them."""
    cards = [rows.problem.objective.cardinalities[v] for v in rows.problem.evidence_variables]
    return np.concatenate([rows.train, unpacked("rows", drawn.arrays(ROWS), cards)])


def taught_data(rows: Rows, inputs: dict[str, Artifact], config: TrainingConfig) -> TrainingData:
    """What training reads, from the stages `draw` and `teach`."""
    found, evidence = inputs["lessons"].arrays(LESSONS), with_drawn(rows, inputs["drawn"])
    held = split(len(rows.train), config)[1]
    labels = assignments_of(Instances(rows.problem, evidence), found).astype(np.int8)
    numbers = {name: found[name].astype(float) for name in ("p_upper", "q_lower", "multipliers")}
    margins = asked_margins(len(evidence), held, config)
    return TrainingData(
        rows.problem, evidence, margins, found["usable"], labels[:, np.newaxis],
        found["reference"], **numbers,
    )  # fmt: skip


def training_data(rows: Rows, inputs: dict[str, Artifact], config: TrainingConfig) -> TrainingData:
    """What training reads, from the stages `labels` and `bounds`."""
    if "lessons" in inputs:
        return taught_data(rows, inputs, config)
    found, known = inputs["labels"].arrays(LABELS), inputs["bounds"].arrays(BOUNDS)
    usable = known["usable"].copy()
    plain = int(np.flatnonzero(np.array(config.margins) == 0.0)[0])
    usable[np.isneginf(found["bound"]), plain] = False
    labels = np.zeros((*usable.shape, 0), dtype=np.int32)  # no loss here reads them but these:
    if config.kind.labels:
        labels = np.full((*usable.shape, rows.problem.variables), -1, dtype=np.int32)
        labels[:, plain] = assignments_of(Instances(rows.problem, rows.train), found)
        usable &= labels[..., 0] >= 0
    numbers = {name: known[name].astype(float) for name in ("p_upper", "q_lower", "multipliers")}
    margins = asked_margins(len(rows.train), np.zeros(0, dtype=np.intp), config)
    return TrainingData(
        rows.problem, rows.train, margins, usable, labels, found["bound"], **numbers
    )


def cross_validation(settings: Json, inputs: dict[str, Artifact], device: str = "cpu") -> Artifact:
    """The setting of the grid with the best mean score over folds.

    With `finalists`, of the best so many settings of an earlier choice, made with fewer epochs.
    """
    config = TrainingConfig.from_json(settings["config"])
    rows = rows_of(inputs["problem"], settings["q"])
    plan = FoldPlan(folds=settings["folds"], device=device)
    with torch_threads(1):
        data = training_data(rows, inputs, config)
        found = choose(data, _asked(settings, inputs), config, plan)
    trials = [{k: _plain(v) for k, v in asdict(t).items()} for t in found.trials]
    return Artifact({CHOICE: json_file({"setting": trials[0]["setting"], "trials": trials})})


def _asked(settings: Json, inputs: dict[str, Artifact]) -> list[dict[str, Any]]:
    """The settings that a cross-validation compares."""
    if "earlier" not in inputs:
        return settings_of(settings["grid"])
    trials = inputs["earlier"].json(CHOICE)["trials"]
    return [trial["setting"] for trial in trials[: settings["finalists"]]]


def train(settings: Json, inputs: dict[str, Artifact]) -> Artifact:
    """One task on its own."""
    with torch_threads(1):
        stack = Stack(rows_of(inputs["problem"], settings["q"]), inputs, [chosen(settings, inputs)])
        for _ in stack.steps():
            pass
        (artifact,) = stack.artifacts()
    return artifact


def chosen(settings: Json, inputs: dict[str, Artifact]) -> Json:
    """The settings with what cross-validation chose."""
    if "choice" not in inputs:
        return settings
    setting = inputs["choice"].json(CHOICE)["setting"]
    return {**settings, "grid": {name: [value] for name, value in setting.items()}}


class Stack:
    """Tasks that differ in their seed only, as one batched program."""

    def __init__(
        self, rows: Rows, inputs: dict[str, Artifact], tasks: Sequence[Json], device: str = "cpu"
    ) -> None:
        self.rows, self.tasks, self.device = rows, list(tasks), device
        bases = [TrainingConfig.from_json(t["config"]) for t in tasks]
        data = training_data(rows, inputs, bases[0])
        self.grids = [settings_of(t["grid"]) for t in tasks]
        parts = [train_parts(rows, data, base) for base in bases]
        configs = [replace(b, **s) for b, g in zip(bases, self.grids, strict=True) for s in g]
        splits = [p for p, g in zip(parts, self.grids, strict=True) for _ in g]
        self.begin = time.perf_counter()
        self.trainer = Trainer(data, configs, splits, device=device)
        self.curve: list[Epoch] = []
        self.clock: list[float] = []

    def steps(self) -> Iterator[None]:
        """Train to the end; yields between two steps."""
        for epoch in self.trainer.steps_on():
            if epoch is not None and epoch.look is not None:
                self.curve.append(epoch)
                self.clock.append(time.perf_counter() - self.begin)
            yield
        self.trainer.finish()

    def artifacts(self, seconds: float | None = None) -> list[Artifact]:
        """One for every task, of its best member; `seconds` of the device went into all."""
        spent = time.perf_counter() - self.begin if seconds is None else seconds
        members = len(self.trainer.configs)
        score = self.trainer.look(0.0).choice_score
        calibrations = list(zip(calibrate(self.trainer), choose_passes(self.trainer), strict=True))
        made, first = [], 0
        for settings, grid in zip(self.tasks, self.grids, strict=True):
            best = first + int(np.argmin(score[first : first + len(grid)]))
            aside = {
                "train_seconds": spent * len(grid) / members,
                "members": len(grid),
                "stacked": members,
                "device": torch.device(self.device).type,
                "curve_seconds": self.clock,
            }
            made.append(self._artifact(best, *calibrations[best], settings, aside))
            first += len(grid)
        return made

    def _artifact(
        self, member: int, calibration: Any, passes: Any, settings: Json, aside: Json
    ) -> Artifact:
        config = self.trainer.configs[member]
        weights = {k: v.detach() for k, v in self.trainer.program.adam.member(member).items()}
        digest = problem_digest(self.rows.problem)
        trained = Trained(config, digest, weights, calibration, self.trainer.epoch, passes=passes)
        relaxation, problem = self.trainer.program.relaxation, self.rows.problem
        network = Predictor(problem, trained, self.device, relaxation)
        instances = Instances(problem, self.rows.test)
        margin = trained.calibrated_margin()
        alone = Pipeline(repair=False, certificate="none")
        solver = NeuralSolver(problem, trained, alone, Running(device=self.device))
        answers = solver.solve(problem, self.rows.test).assignments
        network.predict(Instances(problem, self.rows.test[:1]), margin)
        seconds = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            for asked in trained.asked_margins:
                network.predict(instances, asked)
            seconds.append(time.perf_counter() - begin)
        each = float(np.median(seconds)) / max(1, len(instances))
        relaxed = np.packbits(network.relaxed_violations(instances, margin))
        setting = {name: _plain(getattr(config, name)) for name in settings["grid"]}
        result = {
            "setting": setting,
            "margin": margin,
            "passes": list(passes),
            "epochs": trained.epochs,
            "finite": all(bool(w.isfinite().all()) for w in weights.values()),
        }
        files = {
            ANSWERS: answers_file(self.rows.problem, answers, relaxed=relaxed),
            RESULT: json_file(result),
            CURVE: json_file([_record(epoch, member) for epoch in self.curve]),
        }
        return Artifact(files, {**aside, "row_seconds": [each] * len(instances)})


def train_parts(
    rows: Rows, data: TrainingData, config: TrainingConfig
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows to train and to validate on; drawn rows are all trained on."""
    train, held = split(len(rows.train), config)
    return np.concatenate([train, np.arange(len(rows.train), len(data))]), held


def _record(epoch: Epoch, member: int) -> Json:
    assert epoch.look is not None
    return {
        "epoch": epoch.number,
        "loss": _plain(epoch.measures["loss"][member]),
        "validation_regret": _plain(epoch.look.regret[member]),
        "validation_violation": _plain(epoch.look.violation[member]),
    }


def _plain(value: Any) -> Any:
    """JSON: numbers of six digits, null for what is not finite."""
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return {k: _plain(v) for k, v in value.items()} if isinstance(value, dict) else value
