"""`fit`: from a problem and rows of evidence to a trained solver, and to a run directory.

Ctrl-C stops between two steps and leaves a checkpoint and a usable solver; `resume` continues
to the same weights.
"""

from __future__ import annotations

import json
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from cmpe.errors import InputError, MethodError
from cmpe.formats.labels import problem_digest
from cmpe.learning.losses.catalogue import Family
from cmpe.learning.networks.modules import Own, sizes_of
from cmpe.learning.networks.reading import Reads
from cmpe.learning.runs import (
    CHECKPOINT,
    Record,
    Trained,
    describe,
    locked,
    read_checkpoint,
    write_checkpoint,
    write_log,
)
from cmpe.learning.settings import TRAINING
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.calibration import calibrate, choose_passes
from cmpe.learning.training.config import TrainingConfig, tuned
from cmpe.learning.training.data import (
    FreshRows,
    TrainingData,
    TrainingWarning,
    draw,
    prepare,
    split,
)
from cmpe.learning.training.tensorboard import Board
from cmpe.learning.training.trainer import Epoch, Trainer
from cmpe.problem import Evidence, Form, Instances, Problem, need_problem
from cmpe.problem.evidence import FullRows
from cmpe.problem.rows import Limits, Potentials, Rows
from cmpe.solvers.base import Running
from cmpe.tensor.device import torch_threads


@dataclass(frozen=True)
class Session:
    """Options of running a training: device, output, resuming and the like."""

    out: Path | None = None  # the run directory
    device: str = "cpu"
    resume: bool = False
    checkpoint_minutes: float = 5.0
    cache: Path | None = None  # where labels are kept: the problem directory
    threads: int = 1  # used by torch and by the engines that make labels and bounds
    progress: Callable[[Record], None] | None = None  # called after every epoch
    labelling: Running | None = None  # how labels are made; default: with the threads

    def running(self) -> Running:
        """How labels are made."""
        return self.labelling or Running(threads=self.threads)


def fit(  # noqa: PLR0913
    problem: Problem,
    evidence: Evidence | None,
    config: TrainingConfig | None = None,
    session: Session | None = None,
    *,
    network: nn.Module | str | None = None,
    inputs: ArrayLike | None = None,
    potentials: Potentials | None = None,
    limits: Limits | None = None,
) -> NeuralSolver:
    """Train a network on rows of evidence (default: the preset `tuned`), and return it as a solver.

    With `config.rows`, this many rows are drawn from the objective and trained on as well.

    `network` is a torch module, or an import path `package.module:name` of a function of (inputs,
    outputs) that makes one. It reads evidence as 0/1 (one-hot where a variable has more values) and
    gives a logit for each free variable of two values, k for each of k. The module itself is
    not changed; margins, passes and predict_multiplier of the config are ignored.

    `inputs` (N, ...) are numbers of each row, such as features or images. The module reads them in
    place of the evidence; functions of the problem with `features` read them, too.

    `potentials` and `limits` are those of each row, as in `solve`; soft evidence counts as
    potentials. Without `inputs` the network reads them after the evidence: of each table every
    entry but the first, less the first; of each limit its distance from the mean, in deviations.
    """
    need_problem(problem, "fit")
    has_own = not (inputs is None and potentials is None and limits is None)
    usual: dict[str, Any] = {"rows": 0} if has_own else {}
    config, session = config or tuned(problem=problem, **usual), session or Session()
    if problem.form is Form.RULES:
        raise MethodError(
            "fit needs rules of at most 256 joint states, found one of many variables; write it "
            "as a limit on a count, such as cmpe.count({...}) == 1"
        )
    if network is None and config.module:
        raise MethodError("this config is of a network of yours; give fit the network")
    if inputs is not None and network is None:
        raise MethodError("inputs go with a network of yours")
    whole = _given(Rows.of(problem, evidence, potentials, limits, inputs=inputs))
    if whole.problem.lift is not None and config.rows:
        raise MethodError(
            f"rows with potentials, limits or inputs are those given; found {config.rows} to draw: "
            "give a config with rows=0"
        )
    own = None
    if network is not None:
        reads = Reads.of(whole.problem.lift)
        shape = () if inputs is None else np.shape(inputs)[1:]
        own = Own.of(network, sizes_of(problem, shape, reads))
    config = config if own is None else config.of_module()
    rows = [whole.evidence]
    begin = time.monotonic()
    if config.rows:
        rows.append(draw(problem, config.rows, config.seed))
    with torch_threads(session.threads), locked(session.out):
        data = prepare(
            Instances(whole.problem, np.concatenate(rows)), config,
            measured=split(len(rows[0]), config)[1], cache=session.cache,
            running=session.running(),
        )  # fmt: skip
        taught = time.monotonic() - begin
        return TrainingRun(data, config, session, len(rows[0]), taught, own).train()


def _given(rows: Rows) -> Instances:
    """The rows; with numbers of their own those of their lifted problem, its number last."""
    problem = rows.problem
    given = problem.instances(FullRows(rows.evidence))
    if not rows.has_numbers:
        return given
    observed = [*problem.evidence_variables, problem.variables]
    numbered = rows.numbered(rows.evidence)[:, observed]
    return Instances(rows.lifted.observing(observed), numbered)


@dataclass
class TrainingRun:
    """One training run: the loop around the trainer, its files and its clock."""

    data: TrainingData
    config: TrainingConfig
    session: Session
    own: int  # the first rows, some of which are held out; the others are all trained on
    taught: float = 0.0  # seconds of drawing, labels and bounds
    module: Own | None = None  # the user's network
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        train, held = split(self.own, self.config)
        train = np.concatenate([train, np.arange(self.own, len(self.data))])
        self._fresh = self._fresh_rows() if self.config.fresh else None
        self.trainer = Trainer(
            self.data, [self.config], [(train, held)], device=self.session.device,
            fresh=self._fresh, module=None if self.module is None else self.module.module,
        )  # fmt: skip
        self._about = describe(self.data.problem, self.config, self.data.evidence)
        self._begin = self._kept = time.monotonic()
        self._before = 0.0  # seconds of the runs that this one resumes
        self._warned: set[str] = set()
        if self.session.resume:
            self._load()
        self._board = Board(self.session.out)

    def _fresh_rows(self) -> FreshRows:
        return FreshRows(self.data.problem, self.config, self.session.running())

    def train(self) -> NeuralSolver:
        """Run the epochs; on Ctrl-C keep what there is and say so."""
        with interruptible() as interrupted:
            for epoch in self.trainer.epochs(interrupted):
                self._report(epoch)
                if time.monotonic() - self._kept > 60.0 * self.session.checkpoint_minutes:
                    self._keep()
            stopped = not self.trainer.is_done
        self._board.close()
        if self._fresh is not None:
            self._fresh.close()
        self._keep()
        self.trainer.finish()
        solver = self._solver()
        if self.session.out is not None:
            solver.save(self.session.out)
        if stopped:
            out = self.session.out
            where = f"; {out} holds what there is, --resume continues" if out else ""
            raise KeyboardInterrupt(f"stopped after {self.trainer.epoch} epochs{where}")
        return solver

    def _solver(self) -> NeuralSolver:
        program = self.trainer.program
        weights = {k: v.cpu() for k, v in program.adam.member(0).items()}
        weights |= {k: v.cpu().unsqueeze(0) for k, v in program.buffers.items()}
        lift = self.data.problem.lift
        problem = self.data.problem if lift is None else lift.problem
        inputs = () if lift is None or lift.inputs is None else lift.inputs.shape[1:]
        trained = Trained(
            self.config,
            problem_digest(problem),
            weights,
            calibrate(self.trainer)[0],
            self.trainer.epoch,
            self.trainer.is_done,
            problem.name,
            choose_passes(self.trainer)[0],
            self.module,
            inputs,
            self.data.reads,
        )
        return NeuralSolver(problem, trained)

    def _report(self, epoch: Epoch) -> None:
        record = self._record(epoch)
        self.records.append(record)
        self._diagnose(record)
        if self.session.out is not None:
            write_log(self.session.out, self.records)
        self._board.show(record)
        if self.session.progress is not None:
            self.session.progress(record)

    def _record(self, epoch: Epoch) -> Record:
        spent = self._before + time.monotonic() - self._begin
        left = (self.config.epochs - epoch.number) * spent / epoch.number
        record: Record = {"epoch": epoch.number, "epochs": self.config.epochs}
        record |= {name: _number(value[0]) for name, value in epoch.measures.items()}
        record["learning_rate"] = float(epoch.rates[0])
        record["rows"] = len(self.data) - len(self.trainer.splits[0][1])
        record["taught_seconds"] = self.taught + (self._fresh.seconds if self._fresh else 0.0)
        if epoch.look is not None:
            look = epoch.look
            record |= {
                "validation_regret": _number(look.regret[0]),
                "validation_violation": _number(look.violation[0]),
                "validation_score": _number(look.score[0]),
                "dependence": _number(look.dependence[0]),
                "distinct": int(look.distinct[0]),
                "kept": bool(epoch.kept[0]),
            }
        return record | {"seconds": spent, "seconds_left": left}

    def _diagnose(self, record: Record) -> None:
        """Warn once when outputs stop depending on x, or when a number is no longer one."""
        if record["loss"] is None:
            raise MethodError(
                f"the loss is not a number in epoch {record['epoch']}; lower the learning rate"
            )
        spread, number = record.get("dependence"), record["epoch"]
        if spread is None or number < TRAINING.flat_epochs:
            return
        few = record["distinct"] < TRAINING.flat_distinct * self._optima
        if (few or spread < self._least_spread) and record["saturated"] > TRAINING.flat_saturated:
            self._warn(
                "flat",
                f"epoch {number}: outputs hardly depend on the evidence (they vary by "
                f"{spread:.1e} over validation rows, whose {self._optima} optima get "
                f"{record['distinct']} answers; {record['saturated']:.0%} are saturated, gradient "
                f"norm {record['gradient_norm']:.1e}); {_CURES[self.config.kind.family]}",
            )

    @cached_property
    def _known_optima(self) -> NDArray[Any]:
        """The free variables of the validation rows' labels, where there are any."""
        first = self.data.plain_labels(self.trainer.splits[0][1])
        return first[(first >= 0).all(axis=1)][:, list(self.trainer.program.relaxation.free)]

    @cached_property
    def _optima(self) -> int:
        """How many different optima validation rows are known to have."""
        return len(np.unique(self._known_optima, axis=0))

    @cached_property
    def _least_spread(self) -> float:
        known = self._known_optima
        if len(known) < 2 or not known.size:
            return (
                TRAINING.flat_deviation
                if len(np.unique(self.data.evidence, axis=0)) > 1
                else -math.inf
            )
        return TRAINING.flat_spread * float(
            self.trainer.program.relaxation.coordinates.of(known).std(0).mean()
        )

    def _warn(self, kind: str, sentence: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(sentence, TrainingWarning, stacklevel=2)

    def _keep(self) -> None:
        self._kept = time.monotonic()
        if self.session.out is not None:
            spent = self._before + time.monotonic() - self._begin
            about = {**self._about, "seconds": spent, "records": json.dumps(self.records)}
            write_checkpoint(self.session.out, self.trainer.state(), about)

    def _load(self) -> None:
        if self.session.out is None or not (self.session.out / CHECKPOINT).exists():
            raise InputError(f"{self.session.out}: nothing to resume: no {CHECKPOINT} there")
        state, about = read_checkpoint(self.session.out)
        for name, mine in self._about.items():
            if about.get(name) != mine:
                raise InputError(f"{self.session.out}: the checkpoint is of another {name}")
        self._before, self.records = about["seconds"], json.loads(about["records"])
        self.trainer.load_state(state)


# What to change when outputs are flat.
_CURES = {
    Family.supervised: "a lower learning_rate helps",
    Family.self_supervised: "a temperature above 0 and a lower rho help",
    Family.consistent: "a temperature and a fixed alpha with contrast 3 (preset stable) help",
    Family.distilled: "a lower learning_rate helps",
}


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Ctrl-C or SIGTERM sets a flag instead of breaking off a step; a second one breaks off."""
    asked = threading.Event()

    def note(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
