"""The attacks that are compared, each by name.

ilp                    the proved optimum, on a few images
copy                   the paper's autoencoder trained to copy: what any such network pays
mse, ..., ss_cmpe_pen  the paper's autoencoder under each of its losses
residual               a network that changes the image instead of drawing it anew
attack                 the classical attack, without a network
attack+8bit            the same in 8-bit levels
foolbox:NAME           known attacks of foolbox (extra `study`), on a few images
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats
from cmpe.core.compiler import timing
from cmpe.errors import MethodError
from cmpe.flip import flip_of
from cmpe.learning.losses.catalogue import PAPER_LOSSES
from cmpe.learning.runs import CHECKPOINT, CONFIG, Record, read_log, read_trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig, paper
from cmpe.learning.training.fitting import Session, fit
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.flips.attack import AttackSettings, attack
from cmpe.solving import solve
from study.adversarial.attacked_sets import Part
from study.adversarial.foolbox import NAMES as FOOLBOX
from study.adversarial.foolbox import known_attack, need_foolbox

METHODS = ("ilp", "copy", *PAPER_LOSSES, "residual", "attack", "attack+8bit")
FOOLBOX_PREFIX = "foolbox:"
EVERY = (*METHODS, *(f"{FOOLBOX_PREFIX}{name}" for name in FOOLBOX))
CONTRAST = 3.0  # of ss_cmpe and ss_cmpe_pen; with 1 two of three seeds collapse


@dataclass(frozen=True)
class StudyEffort:
    """How long each kind of method may take."""

    epochs: int = 20  # for the paper's autoencoders, the copy and the residual network
    few: int = 10  # images that ilp and foolbox get, of all networks together
    seconds: float = 20.0  # per image, for ilp
    seed: int = 0
    device: str = "cpu"
    threads: int = 1

    def __post_init__(self) -> None:
        if min(self.epochs, self.few, self.threads) < 1:
            raise MethodError("epochs, few and threads must be at least 1")
        Limits(seconds=self.seconds)  # refused now, not after hours


@dataclass(frozen=True)
class Answers:
    """Changed images of the first rows of a part; NaN where there is none."""

    changed: Floats  # (B, n)
    bound: Floats  # (B,): no flip by the problem's margin is nearer; 0: nothing is known
    train_seconds: float
    seconds: float  # per image


def check(methods: Sequence[str]) -> None:
    """Refuse what no study could do, before any work is done."""
    for method in methods:
        if method not in EVERY:
            raise _unknown(method)
    if any(method.startswith(FOOLBOX_PREFIX) for method in methods):
        need_foolbox()


def _unknown(method: str) -> MethodError:
    return MethodError(f"a method is one of {', '.join(EVERY)}; found {method!r}")


def config_of(method: str, effort: StudyEffort) -> TrainingConfig:
    """How the network of a method is trained."""
    common: dict[str, Any] = {"seed": effort.seed, "keep_best": False}
    if method == "copy":  # no penalty: f alone
        return paper("ssl_pen", epochs=effort.epochs, penalty_start=0.0, rho=0.0, **common)
    if method in PAPER_LOSSES:  # the smooth form: without it nothing pushes across the boundary
        how = {
            "beta": 1.0,
            "alpha": "fixed",
            "contrast": CONTRAST,
        }
        return paper(method, epochs=effort.epochs, **how, **common)
    if method == "residual":
        return TrainingConfig(
            loss="ss_cmpe_pen", head="residual", hidden=(512,), skip=True, epochs=effort.epochs,
            beta=1.0, rho=1.0, margins=(0.0, 0.5, 1.0), **common,
        )  # fmt: skip
    raise _unknown(method)


def run_of(method: str) -> str | None:
    """The name of the network that a method uses; None if it needs none."""
    return method if method in (*PAPER_LOSSES, "copy", "residual") else None


def answer(
    method: str,
    part: Part,
    effort: StudyEffort,
    run: Path,
    progress: Callable[[Record], None] | None,
) -> Answers:
    """Train what the method needs, or read it from `run`, and attack the part's test images."""
    if run_of(method) is None:
        return _without_network(method, part, effort, progress)
    solver, train = _network(method, part, effort, run, progress)
    alone = solver.with_stages(certificate="none", repair=False)
    solve(part.problem, part.test[:64], method=alone)  # compiles
    begin = timing.now()
    found = solve(part.problem, part.test, method=alone)
    spent = (timing.now() - begin) / max(1, len(part.test))
    return _answers(_changed(part, found.assignments), train, spent)


def _answers(changed: Floats, train: float, seconds: float) -> Answers:
    return Answers(changed, np.zeros(len(changed)), train, seconds)


def _changed(part: Part, rows: NDArray[Any]) -> Floats:
    flip = flip_of(part.problem)
    assert flip is not None
    images: Floats = rows[:, np.array(part.problem.free)[flip.changed]].astype(np.float64)
    return np.where(images < 0.0, np.nan, images)


def _network(
    method: str,
    part: Part,
    effort: StudyEffort,
    run: Path,
    progress: Callable[[Record], None] | None,
) -> tuple[NeuralSolver, float]:
    """The trained network of a method, from its run directory if it is there."""
    config = config_of(method, effort)
    done = (run / CONFIG).exists() and read_trained(run).finished
    if not done:
        session = Session(
            out=run, device=effort.device, resume=(run / CHECKPOINT).exists(),
            threads=effort.threads, progress=progress,
        )  # fmt: skip
        fit(part.problem, part.train, config, session)
    return NeuralSolver.load(run, part.problem), float(read_log(run)[-1]["seconds"])


def _without_network(
    method: str, part: Part, effort: StudyEffort, progress: Callable[[Record], None] | None
) -> Answers:
    few = part.test[: effort.few]
    begin = timing.now()
    if method == "ilp":
        shown = None if progress is None else lambda k, n: progress({"image": k, "images": n})
        found = solve(
            part.problem, few, method="milp", time_limit=effort.seconds, seed=effort.seed,
            running=Running(threads=effort.threads, progress=shown),
        )  # fmt: skip
        spent = (timing.now() - begin) / max(1, len(few))
        return Answers(_changed(part, found.assignments), -found.bound, 0.0, spent)
    if method.startswith(FOOLBOX_PREFIX) and method in EVERY:
        known = known_attack(
            method.removeprefix(FOOLBOX_PREFIX), part.network, few, seed=effort.seed
        )
        spent = (timing.now() - begin) / max(1, len(few))
        return _answers(known.images, 0.0, spent)
    if method not in ("attack", "attack+8bit"):
        raise _unknown(method)
    config = AttackSettings(levels=method == "attack+8bit")
    attack(part.network, part.test[:64], config=config)  # compiles
    begin = timing.now()
    images = attack(part.network, part.test, config=config, seed=effort.seed).images
    return _answers(images, 0.0, (timing.now() - begin) / max(1, len(part.test)))
